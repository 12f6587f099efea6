"""A machine of a playbook whose run a test pauses, resumes, retries and skips, and whose chunks run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Command, RunChunk
from noetl_temporal.machine.control import find_held_run, find_held_runs
from noetl_temporal.machine.facts import (
    ChunkFinished,
    ChunkReport,
    PauseRequested,
    RetryRequested,
    SkipRequested,
    ToolFinished,
    UnpauseRequested,
)
from noetl_temporal.machine.loops.loop import LoopMachine

from .driver import Driver, report_of
from .waited import WaitingRun

BEGINS = ("step.started", "task.started", "loop.started", "loop.iteration.started")


class ControlledRun(WaitingRun):
    """Requests are those that a validator lets through."""

    def pause(self, by: str = "ann", reason: str = "") -> list[Command]:
        self.requests += 1
        return self.feed(PauseRequested, self.requests, by, reason)

    def resume(self, by: str = "ann") -> list[Command]:
        self.requests += 1
        return self.feed(UnpauseRequested, self.requests, by)

    def retry(self, step: str = "") -> list[Command]:
        self.requests += 1
        return self.feed(RetryRequested, self.requests, (self.held(step),), "ann")

    def skip(self, step: str, data: Any = None) -> list[Command]:
        self.requests += 1
        return self.feed(SkipRequested, self.requests, (self.held(step),), data, "ann")

    def retry_all(self, step: str = "") -> list[Command]:
        self.requests += 1
        runs = tuple(hold.run for hold in find_held_runs(self.graph, self.machine.state, step, []))
        return self.feed(RetryRequested, self.requests, runs, "ann")

    def skip_all(self, data: Any = None) -> list[Command]:
        self.requests += 1
        runs = tuple(hold.run for hold in find_held_runs(self.graph, self.machine.state, "", []))
        return self.feed(SkipRequested, self.requests, runs, data, "ann")

    def held(self, step: str = "") -> str:
        return find_held_run(self.graph, self.machine.state, step, []).run

    def ends(self, report: Any = None, step: str = "") -> list[Command]:
        """The call of the step in flight, or the last one, ends."""
        pending = self.machine.state.pending
        calls = [
            command.call
            for command in self.of(CallTool)
            if command.call.id in pending and step in ("", command.call.step)
        ]
        return self.feed(ToolFinished, calls[-1].id, report_of(report))

    def run_chunks(self, answer: Callable[[ToolCall], Any]) -> list[int]:
        """Run all chunks in flight to their ends; the indices of the items that were called."""
        message_numbers: list[int] = []

        def answered(call: ToolCall) -> Any:
            message_numbers.append(call.iteration if call.iteration is not None else -1)
            return answer(call)

        while chunks := [command for command in self.of(RunChunk) if command.chunk_id in self.machine.state.pending]:
            report = chunk_report(chunks[0], answered)
            self.feed(ChunkFinished, chunks[0].chunk_id, report)
        return message_numbers


def chunk_report(command: RunChunk, answer: Callable[[ToolCall], Any]) -> ChunkReport:
    """What a chunk comes to whose calls are answered so."""
    machine = LoopMachine(command.input)
    Driver(answer).drive(machine)
    assert machine.report is not None
    return machine.report
