"""The rules of stopping (machine/stopping.py): after a stop, only the cleanup begins calls, in any order of events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.language.defaults import CLEANUP_SECONDS
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, Finish, RunChunk, StartTimer
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    ChunkReport,
    Continued,
    IdleRequested,
    LimitReached,
    Restored,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import error, ok
from .playbooks import playbook

CLEANUP = "  - step: end\n    tool: {kind: noop, message: clean}\n"
POLLS = """\
  - step: start
    tool:
      - name: poll
        kind: noop
        spec: {policy: {rules: [{then: {do: jump, to: poll}}]}}
"""
THREE = """\
  - step: start
    spec: {timeout: {total: 2}}
    tool:
      - {name: a, kind: noop}
      - {name: b, kind: noop}
      - {name: c, kind: noop}
"""
PAGES = """\
  - step: start
    tool:
      - name: fetch
        kind: noop
        spec: {policy: {rules: [{when: '{{ true }}', then: {do: again, attempts: 1000}}]}}
"""


class WatchedRun:
    """A machine whose commands are kept; every feed happens on a machine restored from JSON text."""

    def __init__(self, machine: PlaybookMachine | LoopMachine) -> None:
        self.machine = machine
        self.now = EPOCH_MS
        self.commands: list[Command] = []

    def feed(self, fact: Any, *args: Any, **kwargs: Any) -> list[Command]:
        self.now += 10
        self.machine = _restore(self.machine)
        commands = self.machine.feed(fact(self.now, *args, **kwargs))
        self.commands += commands
        return commands

    def calls(self) -> list[str]:
        return [command.call.id for command in self.commands if isinstance(command, CallTool)]

    def ends(self) -> list[tuple[str, str]]:
        events = [command.event for command in self.commands if isinstance(command, Emit)]
        return [(event.node, event.status) for event in events if event.type.startswith("step.") and event.ends]

    def finish(self) -> Finish:
        last = self.commands[-1]
        assert isinstance(last, Finish)
        return last


def _restore(machine: PlaybookMachine | LoopMachine) -> Any:
    state = json.loads(json.dumps(machine.snapshot()))
    if isinstance(machine, PlaybookMachine):
        return PlaybookMachine(machine.graph, execution_id=1, state=state)
    return LoopMachine(machine.input, state)


def start_watched(workflow: str, head: str = "") -> WatchedRun:
    run = WatchedRun(PlaybookMachine(compile_or_raise(playbook(workflow, head)), execution_id=1))
    run.feed(Started, {})
    return run


def report_jump() -> ToolReport:
    return ToolReport({"status": "ok", "result": 1}, rule=0)


@pytest.mark.parametrize("workflow", [POLLS, PAGES, THREE], ids=["poll", "pages", "tasks"])
@pytest.mark.parametrize("stop", [(CancelRequested, "enough"), (LimitReached, "too much")], ids=["cancel", "limit"])
def test_a_call_that_ends_well_after_a_stop_is_the_last(workflow: str, stop: tuple[Any, str]) -> None:
    run = start_watched(workflow + CLEANUP)
    [call] = run.calls()
    assert run.feed(*stop)[0] == Cancel(call)
    run.feed(ToolFinished, call, report_jump() if workflow is not THREE else ok())
    assert [id_ for id_ in run.calls() if not id_.startswith("end")] == [call]
    assert run.calls()[1:] == ["end#1:end_task:1"]
    run.feed(ToolFinished, "end#1:end_task:1", ok("cleaned"))
    assert run.finish().status == ("cancelled" if stop[0] is CancelRequested else "failed")
    assert run.ends() == [("start", "CANCELLED"), ("end", "COMPLETED")]


@pytest.mark.parametrize("workflow", [POLLS, PAGES], ids=["poll", "pages"])
def test_a_playbook_timeout_ends_what_repeats_itself(workflow: str) -> None:
    run = start_watched(workflow + CLEANUP, "executor: {spec: {timeout: 3s}}\n")
    for _ in range(5):
        run.feed(ToolFinished, run.calls()[-1], report_jump())
    run.feed(TimerFired, "playbook:timeout")
    last = run.calls()[-1]
    run.feed(ToolFinished, last, report_jump())
    assert run.calls()[-1] == "end#1:end_task:1"
    run.feed(ToolFinished, "end#1:end_task:1", ok())
    assert run.finish().status == "failed"
    assert [failure.kind for failure in run.finish().failures.detailed] == ["timeout"]


def test_a_step_timeout_ends_its_tasks_although_the_call_in_flight_ended_well() -> None:
    run = start_watched(THREE)
    run.feed(TimerFired, "start#1:timeout")
    run.feed(ToolFinished, "start#1:a:1", ok())
    assert run.calls() == ["start#1:a:1"]
    assert run.finish().status == "failed"
    assert run.finish().failures.detailed[0].kind == "timeout"


def test_a_step_whose_last_call_ends_well_after_its_time_timed_out() -> None:
    run = start_watched("  - step: start\n    spec: {timeout: 2}\n    tool: {kind: noop}\n")
    run.feed(TimerFired, "start#1:timeout")
    run.feed(ToolFinished, "start#1:start_task:1", ok("late"))
    assert [failure.kind for failure in run.finish().failures.detailed] == ["timeout"]


def test_a_call_that_succeeds_during_a_cancel_completes_its_step() -> None:
    run = start_watched("  - step: start\n    tool: {kind: noop}\n" + CLEANUP)
    run.feed(CancelRequested, "enough")
    run.feed(ToolFinished, "start#1:start_task:1", ok("done"))
    assert run.ends() == [("start", "COMPLETED")]


def test_a_delay_is_dropped_by_a_stop() -> None:
    run = start_watched(POLLS.replace("to: poll", "to: poll, delay: 60") + CLEANUP)
    commands = run.feed(ToolFinished, run.calls()[0], report_jump())
    [timer] = [command for command in commands if isinstance(command, StartTimer)]
    commands = run.feed(CancelRequested, "enough")
    assert Cancel(timer.timer_id) in commands
    assert run.calls()[-1] == "end#1:end_task:1"


def test_no_delay_begins_after_a_stop() -> None:
    run = start_watched(POLLS.replace("to: poll", "to: poll, delay: 60") + CLEANUP)
    run.feed(CancelRequested, "enough")
    commands = run.feed(ToolFinished, run.calls()[0], report_jump())
    assert [command.timer_id for command in commands if isinstance(command, StartTimer)] == ["end#1:timeout"]
    assert run.calls()[-1] == "end#1:end_task:1"


def test_the_cleanup_has_a_time_of_its_own() -> None:
    run = start_watched(POLLS + CLEANUP)
    run.feed(CancelRequested, "enough")
    commands = run.feed(ToolFinished, run.calls()[0], error("cancelled", "cancelled"), cancelled=True)
    assert [command.seconds for command in commands if isinstance(command, StartTimer)] == [CLEANUP_SECONDS]
    assert Cancel("end#1:end_task:1") in run.feed(TimerFired, "end#1:timeout")
    run.feed(ToolFinished, "end#1:end_task:1", error("cancelled", "cancelled"), cancelled=True)
    assert run.finish().status == "cancelled"


def test_an_end_step_that_runs_already_is_the_cleanup() -> None:
    run = start_watched("  - step: start\n" + CLEANUP)
    commands = run.feed(CancelRequested, "enough")
    assert [type(command) for command in commands] == [StartTimer]
    run.feed(ToolFinished, "end#1:end_task:1", ok())
    assert run.finish().status == "cancelled"
    assert run.ends() == [("start", "COMPLETED"), ("end", "COMPLETED")]


def test_a_second_request_skips_the_cleanup() -> None:
    run = start_watched(POLLS + CLEANUP)
    run.feed(CancelRequested, "enough")
    run.feed(CancelRequested, "now")
    run.feed(ToolFinished, run.calls()[0], error("cancelled", "cancelled"), cancelled=True)
    assert run.finish().status == "cancelled"
    assert len(run.calls()) == 1


def test_a_second_request_ends_a_cleanup_that_runs() -> None:
    run = start_watched("  - step: start\n" + CLEANUP)
    run.feed(CancelRequested, "enough")
    assert Cancel("end#1:end_task:1") in run.feed(CancelRequested, "now")
    run.feed(ToolFinished, "end#1:end_task:1", error("cancelled", "cancelled"), cancelled=True)
    assert run.finish().status == "cancelled"


def test_the_first_request_after_another_stop_skips_nothing() -> None:
    run = start_watched(POLLS + CLEANUP, "executor: {spec: {timeout: 3s}}\n")
    run.feed(TimerFired, "playbook:timeout")
    run.feed(CancelRequested, "enough")
    run.feed(ToolFinished, run.calls()[0], error("cancelled", "cancelled"), cancelled=True)
    assert run.calls()[-1] == "end#1:end_task:1"
    assert Cancel("end#1:end_task:1") in run.feed(CancelRequested, "now")
    run.feed(ToolFinished, "end#1:end_task:1", error("cancelled", "cancelled"), cancelled=True)
    assert run.finish().status == "failed"


def test_fail_fast_cancels_the_other_branches_and_meets_the_end() -> None:
    fan_out = """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: long}]}
  - step: bad
    tool: {kind: noop}
  - step: long
    tool: [{name: a, kind: noop}, {name: b, kind: noop}]
"""
    run = start_watched(fan_out + CLEANUP, "executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n")
    run.feed(ToolFinished, "bad#1:bad_task:1", error())
    assert Cancel("long#1:a:1") in run.commands
    run.feed(ToolFinished, "long#1:a:1", ok())
    assert "long#1:b:2" not in run.calls()
    run.feed(ToolFinished, "end#1:end_task:1", ok())
    assert run.finish().status == "failed"
    assert ("long", "CANCELLED") in run.ends()


LOOP = """\
  - step: start
    loop: {in: [1, 2, 3], iterator: item, spec: {mode: parallel, max_in_flight: 2%s}}
    tool: [{name: a, kind: noop}, {name: b, kind: noop}]
"""


def start_loop(extra: str = "") -> WatchedRun:
    run = start_watched(LOOP % extra)
    [command] = [command for command in run.commands if isinstance(command, RunChunk)]
    loop = WatchedRun(LoopMachine(command.input))
    loop.feed(Started)
    return loop


def report_of(loop: WatchedRun) -> ChunkReport:
    machine = loop.machine
    assert isinstance(machine, LoopMachine)
    assert machine.report is not None
    return machine.report


def test_fail_fast_stops_items_before_their_next_task() -> None:
    loop = start_loop(", on_error: fail_fast")
    loop.feed(ToolFinished, "0:a:1", error())
    assert Cancel("1:a:1") in loop.commands
    loop.feed(ToolFinished, "1:a:1", ok())
    assert loop.calls() == ["0:a:1", "1:a:1"]
    assert report_of(loop).stats == {"total": 3, "success": 0, "failed": 1, "skipped": 2}


def test_a_cancelled_loop_counts_no_interrupted_item_as_a_success() -> None:
    loop = start_loop()
    loop.feed(CancelRequested, "enough")
    loop.feed(ToolFinished, "0:a:1", ok())
    loop.feed(ToolFinished, "1:a:1", error("cancelled", "cancelled"), cancelled=True)
    assert loop.calls() == ["0:a:1", "1:a:1"]
    assert report_of(loop).status == "cancelled"
    assert report_of(loop).stats == {"total": 3, "success": 0, "failed": 0, "skipped": 3}


def test_a_call_that_is_cancelled_from_outside_fails() -> None:
    run = start_watched("  - step: start\n    tool: {kind: noop}\n" + CLEANUP)
    run.feed(ToolFinished, run.calls()[0], error("cancelled", "cancelled"), cancelled=True)
    run.feed(ToolFinished, "end#1:end_task:1", ok())
    assert run.finish().status == "failed"
    assert run.finish().failures.detailed[0].kind == "cancelled"


def test_a_loop_that_is_cancelled_from_outside_fails_its_step() -> None:
    run = start_watched(LOOP % "" + "    next: {arcs: [{step: after}]}\n  - step: after\n    tool: {kind: noop}\n")
    stats = {"total": 3, "success": 1, "failed": 0, "skipped": 2}
    run.feed(ChunkFinished, "start/1", ChunkReport("cancelled", [1, None, None], stats))
    assert run.finish().status == "failed"
    assert [(failure.step, failure.kind) for failure in run.finish().failures.detailed] == [("start", "cancelled")]


def test_a_stop_survives_continue_as_new() -> None:
    run = start_watched(PAGES + CLEANUP, "executor: {spec: {timeout: 1h}}\n")
    run.feed(IdleRequested)
    run.feed(CancelRequested, "enough")
    run.feed(ToolFinished, run.calls()[0], report_jump())
    assert run.calls() == ["start#1:fetch:1"]
    run.feed(Restored)
    run.feed(Continued)
    assert run.calls() == ["start#1:fetch:1", "end#1:end_task:1"]


def test_timers_start_again_after_a_continue_as_new_for_what_is_left() -> None:
    run = start_watched(POLLS.replace("to: poll", "to: poll, delay: 60"), "executor: {spec: {timeout: 1h}}\n")
    run.feed(ToolFinished, run.calls()[0], report_jump())
    assert run.machine.is_idle
    timers = {command.timer_id: command.seconds for command in run.feed(Restored) if isinstance(command, StartTimer)}
    assert timers["playbook:timeout"] == pytest.approx(3600 - 0.02)
    assert timers["start#1:poll:1:delay"] == pytest.approx(60 - 0.01)


def test_a_pipeline_whose_last_call_ends_while_the_machine_holds_has_ended() -> None:
    run = start_watched("  - step: start\n    tool: {kind: noop}\n")
    run.feed(IdleRequested)
    run.feed(ToolFinished, run.calls()[0], ok())
    assert not run.machine.state.runs


@pytest.mark.parametrize("reason", ["wrong table", ""])
def test_a_failure_is_not_the_reason_of_a_cancelled_run(reason: str) -> None:
    run = start_watched("  - step: start\n    tool: {kind: noop}\n")
    run.feed(CancelRequested, reason)
    run.feed(ToolFinished, "start#1:start_task:1", error("the connection was closed"))
    ends = [event for event in map(_event_of, run.commands) if event and event.type == "playbook.cancelled"]
    assert [event.error for event in ends] == [reason or None]
    assert [failure.message for failure in run.finish().failures.detailed] == ["the connection was closed"]


def _event_of(command: Command) -> Any:
    return command.event if isinstance(command, Emit) else None
