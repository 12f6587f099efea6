"""A paused run, without Temporal: it begins nothing, takes what happens, and its timeouts do not count."""

from __future__ import annotations

import pytest

from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, PauseChildren, RunChunk, StartTimer
from noetl_temporal.machine.control import pause_refusal, resume_refusal
from noetl_temporal.machine.facts import (
    CancelRequested,
    PauseRequested,
    Restored,
    Started,
    TimerFired,
    ToolFinished,
    UnpauseRequested,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.messages.control_requests import requester_refusal

from .controlled import BEGINS, ControlledRun
from .driver import error, ok

TWO = """\
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop}}
"""
TIMED = """\
  - step: start
    timeout: 30s
    tool: {kind: noop}
"""
WAITS = """\
  - step: start
    tool: {kind: wait, signal: paid}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop}}
"""
BRANCHES = """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - {step: left, tool: {kind: noop}}
  - {step: right, tool: {kind: noop}}
  - {step: end, tool: {kind: noop}}
"""
LOOP = """\
  - step: start
    loop: {in: [a, b, c], iterator: name, spec: {mode: sequential}}
    tool: {kind: noop}
"""
HEAD = "executor: {spec: {timeout: 100s}}\n"
FAIL_FAST = "executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n"
snapshots = pytest.mark.parametrize("snapshots", [False, True], ids=["in memory", "restored"])


def started_ids(commands: list[Command]) -> list[str]:
    """What the commands begin."""
    calls = [command.call.step for command in commands if isinstance(command, CallTool)]
    chunks = [command.chunk_id for command in commands if isinstance(command, RunChunk)]
    return [
        *calls,
        *chunks,
        *(command.event.type for command in commands if isinstance(command, Emit) and command.event.type in BEGINS),
    ]


@snapshots
def test_a_paused_run_takes_results_and_begins_nothing(snapshots: bool) -> None:
    run = ControlledRun(TWO, snapshots=snapshots)
    assert started_ids(run.pause("ann", "moving the database")) == []
    commands = run.ends(1)
    assert [command.event.type for command in commands if isinstance(command, Emit)] == [
        "task.done",
        "step.done",
        "next.evaluated",
    ]
    assert started_ids(commands) == []
    assert not run.machine.has_work
    assert "after" in started_ids(run.resume("bob"))
    run.ends(2)
    assert (run.finish.status, run.finish.result) == ("completed", 2)
    [pause_event, resume_event] = [event.event for event in run.of(Emit) if "by" in event.event.meta]
    assert (pause_event.type, pause_event.status, pause_event.meta["by"]) == ("playbook.paused", "PAUSED", "ann")
    assert pause_event.meta["reason"] == "moving the database"
    assert (resume_event.type, resume_event.meta["by"]) == ("playbook.resumed", "bob")


@snapshots
def test_timeouts_count_unpaused_time_only(snapshots: bool) -> None:
    run = ControlledRun(TIMED, snapshots=snapshots, head=HEAD)
    commands = run.pause()
    assert {command.id for command in commands if isinstance(command, Cancel)} == {
        "playbook:timeout",
        "start#1:timeout",
    }
    run.now += 3_600_000
    run.feed(TimerFired, "start#1:timeout")  # it fired as it was cancelled
    assert run.machine.state.runs
    timers = {command.timer_id: command.seconds for command in run.resume() if isinstance(command, StartTimer)}
    assert timers == {"playbook:timeout": 99, "start#1:timeout": 29}
    run.now += 29_000
    run.feed(TimerFired, "start#1:timeout")
    run.feed(ToolFinished, run.of(CallTool)[-1].call.id, error("cancelled", "cancelled"), True)
    assert run.finish.failures.cause is not None
    assert run.finish.failures.cause.message == "step 'start' timed out after 30 s"


def test_a_paused_run_that_continues_as_new_stays_paused() -> None:
    run = ControlledRun(TIMED, snapshots=True, head=HEAD)
    run.pause()
    timers = len(run.of(StartTimer))
    run.ends(1)
    assert len(run.of(StartTimer)) == timers
    assert run.machine.is_paused


def test_a_signal_is_accepted_and_what_follows_waits() -> None:
    run = ControlledRun(WAITS)
    run.pause()
    run.signal("paid", 3)
    assert not run.of(CallTool)
    run.resume()
    assert [command.call.step for command in run.of(CallTool)] == ["after"]


def test_a_delay_comes_due_and_starts_nothing() -> None:
    steps = """\
  - step: start
    tool:
      - {name: one, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: two, delay: 5s}}}]}}}
      - {name: two, kind: noop}
"""
    run = ControlledRun(steps)
    run.ends(ToolReport({"status": "ok", "result": 1}, rule=0))
    run.pause()
    assert started_ids(run.feed(TimerFired, run.of(StartTimer)[-1].timer_id)) == []
    assert "start" in started_ids(run.resume())


def test_a_cancel_ends_the_pause_and_the_cleanup_runs() -> None:
    run = ControlledRun(BRANCHES)
    run.pause()
    commands = run.feed(CancelRequested, "enough")
    assert [command.is_paused for command in commands if isinstance(command, PauseChildren)] == [False]
    for call in [command.call for command in run.of(CallTool)]:
        run.feed(ToolFinished, call.id, error("cancelled", "cancelled"), True)
    run.ends(step="end")
    assert run.finish.status == "cancelled"


def test_fail_fast_delays_its_cleanup_until_the_run_resumes() -> None:
    run = ControlledRun(BRANCHES, head=FAIL_FAST)
    run.pause()
    left, right = (command.call for command in run.of(CallTool))
    commands = run.feed(ToolFinished, left.id, error("boom"))
    assert Cancel(right.id) in commands
    assert started_ids(run.feed(ToolFinished, right.id, error("cancelled", "cancelled"), True)) == []
    assert "end" in started_ids(run.resume())
    run.ends(step="end")
    assert run.finish.status == "failed"


def test_a_chunk_that_is_paused_begins_no_item() -> None:
    run = ControlledRun(LOOP)
    [chunk] = run.of(RunChunk)
    machine = LoopMachine(chunk.input)
    first = next(command.call for command in machine.feed(Started(run.now)) if isinstance(command, CallTool))
    assert machine.feed(PauseRequested(run.now, by="ann")) == [PauseChildren(True, "ann")]
    assert started_ids(machine.feed(ToolFinished(run.now, first.id, ok(1)))) == []
    restored_loop = LoopMachine(chunk.input, machine.snapshot())
    restored_loop.feed(Restored(run.now))
    assert "start" in started_ids(restored_loop.feed(UnpauseRequested(run.now)))


def test_invalid_pauses_and_resumes_are_refused() -> None:
    run = ControlledRun(TWO)
    state = run.machine.state
    assert resume_refusal(state, []) == "the run is not paused"
    unapplied_facts = [PauseRequested(run.now, 1)]
    assert pause_refusal(state, []) is None
    assert pause_refusal(state, unapplied_facts) == "the run is paused already"
    assert resume_refusal(state, unapplied_facts) is None
    run.pause()
    assert pause_refusal(run.machine.state, []) == "the run is paused already"
    run.feed(CancelRequested)
    assert pause_refusal(run.machine.state, []) == "the run is stopping"
    run.ends(error("cancelled", "cancelled"))
    assert pause_refusal(run.machine.state, []) == resume_refusal(run.machine.state, []) == "the run has ended"


def test_names_and_reasons_have_a_maximum_length() -> None:
    assert requester_refusal("a" * 200, "r" * 4_000) is None
    assert requester_refusal("a" * 201, "") == "the name has 201 characters; at most 200 are allowed"
    assert requester_refusal("", "r" * 4_001) == "the reason has 4,001 characters; at most 4,000 are allowed"


def test_a_repeated_request_changes_nothing() -> None:
    run = ControlledRun(TWO)
    run.pause()
    run.resume()
    run.feed(PauseRequested, 1, "ann")
    assert not run.machine.is_paused
