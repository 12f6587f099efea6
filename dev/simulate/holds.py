"""Checks how held steps end, also inside loops (semantics.md 42)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.stops import PLAYBOOK_TIMER
from noetl_temporal.machine.commands import AnswerWait, Emit, OpenWait
from noetl_temporal.machine.facts import (
    Answered,
    CancelRequested,
    ChunkFinished,
    LimitReached,
    TimerFired,
    WaitClosed,
    WaitOpened,
)

__all__ = ["check_holds"]


def check_holds(run_trace: RunTrace) -> None:
    """Raises Finding."""
    for trace in run_trace.traces.values():
        if not trace.terminated:
            _check_each_hold_ends_once(trace)
            _check_decisions(trace)
            _check_reports(trace)
    _check_timeouts_are_suspended(run_trace.main)


def _check_each_hold_ends_once(trace: MachineTrace) -> None:
    """Check that a step run is held and released equally often."""
    counts: dict[str, Counter[str]] = {"step.held": Counter(), "step.released": Counter()}
    for event in trace.events:
        if event.type in counts:
            counts[event.type][event.meta["step_run_id"]] += 1
    if counts["step.held"] != counts["step.released"]:
        raise Finding("a held step is not let go once", f"held {counts['step.held']}, let go {counts['step.released']}")


def _check_decisions(trace: MachineTrace) -> None:
    """Check that a decision that reaches a chunk while the step is held takes effect, unless the chunk stops first."""
    actions: dict[str, str] = {}
    for turn in trace.turns:
        fact: Any = turn.fact
        if isinstance(fact, Answered) and fact.answer.decision is not None:
            for wait_id in fact.wait_ids:
                actions.setdefault(wait_id.removesuffix(":hold"), fact.answer.decision.action)
        elif isinstance(fact, CancelRequested | LimitReached):
            return
        for event in (command.event for command in turn.commands if isinstance(command, Emit)):
            if event.type == "step.released":
                action = actions.pop(event.meta["step_run_id"], None)
                if action not in (None, event.meta["action"]) and event.meta["action"] != "stop":
                    raise Finding("a held step ends otherwise than decided", f"{event.meta}, decided was {action}")
            elif event.type == "step.held":
                actions.pop(event.meta["step_run_id"], None)


def _check_reports(trace: MachineTrace) -> None:
    """Check that a chunk reports each held step of its items to the playbook."""
    if not trace.name or trace.chunk_input.frame is not None:
        return
    for number, turn in enumerate(trace.turns):
        events = [
            command.event
            for command in turn.commands
            if isinstance(command, Emit) and command.event.type == "step.held"
        ]
        held = {
            command.wait.run
            for command in turn.commands
            if isinstance(command, OpenWait) and command.wait.kind == "held"
        }
        unreported = {event.meta["step_run_id"] for event in events} - held
        if unreported:
            raise Finding("a held step is not reported to the playbook", f"{sorted(unreported)[:3]}, in turn {number}")


def _check_timeouts_are_suspended(main: MachineTrace) -> None:
    """Check that the playbook's timeout is suspended while a step is held, or a loop has reported one."""
    held: set[str] = set()
    for number, turn in enumerate(main.turns):
        fact: Any = turn.fact
        if isinstance(fact, TimerFired) and fact.timer_id == PLAYBOOK_TIMER and held:
            raise Finding("a timeout counts while a step is held", f"{sorted(held)[:3]}, in turn {number}")
        if isinstance(fact, WaitOpened) and fact.wait.kind == "held":
            held.add(fact.wait.id)
        elif isinstance(fact, WaitClosed):
            held.discard(fact.wait_id)
        elif isinstance(fact, ChunkFinished):
            held = {run for run in held if not run.startswith(f"{fact.chunk_id} ")}
        for command in turn.commands:
            if isinstance(command, AnswerWait):
                held.difference_update(f"{command.chunk_id} {wait_id}" for wait_id in command.wait_ids)
            elif isinstance(command, Emit) and command.event.type == "step.held":
                held.add(command.event.meta["step_run_id"])
            elif isinstance(command, Emit) and command.event.type == "step.released":
                held.discard(command.event.meta["step_run_id"])
