"""Checks that the same facts give the same commands, in a second machine and in one restored before every fact."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.world import EXECUTION_ID
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.commands import RunChunk
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import Continued, TimerFired, ToolFinished
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

__all__ = ["check_determinism"]

MAX_TURNS = 300


def check_determinism(run_trace: RunTrace) -> None:
    """Raises Finding."""
    with run_trace.store.in_use():
        for trace in run_trace.traces.values():
            if 0 < len(trace.turns) <= MAX_TURNS:
                _check_same_commands(run_trace, trace, restored=False)
                _check_same_commands(run_trace, trace, restored=True)
                _check_refusals(run_trace, trace)


def _new_machine(run_trace: RunTrace, trace: MachineTrace, state: Any = None) -> PlaybookMachine | LoopMachine:
    if trace.name:
        return loop_machine(trace.chunk_input, state, limit=run_trace.store.limit)
    return PlaybookMachine(run_trace.graph, execution_id=EXECUTION_ID, state=state, limit=run_trace.store.limit)


def _restored_machine(
    run_trace: RunTrace, trace: MachineTrace, machine: PlaybookMachine | LoopMachine
) -> PlaybookMachine | LoopMachine:
    return _new_machine(run_trace, trace, json.loads(json.dumps(machine.snapshot())))


def _check_same_commands(run_trace: RunTrace, trace: MachineTrace, *, restored: bool) -> None:
    """Budgets and loaded values are not in a snapshot, so restore only where neither matters: never while the machine
    has loaded values, and, if a budget was spent in the run, only between workflow tasks.

    Left-over work does not show whether a budget was spent: a machine that holds has none, yet a run that timed out
    ends only in the next task.
    """
    description = "a restored machine" if restored else "a second machine"
    machine = _new_machine(run_trace, trace)
    has_budgets = any(turn.is_budget_spent for turn in trace.turns)
    for number, turn in enumerate(trace.turns):
        between_tasks = not has_budgets or isinstance(turn.fact, Continued)
        may_restore = number and between_tasks and not machine.has_loaded
        if turn.is_restored or (restored and may_restore):
            machine = _restored_machine(run_trace, trace, machine)
        commands = machine.feed(turn.fact)
        if _encode(commands) != _encode(turn.commands):
            differences = [
                f"{recorded}\n  {description}: {repeated}"
                for recorded, repeated in _differing_commands(turn.commands, commands)
            ]
            raise Finding(
                f"{description} gives other commands",
                f"in turn {number}: {differences[0][:1500] if differences else 'order'}",
            )


def _differing_commands(left: list[Any], other: list[Any]) -> list[tuple[Any, Any]]:
    longest = max(len(left), len(other))
    pairs = zip(left + [None] * (longest - len(left)), other + [None] * (longest - len(other)), strict=True)
    return [(recorded, repeated) for recorded, repeated in pairs if _encode([recorded]) != _encode([repeated])]


def _encode(commands: list[Any]) -> bytes:
    return msgspec.json.encode(commands)


def _check_refusals(run_trace: RunTrace, trace: MachineTrace) -> None:
    """Check that a fact with an unknown or wrong id is refused, and every fact after it."""
    machine = _new_machine(run_trace, trace)
    loop = ""
    for turn in trace.turns[: max(1, len(trace.turns) // 2)]:
        if turn.is_restored:
            machine = _restored_machine(run_trace, trace, machine)
        machine.feed(turn.fact)
        loop = next((command.chunk_id for command in turn.commands if isinstance(command, RunChunk)), "")
    if machine.state.phase == "ended":
        return
    at = trace.turns[-1].fact.at
    call = next((id_ for id_, pending in machine.state.pending.items() if pending.kind == "call"), None)
    if call is not None:
        copy = _restored_machine(run_trace, trace, machine)
        _must_refuse(copy, TimerFired(at, call), "a timer's end of a call's id")
    bad = ToolFinished(at, loop or "nobody", ToolReport({"status": "ok", "result": None}))
    _must_refuse(machine, bad, "a fact about nothing" if not loop else "a call's end of a loop's id")
    _must_refuse(machine, Continued(at), "a fact after a ProtocolError")


def _must_refuse(machine: PlaybookMachine | LoopMachine, fact: Any, description: str) -> None:
    try:
        machine.feed(fact)
    except ProtocolError:
        return
    except Exception as error:
        raise Finding(f"feed raises {type(error).__name__}", f"for {description}: {error}") from error
    raise Finding(f"{description} is taken", repr(fact)[:200])
