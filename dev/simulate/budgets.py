"""Checks the budget of what a machine begins in one workflow task, and concurrently (noetl_temporal/machine/budget.py).

The limits are drawn per seed (limits.py), since few playbooks reach the real ones. A budget ends at each Continued;
between two of them, this counts the calls begun and the bytes of the commands.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from noetl_temporal.limits import inline_bytes
from noetl_temporal.machine import budget
from noetl_temporal.machine.commands import CallTool, Command, Emit, RunChunk
from noetl_temporal.machine.facts import ChunkFinished, Continued, ToolFinished

__all__ = ["check_budgets"]


def check_budgets(run_trace: RunTrace) -> None:
    """Raises Finding."""
    for trace in run_trace.traces.values():
        _check_in_flight(trace)
        _check_calls_begun(trace)
        _check_command_bytes(trace, inline_bytes(run_trace.store.limit))


def _check_in_flight(trace: MachineTrace) -> None:
    running: set[str] = set()
    for number, turn in enumerate(trace.turns):
        fact: Any = turn.fact
        if isinstance(fact, ToolFinished | ChunkFinished):
            running.discard(fact.call_id if isinstance(fact, ToolFinished) else fact.chunk_id)
        running.update(_id(command) for command in turn.commands if isinstance(command, CallTool | RunChunk))
        if len(running) > budget.MAX_PENDING:
            raise Finding("too much is pending", f"{len(running)} of {budget.MAX_PENDING}, in turn {number}")


def _check_calls_begun(trace: MachineTrace) -> None:
    limit, count = budget.MAX_WORK // budget.CALL_WORK + 1, 0
    for number, turn in enumerate(trace.turns):
        if turn.is_restored or isinstance(turn.fact, Continued):
            count = 0
        count += sum(isinstance(command, CallTool) for command in turn.commands)
        if count > limit:
            raise Finding("a workflow task begins too many calls", f"{count} of {limit}, in turn {number}")


def _check_command_bytes(trace: MachineTrace, inline: int) -> None:
    """Check that no call or chunk begins after the bytes are spent."""
    size, is_spent = 0, False
    for number, turn in enumerate(trace.turns):
        if turn.is_restored or isinstance(turn.fact, Continued):
            size, is_spent = 0, False
        for command in turn.commands:
            begins = isinstance(command, CallTool | RunChunk)
            if begins and is_spent:
                raise Finding(
                    "a workflow task has too many commands", f"{size:,} bytes before turn {number} begins more"
                )
            size += _size(command, inline)
            is_spent = is_spent or (begins and size >= budget.COMMAND_BYTES)


def _size(command: Command, inline: int) -> int:
    match command:
        case CallTool(content) | RunChunk(_, content) | Emit(content):
            return min(inline, len(msgspec.json.encode(content)))
        case _:
            return 0


def _id(command: CallTool | RunChunk) -> str:
    return command.call.id if isinstance(command, CallTool) else command.chunk_id
