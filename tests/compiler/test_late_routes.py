"""Routes that a rule about one item of a loop names, and that are followed after the whole loop (NT411)."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.conditions import arc_condition
from noetl_compiler.diagnostics import Severity
from noetl_compiler.emission import migrate, without_places
from noetl_compiler.graph import Graph, Json
from noetl_compiler.source import SourceFile

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: late, path: test/late}}
workload: {{cities: [a]}}
workflow:
  - step: start
    loop: {{in: "{{{{ workload.cities }}}}", iterator: city}}
    tool: {{kind: noop}}
    case:
      - when: "{{{{ event.name == 'step.exit' and response.status == 200 }}}}"
        then:
          - next: [{{step: told, args: {args}}}]
  - step: told
    tool: {{kind: noop}}
    next: end
"""
NOTE = "((ctx._chosen | default({})).start | default({})).args['0']"


@pytest.mark.parametrize(
    ("args", "passed", "places"),
    [
        ("{name: '{{ city }}'}", {"name": f"{{{{ {NOTE}['name'] }}}}"}, {"/name"}),
        ("{a/b: '{{ city }}'}", {"a/b": f"{{{{ {NOTE}['a/b'] }}}}"}, {"/a~1b"}),
        ("'{{ workload.first }}'", "{{ workload.first }}", {""}),  # no names to note: read when the loop is over
    ],
)
def test_what_is_passed_on(args: str, passed: Json, places: set[str]) -> None:
    graph = compile_text(PLAYBOOK.format(args=args)).graph
    assert graph is not None
    (given,) = [one.value for arc in graph.steps["start"].route.arcs if arc.to == "told" for one in arc.set]
    assert (given.data, set(given.templates)) == (passed, places)


TWO_RULES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: late, path: test/late}
workload: {cities: [a, b]}
workflow:
  - step: start
    loop: {in: "{{ workload.cities }}", iterator: city}
    tool: {kind: noop}
    case:
      - when: "{{ event.name == 'step.exit' and city == 'a' }}"
        then: {next: [{step: told}]}
      - when: "{{ event.name == 'step.exit' and city == 'b' }}"
        then: {next: [{step: told}, {step: end}]}
  - {step: told, tool: {kind: noop}, next: end}
"""


def graph_of(text: str) -> Graph:
    graph = compile_text(text).graph
    assert graph is not None
    return graph


def test_an_arc_says_as_data_which_rule_it_is_for() -> None:
    arcs = graph_of(TWO_RULES).steps["start"].route.arcs
    assert [(arc.item_rule.index, arc.item_rule.span.line) for arc in arcs if arc.item_rule] == [(0, 10), (1, 12)]
    assert [arc.when for arc in arcs] == [None, None]


def test_the_condition_is_told_by_the_line_of_the_rule() -> None:
    arcs = graph_of(TWO_RULES).steps["start"].route.arcs
    assert [arc_condition(arc, "loop").rest for arc in arcs] == [
        "the rule at line 10 was the last that an item matched",
        "the rule at line 12 was the last that an item matched",
    ]


def test_neither_route_is_taken_for_one_that_always_matches() -> None:
    found = compile_text(TWO_RULES).diagnostics
    assert [one.code for one in found if one.code in (Code.DEAD_ROUTE, Code.UNREACHABLE_STEP)] == []


def test_v10_says_it_with_a_key_of_its_own() -> None:
    migrated = migrate(SourceFile("late.yaml", TWO_RULES)).text
    assert migrated is not None
    assert migrated.count("item_rule: ") == 2
    assert "default(-1)" not in migrated
    assert without_places(graph_of(migrated)) == without_places(graph_of(TWO_RULES))


@pytest.mark.parametrize("wrong", ["true", "-1", "1.5", "first"])
def test_an_item_rule_is_a_number(wrong: str) -> None:
    text = (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
        "  - {step: start, tool: {kind: noop}, next: {arcs: [{step: end, item_rule: " + wrong + "}]}}\n"
        "  - {step: end, tool: {kind: noop}}\n"
    )
    found = [one for one in compile_text(text).diagnostics if one.severity is Severity.ERROR]
    assert [one.code for one in found] == [Code.WRONG_TYPE]
    assert found[0].message.startswith('"item_rule" must be a number from 0')
