"""A condition that uses an undefined name does not match, and the log says so (semantics.md 15)."""

from __future__ import annotations

from typing import Any

import pytest

from .activity import Activity
from .driver import Run, error, run_text
from .playbooks import playbook, step

ROUTED_STEPS = """
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: a, when: "{{ WHEN }}"}]}
"""


def warnings(run: Run) -> list[str]:
    return [event.error or "" for event in run.of("warning")]


def run_with_route(when: str, answer: Any = None) -> Run:
    result = {"count": 5} if answer is None else answer
    return run_text(playbook(ROUTED_STEPS.replace("WHEN", when) + step("a")), lambda _call: result)


def test_a_typo_in_a_route_is_reported_at_its_place() -> None:
    run = run_with_route("start.cuont == 5")
    [warning] = run.of("warning")
    message = '"start.cuont" is undefined, so this condition did not match: did you mean "count"?'
    assert (warning.error, warning.node) == (message, "start")
    assert (warning.meta["source"]["line"], warning.meta["source"]["col"]) == (8, 36)


@pytest.mark.parametrize(
    "when",
    ["start.count == 6", "start.cuont is defined", "start.cuont | default(0) == 5", "error.kind == 'http'"],
)
def test_a_condition_may_test_whether_a_value_exists(when: str) -> None:
    assert warnings(run_with_route(when)) == []


def test_a_part_that_an_outcome_lacks_is_not_reported() -> None:
    assert warnings(run_with_route("output.http.status >= 500 or output.error.status > 400")) == []


def test_a_typo_is_reported_beside_a_route_that_raises() -> None:
    arcs = '[{step: a, when: "{{ start.cuont == 5 }}"}, {step: a, set: {ctx.x: "{{ 1 / start.zero }}"}}]'
    text = f"  - step: start\n    tool: {{kind: noop}}\n    next: {{arcs: {arcs}}}\n"
    run = run_text(playbook(text) + step("a"), lambda _call: {"count": 5, "zero": 0})
    types = [event.type for event in run.events if event.type in ("step.failed", "next.evaluated", "warning")]
    assert run.finish.status == "failed"
    assert types[:3] == ["step.failed", "next.evaluated", "warning"]
    assert ["start.cuont" in warning for warning in warnings(run)] == [True]


def test_after_a_failure_names_are_missing_on_purpose() -> None:
    assert warnings(run_with_route("start.count == 5", error())) == []


@pytest.mark.parametrize(("other", "expected"), [("response.x == 1", 0), ("response.x == 2", 1)])
def test_an_older_playbook_is_reported_only_where_no_condition_matched(other: str, expected: int) -> None:
    text = f"""
  - step: start
    tool: {{kind: python, code: "pass"}}
    case:
      - when: "{{{{ event.name == 'call.done' and response.y == 1 }}}}"
        then: {{next: [{{step: a}}]}}
      - when: "{{{{ event.name == 'call.done' and {other} }}}}"
        then: {{next: [{{step: b}}]}}
  - step: a
    tool: {{kind: python, code: "pass"}}
  - step: b
    tool: {{kind: python, code: "pass"}}
"""
    run = run_text(playbook(text), lambda _call: {"x": 1})
    assert sum('"response.y" is undefined' in warning for warning in warnings(run)) == expected


def test_an_admission_rule_is_reported() -> None:
    rules = '{rules: [{when: "{{ workload.off }}", then: {allow: false}}]}'
    text = f"  - step: start\n    spec: {{policy: {{admit: {rules}}}}}\n    tool: {{kind: noop}}\n"
    message = '"workload.off" is undefined, so this condition did not match: did you mean "of"?'
    assert warnings(run_text(playbook(text, "workload: {of: 1}\n"), lambda _call: None)) == [message]


LOOP = """
  - step: start
    loop:
      in: "{{ workload.items }}"
      iterator: item
      spec: {mode: parallel, where: "{{ item.hot }}"}
    tool:
      kind: noop
      spec:
        policy:
          rules:
            - when: "{{ output.moer }}"
              then: {do: retry, attempts: 2}
            - else:
                then: {do: continue}
"""


def run_loop(items: str) -> Run:
    head = f"workload:\n  items: {items}\n"
    return run_text(playbook(LOOP, head), Activity(lambda _call: {"more": True}))


def test_items_left_out_of_a_loop_are_counted_in_one_warning() -> None:
    messages = warnings(run_loop("[{hto: true}, {hto: true}, {hot: false}]"))
    assert messages == ['"item.hot" is undefined for 2 of 3 items, so they were left out: did you mean "hto"?']


def test_a_rule_is_reported_once_in_a_loop_however_many_items_it_has() -> None:
    run = run_loop(str([{"hot": True}] * 900).replace("'", '"').replace("True", "true"))
    message = '"output.moer" is undefined, so this condition did not match'
    assert warnings(run) == [message]
    assert len(run.calls) == 900


def test_a_rule_is_reported_once_over_the_pages_of_a_task() -> None:
    text = """
  - step: start
    tool:
      kind: noop
      name: call
      spec:
        policy:
          rules:
            - when: "{{ output.moer }}"
              then: {do: fail}
            - when: "{{ output.more }}"
              then: {do: jump, to: call}
            - else:
                then: {do: continue}
"""
    pages = iter([True, True, True, False])
    run = run_text(playbook(text), Activity(lambda _call: {"more": next(pages)}))
    assert (len(run.calls), len(warnings(run))) == (4, 1)
