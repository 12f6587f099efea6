"""Failed steps that wait for a person, without Temporal: retry, skip, and what happens meanwhile (semantics 42)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Cancel, Emit, Finish, StartTimer
from noetl_temporal.machine.control import RefusedError, find_held_run, retry_refusal, skip_refusal
from noetl_temporal.machine.facts import CancelRequested, RetryRequested, TimerFired
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.waits.refusals import MAX_SIGNAL_BYTES

from .controlled import ControlledRun
from .driver import error, ok

HELD = """\
  - step: start
    on_failure: hold
    tool: {kind: noop}
    set: {ctx.n: "{{ output.data }}"}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ start }} {{ ctx.n }}"}}
"""
BRANCHES = """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - {step: left, on_failure: {do: hold, for: 2h}, tool: {kind: noop}, next: {arcs: [{step: both}]}}
  - {step: right, tool: {kind: noop}, next: {arcs: [{step: both}]}}
  - {step: both, tool: {kind: noop}}
"""
FAIL_FAST = "executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n"
TIMED = "executor: {spec: {timeout: 100s, on_failure: hold}}\n"
LOOP = """\
  - step: start
    on_failure: hold
    loop: {in: "{{ range(10) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: noop, message: "{{ iter.n }}", set: {ctx.last: "{{ iter.n }}"}}
"""
snapshots = pytest.mark.parametrize("snapshots", [False, True], ids=["in memory", "restored"])


def calls(run: ControlledRun) -> list[str]:
    return [command.call.step for command in run.of(CallTool)]


@snapshots
def test_a_retry_is_the_next_run_of_the_step(snapshots: bool) -> None:
    run = ControlledRun(HELD, snapshots=snapshots)
    run.ends(error("no such table"))
    assert calls(run) == ["start"]
    assert run.machine.is_suspended
    held = next(event.event for event in run.of(Emit) if event.event.type == "step.held")
    assert (held.status, held.error, held.meta["step_run_id"]) == ("PAUSED", "no such table", "start#1")
    run.retry()
    run.ends(5)
    run.ends("done")
    assert calls(run) == ["start", "start", "after"]
    assert run.types("step.")[:6] == [
        "step.started",
        "step.held",
        "step.released",
        "step.failed",
        "step.started",
        "step.done",
    ]
    assert (run.finish.status, run.finish.failures.unhandled) == ("completed", 0)
    assert run.finish.steps["start"]["attempts"] == 2


@snapshots
def test_a_skipped_step_has_the_result_that_is_given(snapshots: bool) -> None:
    run = ControlledRun(HELD, snapshots=snapshots)
    run.ends(error())
    run.skip("start", 7)
    assert run.of(CallTool)[-1].call.config["message"] == "7 7"
    run.ends()
    assert run.finish.status == "completed"
    assert run.finish.steps["start"]["status"] == "completed"


def test_siblings_continue_and_fail_fast_waits() -> None:
    run = ControlledRun(BRANCHES, head=FAIL_FAST)
    run.ends(error(), step="left")
    run.ends(1, step="right")
    assert calls(run) == ["left", "right"]
    assert run.machine.state.stop is None
    [timer] = run.of(StartTimer)
    assert timer.seconds == 7200
    run.feed(TimerFired, timer.timer_id)
    assert run.finish.status == "failed"
    assert run.finish.failures.unhandled == 1


def test_the_timeout_of_the_playbook_does_not_count_while_a_step_is_held() -> None:
    run = ControlledRun(HELD.replace("    on_failure: hold\n", ""), head=TIMED)
    assert Cancel("playbook:timeout") in run.ends(error())
    run.now += 10_000_000
    timers = {command.timer_id: command.seconds for command in run.retry() if isinstance(command, StartTimer)}
    assert timers == {"playbook:timeout": 99}


@snapshots
def test_a_cancel_fails_held_steps(snapshots: bool) -> None:
    run = ControlledRun(HELD, snapshots=snapshots)
    run.ends(error())
    run.feed(CancelRequested, "enough")
    assert run.finish.status == "cancelled"
    assert run.types("step.")[:4] == ["step.started", "step.held", "step.released", "step.failed"]


def test_a_step_with_on_failure_fail_is_not_held() -> None:
    run = ControlledRun(HELD.replace("hold", "fail"), head=TIMED)
    run.ends(error())
    assert run.of(Finish)[0].status == "failed"


@pytest.mark.parametrize("size", [2, 400], ids=["in chunks", "whole"])
@snapshots
def test_a_retried_loop_runs_the_items_that_did_not_succeed(
    monkeypatch: pytest.MonkeyPatch, snapshots: bool, size: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", size)
    run = ControlledRun(LOOP, snapshots=snapshots)

    def answer(call: ToolCall) -> Any:
        return error() if call.iteration in (2, 3, 7) else ok(f"first {call.iteration}")

    run.run_chunks(answer)
    assert run.held("start") == "start#1"
    run.retry("start")
    assert sorted(run.run_chunks(lambda call: ok(f"again {call.iteration}"))) == [2, 3, 7]
    results = [f"{'again' if n in (2, 3, 7) else 'first'} {n}" for n in range(10)]
    assert run.finish.result["results"] == results
    assert run.finish.result["stats"] == {"total": 10, "success": 10, "failed": 0, "skipped": 0}
    assert run.finish.steps["start"]["iterations"] == run.finish.result["stats"]
    assert run.machine.state.ctx["last"] == 9
    assert run.finish.failures.unhandled == 0


def test_a_retried_loop_that_failed_fast_runs_its_other_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 3)
    run = ControlledRun(LOOP.replace("mode: parallel, max_in_flight: 4", "mode: sequential, on_error: fail_fast"))
    first = run.run_chunks(lambda call: error() if call.iteration == 4 else ok(call.iteration))
    assert first == [0, 1, 2, 3, 4]
    run.retry()
    assert run.run_chunks(lambda call: ok(call.iteration)) == [4, 5, 6, 7, 8, 9]
    assert run.finish.result["results"] == list(range(10))
    assert run.finish.steps["start"]["iterations"] == {"total": 10, "success": 10, "failed": 0, "skipped": 0}


@snapshots
def test_all_held_steps_are_retried_at_once(snapshots: bool) -> None:
    both = BRANCHES.replace("{step: right,", "{step: right, on_failure: hold,")
    run = ControlledRun(both, snapshots=snapshots)
    run.ends(error(), step="left")
    run.ends(error(), step="right")
    run.retry_all()
    assert calls(run) == ["left", "right", "left", "right"]
    run.ends(1, step="left")
    run.ends(1, step="right")
    run.ends(1, step="both")
    assert run.finish.status == "completed"


def test_the_first_of_several_decisions_may_stop_the_run() -> None:
    both = BRANCHES.replace("{step: right,", "{step: right, on_failure: hold,")
    both = both.replace("arcs: [{step: both}]}}", "arcs: [{step: both, when: '{{ 1 // 0 }}'}]}}", 1)
    run = ControlledRun(both, head=FAIL_FAST)
    run.ends(error(), step="left")
    run.ends(error(), step="right")
    run.skip_all({"rows": 0})
    assert run.finish.status == "failed"
    assert run.types("step.").count("step.released") == 2


def test_data_for_many_skipped_steps_is_small() -> None:
    assert skip_refusal("x" * 400, 1_000) is None
    refusal = "the data has 602 bytes; at most 500 are allowed for 1,000 held steps: skip fewer at a time"
    assert skip_refusal("x" * 600, 1_000) == refusal


def test_invalid_decisions_are_refused() -> None:
    run = ControlledRun(BRANCHES)
    graph, state = run.graph, run.machine.state

    def refusal_of(step: str, *unapplied_facts: Any) -> str:
        with pytest.raises(RefusedError) as error_info:
            find_held_run(graph, run.machine.state, step, unapplied_facts)
        return str(error_info.value)

    assert refusal_of("") == "no step is held"
    assert refusal_of("left") == "step 'left' is not held: no step is"
    assert refusal_of("lfet") == "the playbook has no step 'lfet': did you mean \"left\"?"
    run.ends(error(), step="left")
    assert refusal_of("right") == "step 'right' is not held: held are 'left'"
    assert find_held_run(graph, state, "left#1", []).run == "left#1"
    assert refusal_of("left", RetryRequested(run.now, 9, ("left#1",))) == "step 'left' is not held: no step is"
    assert retry_refusal(state, []) is None
    run.pause()
    assert retry_refusal(run.machine.state, []) == "the run is paused: resume it first"
    assert "at most 16,384 are allowed" in str(skip_refusal("x" * MAX_SIGNAL_BYTES))
