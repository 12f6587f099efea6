"""The final step says how the run ends: completed, partial or failed (semantics.md 35)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from noetl_temporal.machine.facts import CancelRequested, Fact, LimitReached, TimerFired
from tests.machine.controlled import ControlledRun
from tests.machine.driver import Run, error, run_text
from tests.machine.playbooks import playbook, step

STATUSES = ("completed", "partial", "failed")
HANDLED_ARCS = "    next: {arcs: [{step: end, when: \"{{ event.name == 'call.error' }}\"}, {step: end}]}\n"


def text(status: str | None, *, handled: bool = False, tasks: str = "    tool: {kind: noop}\n", head: str = "") -> str:
    """One step, and the final step with a status."""
    way = HANDLED_ARCS if handled else ""
    line = "" if status is None else f"    status: {status}\n"
    return playbook(f"  - step: start\n    tool: {{kind: noop}}\n{way}  - step: end\n{tasks}{line}", head)


def run_of(source: str, *, fails: bool) -> Run:
    return run_text(
        source, lambda call: error("boom") if fails and call.step == "start" else call.config.get("message")
    )


def last_rows(run: Run) -> list[tuple[str, str, str | None]]:
    return [(event.type, event.status, event.error) for event in run.events[-2:]]


@pytest.mark.parametrize(
    ("message", "fails", "handled"), list(product((None, *STATUSES), (False, True), (False, True)))
)
def test_the_run_has_the_status_of_the_final_step(message: str | None, fails: bool, handled: bool) -> None:
    run = run_of(text(message, handled=handled), fails=fails)
    status = message or ("failed" if fails and not handled else "completed")
    assert run.finish.status == status
    [(workflow, row, _), (last_type, same, _)] = last_rows(run)
    assert workflow == "workflow.finished"
    assert last_type == ("playbook.failed" if status == "failed" else "playbook.completed")
    assert row == same == status.upper()
    assert [event.meta.get("final_status") for event in run.events[-2:]] == [message, message]
    assert run.finish.failures.total == int(fails) + (status == "failed" and not (fails and not handled))


def test_a_status_may_be_a_template_about_the_failures() -> None:
    source = text("\"{{ 'partial' if failures | selectattr('kind', 'eq', 'tool') | list else 'completed' }}\"")
    assert run_of(source, fails=True).finish.status == "partial"
    assert run_of(source, fails=False).finish.status == "completed"


def test_a_partial_run_lists_what_failed_and_a_completed_one_does_not() -> None:
    assert [row[2] for row in last_rows(run_of(text("partial"), fails=True))] == ["boom", "boom"]
    assert [row[2] for row in last_rows(run_of(text("completed"), fails=True))] == [None, None]


def test_a_run_that_is_called_failed_has_a_failure_with_its_place() -> None:
    run = run_of(text("failed"), fails=False)
    [failure] = run.finish.failures.detailed
    assert (failure.step, failure.kind, failure.line, failure.col) == ("end", "policy", 9, 13)
    assert [row[2] for row in last_rows(run)] == [failure.message] * 2


@pytest.mark.parametrize("wrong", ["'done'", "1", "none", "[1]", "'Partial'"])
def test_an_unknown_status_fails_the_run_at_its_place(wrong: str) -> None:
    run = run_of(text(f'"{{{{ {wrong} }}}}"'), fails=False)
    assert run.finish.status == "failed"
    [failure] = run.finish.failures.detailed
    assert failure.message.startswith("status is ")
    assert failure.message.endswith(", expected completed, partial or failed")
    assert (failure.step, failure.kind, failure.line) == ("end", "template", 9)


def test_an_undefined_name_fails_the_run_at_its_place() -> None:
    run = run_of(text('"{{ ctx.missing }}"'), fails=False)
    assert [(failure.step, failure.kind, failure.line) for failure in run.finish.failures.detailed] == [
        ("end", "template", 9)
    ]


def test_a_final_step_that_fails_sets_no_status() -> None:
    run = run_text(text("completed"), lambda call: error() if call.step == "end" else None)
    assert run.finish.status == "failed"


def test_it_is_evaluated_after_the_tasks_and_set_of_the_final_step() -> None:
    tasks = "    tool: {kind: noop, message: partial}\n    set: {ctx.verdict: '{{ output.data }}'}\n"
    assert run_of(text('"{{ ctx.verdict }}"', tasks=tasks), fails=False).finish.status == "partial"
    assert run_of(text('"{{ end }}"', tasks=tasks), fails=False).finish.status == "partial"
    assert run_of(text('"{{ output.data }}"', tasks=tasks), fails=False).finish.status == "partial"


def test_a_final_step_without_tasks_sets_the_status_too() -> None:
    assert run_of(text("partial", tasks=""), fails=True).finish.status == "partial"


def test_the_final_step_may_have_another_name() -> None:
    source = playbook(step("start") + "  - {step: last, status: partial}\n", "executor: {spec: {final_step: last}}\n")
    assert run_of(source, fails=False).finish.status == "partial"


STATUS_STEPS = """  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: good}, {step: bad}, {step: denied}, {step: never, when: false}]}
  - {step: good, tool: {kind: noop}}
  - {step: bad, tool: {kind: noop}}
  - {step: denied, tool: {kind: noop}, when: "{{ false }}"}
  - {step: never, tool: {kind: noop}}
"""
STEPS = {"start": "completed", "good": "completed", "bad": "failed", "denied": "skipped", "never": None}
FAILURES = [{"step": "bad", "task": "bad_task", "kind": "tool", "message": "boom", "iteration": None, "handled": False}]


def observed_status(end: str) -> Any:
    run = run_text(
        playbook(STATUS_STEPS + end), lambda call: error() if call.step == "bad" else call.config.get("message")
    )
    return run.finish.result


def test_the_final_step_sees_the_other_steps_and_the_failures() -> None:
    both = "{steps: '{{ steps }}', failures: '{{ failures }}'}"
    expected = {"steps": STEPS, "failures": FAILURES}
    assert observed_status(f"  - {{step: end, tool: {{kind: noop, message: {both}}}}}\n") == expected
    assert (
        observed_status(f"  - {{step: end, input: {{a: {both}}}, tool: {{kind: noop, message: '{{{{ a }}}}'}}}}\n")
        == expected
    )
    loop = "loop: {in: '{{ failures }}', iterator: one}"
    task = "tool: {kind: noop, message: ['{{ one.step }}', '{{ steps.bad }}']}"
    assert observed_status(f"  - {{step: end, {loop}, {task}}}\n")["results"] == [["bad", "failed"]]


def test_names_of_the_playbook_come_first() -> None:
    source = playbook(
        step("start") + "  - {step: end, tool: {kind: noop, message: ['{{ steps }}', '{{ failures }}']}}\n",
        "workload: {steps: 3, failures: none}\n",
    )
    assert run_of(source, fails=True).finish.result == [3, "none"]


def test_failures_of_items_are_seen_with_their_index() -> None:
    source = playbook(
        "  - step: start\n    loop: {in: [0, 1, 2], iterator: one}\n    tool: {kind: noop, message: '{{ one }}'}\n"
        "  - step: end\n    status: \"{{ failures | map(attribute='iteration') | list == [1] and 'partial' }}\"\n"
    )
    run = run_text(source, lambda call: error() if call.config["message"] == 1 else None)
    assert run.finish.status == "partial"


def stop_run(*, snapshots: bool, head: str = "") -> ControlledRun:
    source = step("start") + "  - {step: end, tool: {kind: noop}, status: completed}\n"
    return ControlledRun(source, snapshots=snapshots, head=head)


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize(("stop", "status"), [(CancelRequested, "cancelled"), (LimitReached, "failed")])
def test_the_status_of_a_stop_stays(stop: type[Fact], status: str, snapshots: bool) -> None:
    run = stop_run(snapshots=snapshots)
    run.feed(stop, "enough")
    run.ends(step="start")
    run.ends(step="end")
    assert run.finish.status == status


@pytest.mark.parametrize("snapshots", [False, True])
def test_the_status_of_a_stop_stays_that_came_while_the_final_step_ran(snapshots: bool) -> None:
    run = stop_run(snapshots=snapshots)
    run.ends(step="start")
    run.feed(CancelRequested, "enough")
    run.ends(step="end")
    assert run.finish.status == "cancelled"


def test_a_timeout_of_the_playbook_stays_a_failure() -> None:
    run = stop_run(snapshots=False, head="executor: {spec: {timeout: 3s}}\n")
    run.feed(TimerFired, "playbook:timeout")
    run.ends(step="start")
    run.ends(step="end")
    assert run.finish.status == "failed"


def test_the_status_of_fail_fast_stays() -> None:
    head = "executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n"
    assert run_of(text("completed", head=head), fails=True).finish.status == "failed"
    assert run_of(text("partial", head=head), fails=False).finish.status == "partial"


def test_a_held_final_step_gives_its_status_when_it_is_retried() -> None:
    run = ControlledRun(step("start") + "  - {step: end, on_failure: hold, tool: {kind: noop}, status: partial}\n")
    run.ends(step="start")
    run.ends(error(), step="end")
    run.retry()
    run.ends(step="end")
    assert run.finish.status == "partial"


def test_a_denied_final_step_sets_no_status() -> None:
    admit = "spec: {policy: {admit: {rules: [{then: {allow: false}}]}}}"
    end = f"  - {{step: end, tool: {{kind: noop}}, status: partial, {admit}}}\n"
    assert run_text(playbook(step("start") + end), lambda _call: None).finish.status == "completed"


def test_failures_in_a_loop_over_steps_are_seen_whose_end_was_not_reached() -> None:
    """They were added to the failures of the run only after its final step."""
    source = playbook(
        "  - step: start\n    loop: {in: [1, 2], iterator: one}\n    next: {arcs: [{step: body}]}\n"
        "  - {step: body, tool: {kind: noop, message: '{{ one }}'}, next: {arcs: [{step: stop}]}}\n"
        "  - {step: stop, spec: {end_loop: start, policy: {admit: {rules: [{then: {allow: false}}]}}}}\n"
        "  - step: end\n    tool: {kind: noop, message: '{{ failures | length }}, {{ steps.body }}'}\n"
        "    status: \"{{ 'partial' if failures else 'completed' }}\"\n"
    )
    run = run_text(source, lambda call: error() if call.step == "body" and call.config["message"] == 2 else call.config)
    assert run.finish.result["message"] == f"{run.finish.failures.total}, failed"
    assert run.finish.status == "partial"
