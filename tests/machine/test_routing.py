"""Paths of a run: sequence, fan-out, joins, loops back, failure, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall

from .activity import Activity
from .driver import Run, error, run_text
from .playbooks import playbook, step


def steps_run(run: Run) -> list[str]:
    return [event.node for event in run.of("step.started")]


def test_a_sequence_runs_in_order_and_ends_once() -> None:
    run = run_text(
        playbook(step("start", "a") + step("a", "b") + step("b", "end") + step("end")), lambda call: call.step
    )
    assert steps_run(run) == ["start", "a", "b", "end"]
    assert run.finish.status == "completed"
    assert run.finish.result == "end"


def test_a_missing_end_and_missing_routes_are_supplied() -> None:
    run = run_text(playbook(step("start", "a") + step("a")), lambda call: {"from": call.step})
    assert steps_run(run) == ["start", "a", "end"]
    assert run.finish.result == {"from": "a"}


def test_a_route_and_the_set_of_a_step_see_the_number_of_the_attempt() -> None:
    retry = "{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 5, delay: 0}}"
    tool = f"tool: {{kind: noop, spec: {{policy: {{rules: [{retry}]}}}}}}"
    arcs = "arcs: [{step: late, when: '{{ _attempt == 3 }}'}, {step: early}]"
    start = f"  - {{step: start, {tool}, set: {{ctx.n: '{{{{ attempt }}}}'}}, next: {{{arcs}}}}}\n"
    late = "  - {step: late, tool: {kind: noop, result: '{{ ctx.n }}'}}\n"
    answers = iter([error("busy"), error("busy"), 1])
    activity = Activity(lambda call: next(answers) if call.step == "start" else call.config["result"])
    run = run_text(playbook(start + late + step("early")), activity)
    assert steps_run(run) == ["start", "late", "end"]
    assert run.finish.result == 3


def test_inclusive_arcs_fan_out_and_the_join_runs_once() -> None:
    text = playbook(
        step("start", "a", "b", mode="inclusive")
        + step("a", "join")
        + step("b", "join")
        + step("join", "end")
        + step("end")
    )
    run = run_text(text, lambda _call: None)
    assert steps_run(run) == ["start", "a", "b", "join", "end"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_join_waits_for_the_longer_path_whichever_ends_first(first: int) -> None:
    text = playbook(
        step("start", "a", "b", mode="inclusive")
        + step("a", "join")
        + step("b", "c")
        + step("c", "join")
        + step("join", "end")
        + step("end")
    )
    run = run_text(text, lambda _call: None, pick=lambda count: first % count)
    assert steps_run(run).count("join") == 1
    assert steps_run(run).index("join") > steps_run(run).index("c")


def test_join_each_runs_for_every_arrival() -> None:
    text = playbook(
        step("start", "a", "b", mode="inclusive")
        + step("a", "join")
        + step("b", "join")
        + step("join", "end").replace("    tool", "    spec: {join: each}\n    tool")
        + step("end")
    )
    run = run_text(text, lambda _call: None)
    assert steps_run(run).count("join") == 2
    assert steps_run(run).count("end") == 1


def test_join_any_runs_for_the_first_arrival_alone() -> None:
    meet = "  - step: meet\n    spec: {join: any}\n    tool: {kind: noop}\n"
    text = playbook(
        step("start", "a", "b", mode="inclusive") + step("a", "meet") + step("b", "slow") + step("slow", "meet") + meet
    )
    run = run_text(text, lambda call: call.step)
    assert steps_run(run).count("meet") == 1
    assert steps_run(run).index("meet") < steps_run(run).index("slow")


def test_several_routes_without_a_condition_are_taken_at_once() -> None:
    text = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
    text += "- {step: start, tool: noop, next: [a, {step: b}]}\n- {step: a, tool: noop}\n- {step: b, tool: noop}\n"
    assert steps_run(run_text(text, lambda call: call.step)) == ["start", "a", "b", "end"]


def test_a_loop_back_enters_the_join_again() -> None:
    text = playbook(
        """
  - step: start
    tool: {kind: noop}
    set: {ctx.n: 0}
    next: {arcs: [{step: work}]}
  - step: work
    tool: {kind: noop}
    set: {ctx.n: "{{ ctx.n + 1 }}"}
    next:
      arcs:
        - {step: work, when: "{{ ctx.n < 4 }}"}
        - {step: end}
  - step: end
    tool: {kind: noop}
"""
    )
    run = run_text(text, lambda _call: None)
    assert steps_run(run) == ["start", "work", "work", "work", "work", "end"]


def test_two_joins_in_a_cycle_do_not_wait_for_one_another() -> None:
    text = playbook(
        step("start", "x", "y", mode="inclusive")
        + step("x", "y")
        + step("y", "x").replace("- step: x", '- {step: x, when: "{{ false }}"}')
        + step("end")
    )
    assert run_text(text, lambda _call: None).finish.status == "completed"


def test_exclusive_takes_the_first_match_in_yaml_order() -> None:
    text = playbook(
        """
  - step: start
    tool: {kind: noop}
    next:
      spec: {mode: exclusive}
      arcs:
        - {step: a, when: "{{ workload.n > 5 }}"}
        - {step: b, when: "{{ workload.n > 1 }}"}
        - {step: c}
"""
        + step("a")
        + step("b")
        + step("c"),
        "workload: {n: 3}\n",
    )
    run = run_text(text, lambda _call: None)
    assert steps_run(run) == ["start", "b", "end"]
    [routing_event] = [event for event in run.of("next.evaluated") if event.node == "start"]
    assert routing_event.meta["chosen"] == ["b"]
    assert [arc["matched"] for arc in routing_event.meta["arcs"]] == [False, True]


def test_an_undefined_name_in_a_predicate_does_not_match_and_is_reported() -> None:
    text = playbook(
        """
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: a, when: "{{ start.nothing > 1 }}"}, {step: b}]}
"""
        + step("a")
        + step("b")
    )
    run = run_text(text, lambda _call: {"x": 1})
    assert steps_run(run) == ["start", "b", "end"]
    assert run.of("next.evaluated")[0].meta["arcs"][0]["indeterminate"]


@pytest.mark.parametrize("mistake", ["1 / 0 > 1", "none > 1", "start.x > none", "start.x.index('b') > 0"])
@pytest.mark.parametrize(
    "fields",
    [
        'next: {arcs: [{step: a, when: "{{ MISTAKE }}"}, {step: b}]}',
        'spec: {policy: {admit: {rules: [{when: "{{ MISTAKE }}", then: {allow: false}}]}}}',
    ],
)
def test_an_error_in_a_condition_fails_the_step_at_its_position(fields: str, mistake: str) -> None:
    line = f"    {fields.replace('MISTAKE', mistake.replace('start.x', 'workload.x'))}"
    text = playbook(
        f"  - step: start\n{line}\n    tool: {{kind: noop}}\n" + step("a") + step("b"), "workload: {x: a}\n"
    )
    run = run_text(text, lambda _call: None)
    assert run.finish.status == "failed"
    [failure] = run.finish.failures.detailed
    assert (failure.step, failure.kind) == ("start", "template")
    assert text.splitlines()[failure.line - 1] == line
    assert failure.col == line.index("{{") + 1
    assert steps_run(run)[-1] == "end"
    assert not {"a", "b"} & set(steps_run(run))


def fails(name: str) -> Callable[[ToolCall], Any]:
    def answer(call: ToolCall) -> Any:
        return error("boom") if call.step == name else {"from": call.step}

    return answer


def test_a_failure_goes_to_end_and_the_playbook_fails() -> None:
    run = run_text(playbook(step("start", "bad") + step("bad", "after") + step("after") + step("end")), fails("bad"))
    assert steps_run(run) == ["start", "bad", "end"]
    assert run.finish.status == "failed"
    [failure] = run.finish.failures.detailed
    assert (failure.step, failure.message, failure.handled) == ("bad", "boom", False)
    assert failure.line > 0
    started = run.of("step.started")[-1]
    assert started.meta["routed_to_end"] is True
    assert started.meta["original_failed_step"] == "bad"
    failure_event = run.of("playbook.failed")[0]
    assert failure_event.meta["evaluated_by_end_step"] is True
    assert failure_event.meta["failed_steps_count"] == 1
    assert failure_event.meta["total_steps"] == 3


def test_an_arc_that_reads_the_failure_handles_it() -> None:
    text = playbook(
        """
  - step: start
    tool: {kind: noop}
    next:
      arcs:
        - {step: fine}
        - {step: repair, when: "{{ event.name == 'call.error' }}"}
"""
        + step("fine")
        + step("repair")
    )
    run = run_text(text, fails("start"))
    assert steps_run(run) == ["start", "repair", "end"]
    assert run.finish.status == "completed"
    assert run.finish.failures.detailed[0].handled


@pytest.mark.parametrize("name", ["step.failed", "call.error", "step.exit"])
def test_boundary_names_are_synonyms(name: str) -> None:
    text = playbook(
        f"""
  - step: start
    tool: {{kind: noop}}
    next: {{arcs: [{{step: repair, when: "{{{{ event.name == '{name}' }}}}"}}]}}
"""
        + step("repair")
    )
    assert "repair" in steps_run(run_text(text, fails("start")))


def test_fail_fast_cancels_the_other_branches() -> None:
    head = "executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n"
    text = playbook(
        step("start", "bad", "slow", mode="inclusive") + step("bad") + step("slow", "never") + step("never"), head
    )
    run = run_text(text, fails("bad"))
    assert run.finish.status == "failed"
    assert "never" not in steps_run(run)
    assert run.finish.steps["slow"]["status"] == "cancelled"
    assert steps_run(run).count("end") == 1


@pytest.mark.parametrize(("playbook_mode", "step_mode"), [("best_effort", "fail_fast"), ("fail_fast", "best_effort")])
def test_a_step_declares_what_its_failure_means_for_the_others(playbook_mode: str, step_mode: str) -> None:
    head = f"executor: {{spec: {{policy: {{failure: {{mode: {playbook_mode}}}}}}}}}\n"
    bad = f"  - step: bad\n    spec: {{policy: {{failure: {{mode: {step_mode}}}}}}}\n    tool: {{kind: noop}}\n"
    text = playbook(step("start", "bad", "slow", mode="inclusive") + bad + step("slow", "after") + step("after"), head)
    run = run_text(text, fails("bad"))
    assert run.finish.status == "failed"
    assert ("after" in steps_run(run)) == (step_mode == "best_effort")


def test_a_cycle_without_calls_ends_with_an_error() -> None:
    text = playbook("  - step: start\n    next: {arcs: [{step: a}]}\n  - step: a\n    next: {arcs: [{step: start}]}\n")
    run = run_text(text, lambda _call: None)
    assert run.finish.status == "failed"
    assert "cycle" in run.finish.failures.detailed[0].message


def test_a_denied_step_is_skipped_and_its_arcs_are_followed() -> None:
    text = playbook(
        """
  - step: start
    spec: {policy: {admit: {rules: [{when: "{{ workload.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
    next: {arcs: [{step: after}]}
"""
        + step("after"),
        "workload: {go: false}\n",
    )
    run = run_text(text, lambda _call: None)
    assert run.of("step.skipped")[0].node == "start"
    assert [call.step for call in run.calls] == ["after"]
    assert run.finish.steps["start"]["status"] == "skipped"


def test_an_undefined_value_fails_the_step_at_its_place() -> None:
    text = playbook('  - step: start\n    tool: {kind: noop, message: "{{ workload.nope }}"}\n')
    run = run_text(text, lambda _call: None)
    assert run.finish.status == "failed"
    [failure] = run.finish.failures.detailed
    assert failure.kind == "template"
    assert (failure.line, failure.col) == (6, text.splitlines()[5].index("{{") + 1)
    assert run.calls == []


def test_a_playbook_of_one_step_completes() -> None:
    assert run_text(playbook(step("start")), lambda _call: 1).finish.status == "completed"


def test_a_failing_end_fails_the_playbook() -> None:
    run = run_text(playbook(step("start", "end") + step("end")), fails("end"))
    assert run.finish.status == "failed"


def test_a_variable_called_passed_is_the_authors_own() -> None:
    """The compiler keeps what a route passes in the same context, under a name of its own."""
    text = playbook(
        """
  - step: start
    tool: {kind: noop, set: {ctx.passed: a, ctx.chosen: b}}
    next: {arcs: [{step: end, input: {one: 1}}]}
  - step: end
    tool: {kind: noop, input: {seen: ["{{ ctx.passed }}", "{{ ctx.chosen }}", "{{ one }}"]}}
"""
    )
    run = run_text(text, lambda call: call.input)
    assert run.finish.result == {"seen": ["a", "b", 1], "one": 1}
