"""Rules and routes about the items of a loop (dev/decisions/0067)."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph, Loop
from noetl_compiler.migration import migrate, without_spans
from noetl_compiler.source import SourceFile

CASE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: items, path: test/items}
workload: {cities: [a, b]}
workflow:
  - step: start
    loop: {in: "{{ workload.cities }}", iterator: city}
    tool: {kind: noop}
    case:
RULES
  - {step: told, tool: {kind: noop}, next: NEXT}
  - {step: other, tool: {kind: noop}, args: {name: null}}
"""
ALONE = """\
      - when: "{{ event.name == 'call.done' and city == 'a' }}"
        then: {next: [{step: told}]}
      - when: "{{ event.name == 'call.done' and city == 'b' }}"
        then: {set: {seen: 1}}
      - when: "{{ event.name == 'call.done' }}"
        then: {next: [{step: told}, {step: other, args: {name: "{{ city }}"}}]}
      - when: "{{ event.name == 'loop.done' }}"
        then: {next: [{step: end}]}
"""


def text(rules: str = ALONE, following: str = "end") -> str:
    return CASE.replace("RULES\n", rules).replace("NEXT", following)


def graph_of(text: str) -> Graph:
    graph = compile_text(text).graph
    assert graph is not None
    return graph


def loop_of(graph: Graph) -> Loop:
    loop = graph.steps["start"].loop
    assert loop is not None
    return loop


def errors(text: str) -> list[Code]:
    return [diagnostic.code for diagnostic in compile_text(text).diagnostics if diagnostic.severity is Severity.ERROR]


def warnings(text: str) -> list[Code]:
    return [diagnostic.code for diagnostic in compile_text(text).diagnostics if diagnostic.severity is Severity.WARNING]


def test_a_rule_about_an_item_is_a_route_of_the_item() -> None:
    graph = graph_of(text())
    loop = loop_of(graph)
    assert loop.entry_route is not None
    assert [arc.target for arc in loop.entry_route.arcs] == ["told", "end", "start/item_then_3"]
    assert loop.region == ("start/item_then_3", "told", "other")
    assert not loop.end
    assert [arc.target for arc in graph.steps["start"].route.arcs] == ["end"]


def test_v10_writes_the_routes_in_the_loop() -> None:
    migrated_text = migrate(SourceFile("items.yaml", text())).text
    assert migrated_text is not None
    assert without_spans(graph_of(migrated_text)) == without_spans(graph_of(text()))


def test_the_steps_on_a_route_are_reached_and_see_the_item() -> None:
    steps = text().replace(
        "{step: told, tool: {kind: noop}", '{step: told, tool: {kind: noop, r: "{{ city }}{{ start }}"}'
    )
    assert not {Code.UNREACHABLE_STEP, Code.UNDEFINED_NAME, Code.EARLY_RESULT} & set(warnings(steps))


def test_steps_after_the_loop_may_read_results_of_its_routes() -> None:
    rules = ALONE.replace("[{step: end}]", "[{step: after}]")
    steps = text(rules) + '  - {step: after, tool: {kind: noop, r: "{{ told.data }}"}}\n'
    assert Code.EARLY_RESULT not in warnings(steps)


def test_a_route_that_leads_only_to_the_end_is_dropped() -> None:
    rules = "      - {when: \"{{ event.name == 'call.done' }}\", then: {next: end}}\n"
    assert loop_of(graph_of(text(rules))).entry_route is None


def test_a_shared_step_is_warned_of() -> None:
    assert Code.SHARED_ROUTE in warnings(text(ALONE.replace("[{step: end}]", "[{step: told}]")))
    assert Code.SHARED_ROUTE not in warnings(text())


@pytest.mark.parametrize("back", ["start", "again"])
def test_a_route_may_not_lead_back_to_its_loop(back: str) -> None:
    step_again = """\
  - step: again
    loop: {in: [1], iterator: part}
    tool: {kind: noop}
    case: [{when: "{{ event.name == 'call.done' }}", then: {next: start}}]
"""
    assert Code.REGION_BORDER in errors(text(following=back) + (step_again if back == "again" else ""))


V10 = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: items}
workflow:
"""
REGION = (
    V10
    + """\
  - {step: start, loop: {in: [1], iterator: n}, next: {arcs: [{step: inner}]}}
  - step: inner
    loop: {in: [1], iterator: m, next: {arcs: [{step: told}]}}
    tool: {kind: noop}
    next: {arcs: [{step: done}]}
  - {step: told, tool: {kind: noop}NEXT}
  - {step: done, spec: {end_loop: start}}
"""
)


@pytest.mark.parametrize(("following", "codes"), [("", []), (", next: {arcs: [{step: done}]}", [Code.REGION_BORDER])])
def test_a_route_does_not_leave_the_loop_around_its_loop(following: str, codes: list[Code]) -> None:
    assert errors(REGION.replace("NEXT", following)) == codes


def test_a_loop_without_a_task_has_no_routes_of_items() -> None:
    steps = """\
  - {step: start, loop: {in: [1], iterator: n, next: {arcs: [{step: told}]}}, next: {arcs: [{step: told}]}}
  - {step: told, tool: {kind: noop}, next: {arcs: [{step: done}]}}
  - {step: done, spec: {end_loop: start}}
"""
    assert Code.CONFLICTING_FIELDS in errors(V10 + steps)


def test_a_step_on_a_route_may_be_held() -> None:
    steps = """\
  - step: start
    loop: {in: [1], iterator: n, next: {arcs: [{step: told}]}}
    tool: {kind: noop}
  - {step: told, tool: {kind: noop}, on_failure: hold}
"""
    assert Code.NO_EXECUTOR not in warnings(V10 + steps)


def test_parallel_items_that_set_one_name_are_warned_of() -> None:
    steps = """\
  - {step: start, loop: {in: [1], mode: parallel, next: {arcs: [{step: told}]}}, tool: {kind: noop}}
  - {step: told, tool: {kind: noop}, set: {ctx.x: 1}}
"""
    assert Code.PARALLEL_SET in warnings(V10 + steps)
