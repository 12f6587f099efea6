"""Where a run begins and ends, in every dialect."""

from __future__ import annotations

import pytest

from .driver import Run, error, ok, run_text
from .playbooks import playbook, step

V10 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
V1 = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
ONE_AFTER_ANOTHER = {
    "v1": f"{V1}- {{step: start, type: noop, next: after}}\n- {{step: after, type: noop}}\n",
    "legacy": f"{V1}- {{step: start, tool: noop, next: after}}\n- {{step: after, tool: noop}}\n",
    "case": f"{V10}- step: start\n  tool: {{kind: noop}}\n"
    "  case: [{when: \"{{ event.name == 'call.done' }}\", then: {next: [{step: after}]}}]\n"
    "- {step: after, tool: {kind: noop}}\n",
    "v10": f"{V10}- {{step: start, tool: {{kind: noop}}, next: {{arcs: [{{step: after}}]}}}}\n"
    "- {step: after, tool: {kind: noop}}\n",
}


def steps_run(run: Run) -> list[str]:
    return [event.node for event in run.of("step.started")]


@pytest.mark.parametrize("dialect", ONE_AFTER_ANOTHER)
def test_every_dialect_gets_its_end(dialect: str) -> None:
    run = run_text(ONE_AFTER_ANOTHER[dialect], lambda call: call.step)
    assert steps_run(run) == ["start", "after", "end"]
    assert (run.finish.status, run.finish.result) == ("completed", "after")


@pytest.mark.parametrize("dialect", ONE_AFTER_ANOTHER)
def test_a_failure_leads_to_the_end_in_every_dialect_and_is_reported_there(dialect: str) -> None:
    run = run_text(ONE_AFTER_ANOTHER[dialect], lambda _call: error())
    assert steps_run(run) == ["start", "end"]
    start_meta = run.of("step.started")[-1].meta
    assert (start_meta["routed_to_end"], start_meta["original_failed_step"]) == (True, "start")
    [failure_event] = run.of("playbook.failed")
    assert failure_event.meta["evaluated_by_end_step"]
    assert (failure_event.meta["total_steps"], failure_event.meta["failed_steps_count"]) == (1, 1)
    assert list(run.finish.steps) == ["start"], "the playbook has no step end"


@pytest.mark.parametrize("name", ["end", "End", "END"])
def test_an_end_step_of_the_playbook_runs_its_tools_once(name: str) -> None:
    text = playbook(step("start", "a", "b", mode="inclusive") + step("a") + step("b") + step(name))
    run = run_text(text, lambda call: call.step)
    assert steps_run(run).count(name) == 1
    assert run.finish.result == name


@pytest.mark.parametrize(
    ("head", "names", "expected"),
    [
        ("", ("first", "start"), ["start", "end"]),
        ("", ("first", "second"), ["first", "end"]),
        ("executor: {spec: {entry_step: second}}\n", ("start", "second"), ["second", "end"]),
        ("executor: {spec: {final_step: last}}\n", ("start", "last"), ["start", "last"]),
    ],
)
def test_where_a_run_begins_and_ends(head: str, names: tuple[str, ...], expected: list[str]) -> None:
    assert steps_run(run_text(playbook("".join(map(step, names)), head), lambda _call: None)) == expected


@pytest.mark.parametrize("on_no_match", ["complete", "quiet", "end"])
def test_a_run_ends_though_no_arc_matches(on_no_match: str) -> None:
    arcs = "arcs: [{step: never, when: '{{ workload.go }}'}]"
    text = playbook(
        f"  - step: start\n    tool: {{kind: noop}}\n    next: {{spec: {{on_no_match: {on_no_match}}}, {arcs}}}\n"
        + step("never"),
        "workload: {go: false}\n",
    )
    run = run_text(text, lambda call: call.step)
    assert (steps_run(run), run.finish.status) == (["start", "end"], "completed")


def test_a_branch_with_on_no_match_quiet_does_not_lead_to_the_end() -> None:
    quiet = "next: {spec: {on_no_match: quiet}, arcs: [{step: never, when: '{{ workload.go }}'}]}"
    text = playbook(
        step("start", "loud", "still", mode="inclusive")
        + step("loud")
        + f"  - step: still\n    tool: {{kind: noop}}\n    {quiet}\n"
        + step("never"),
        "workload: {go: false}\n",
    )
    run = run_text(text, lambda call: call.step)
    assert run.finish.result == "loud"


def test_a_choice_of_several_steps_has_the_result_of_the_step_that_chose() -> None:
    steps = """  - step: start
    tool: {kind: noop, result: 1}
    next: {arcs: [{when: "{{ true }}", then: [{step: a}, {step: end}]}]}
  - {step: a, tool: {kind: noop, result: 2}}
"""
    run = run_text(playbook(steps), lambda call: ok(call.config.get("result")))
    assert run.finish.result == {"start": 1, "a": 2}
