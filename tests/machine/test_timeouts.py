"""A step, a loop and a playbook that do not end in their time: errors of kind timeout, which arcs can handle."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, Finish, RunChunk, StartTimer
from noetl_temporal.machine.facts import ChunkFinished, ChunkReport, Fact, Started, TimerFired, ToolFinished
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import error, ok
from .playbooks import playbook, step

CommandT = TypeVar("CommandT", bound=Command)

REPAIR = "next: {arcs: [{step: repair, when: \"{{ event.name == 'step.failed' and error.kind == 'timeout' }}\"}]}"
NO_ITEM_ENDED = ChunkReport("cancelled", [None], {"total": 1, "success": 0, "failed": 0, "skipped": 1})


def slow(tool: str = "tool: {kind: noop}", spec: str = "spec: {timeout: 30s}") -> str:
    return playbook(f"  - step: start\n    {spec}\n    {tool}\n    {REPAIR}\n{step('repair')}")


class WatchedRun:
    """A machine whose commands are kept by what they are."""

    def __init__(self, text: str) -> None:
        self.machine = PlaybookMachine(compile_or_raise(text), execution_id=7)
        self.now = EPOCH_MS
        self.commands: list[Command] = []

    def feed(self, event: type[Fact], *args: Any, **more: Any) -> list[Command]:
        self.now += 10
        commands = self.machine.feed(event(self.now, *args, **more))
        self.commands += commands
        return commands

    def of(self, kind: type[CommandT]) -> list[CommandT]:
        return [command for command in self.commands if isinstance(command, kind)]

    def types(self) -> list[str]:
        return [event.event.type for event in self.of(Emit)]

    def finish(self) -> Finish:
        """Let the last call end well."""
        self.feed(ToolFinished, self.of(CallTool)[-1].call.id, ok("repaired"))
        [finish] = self.of(Finish)
        return finish


def test_a_step_that_is_late_is_cancelled_and_its_failure_can_be_handled() -> None:
    run = WatchedRun(slow())
    run.feed(Started, {})
    [timer], [call] = run.of(StartTimer), run.of(CallTool)
    assert (timer.timer_id, timer.seconds) == ("start#1:timeout", 30)
    assert run.feed(TimerFired, timer.timer_id) == [Cancel(call.call.id)]
    run.feed(ToolFinished, call.call.id, error("cancelled", "cancelled"), cancelled=True)
    finish = run.finish()
    assert (finish.status, finish.result) == ("completed", "repaired")
    assert [(failure.kind, failure.handled) for failure in finish.failures.detailed] == [("timeout", True)]


def test_a_step_that_ends_in_its_time_stops_the_clock() -> None:
    run = WatchedRun(slow())
    run.feed(Started, {})
    assert Cancel("start#1:timeout") in run.feed(ToolFinished, run.of(CallTool)[0].call.id, ok())


def test_a_step_that_only_waits_is_late_at_once() -> None:
    policy = "policy: {rules: [{when: '{{ output.data.again }}', then: {do: jump, to: start_task, delay: 99}}]}"
    run = WatchedRun(slow(f"tool: {{kind: noop, spec: {{{policy}}}}}"))
    run.feed(Started, {})
    jump_report = ToolReport({"status": "ok", "result": {"again": True}}, rule=0)
    run.feed(ToolFinished, run.of(CallTool)[0].call.id, jump_report)
    commands = run.feed(TimerFired, "start#1:timeout")
    assert Cancel("start#1:start_task:1:delay") in commands
    assert run.finish().failures.detailed[0].kind == "timeout"


@pytest.mark.parametrize("location", ["step", "loop"])
def test_a_loop_that_is_late_fails_its_step(location: str) -> None:
    own_spec = ", spec: {timeout: 30s}" if location == "loop" else ""
    loop = f"loop: {{in: [1], iterator: item{own_spec}}}\n    tool: {{kind: noop}}"
    run = WatchedRun(slow(loop, "spec: {timeout: 30s}" if location == "step" else "spec: {}"))
    run.feed(Started, {})
    [command] = run.of(RunChunk)
    assert run.feed(TimerFired, "start#1:timeout") == [Cancel(command.chunk_id)]
    run.feed(ChunkFinished, command.chunk_id, NO_ITEM_ENDED)
    assert run.finish().failures.detailed[0].kind == "timeout"
    assert run.types().index("loop.failed") < run.types().index("step.failed")


def test_a_playbook_that_is_late_stops_what_runs_and_fails() -> None:
    head = "executor: {spec: {timeout: 5m}}\n"
    run = WatchedRun(playbook(step("start", "never") + step("never"), head))
    run.feed(Started, {})
    [timer], [call] = run.of(StartTimer), run.of(CallTool)
    assert (timer.timer_id, timer.seconds) == ("playbook:timeout", 300)
    assert Cancel(call.call.id) in run.feed(TimerFired, timer.timer_id)
    run.feed(ToolFinished, call.call.id, error("cancelled", "cancelled"), cancelled=True)
    [finish] = run.of(Finish)
    assert finish.status == "failed"
    assert [failure.kind for failure in finish.failures.detailed] == ["timeout"]
    assert finish.steps["start"]["status"] == "cancelled"
    assert "never" not in finish.steps
