"""What becomes of failed steps that are held, also inside loops (semantics.md 42)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dev.simulate.stops import PLAYBOOK_TIMER
from dev.simulate.story import Finding, Story, Tale
from noetl_temporal.machine.commands import AnswerWait, Emit, OpenWait
from noetl_temporal.machine.events import (
    Answered,
    CancelRequested,
    ChunkFinished,
    LimitReached,
    TimerFired,
    WaitClosed,
    WaitOpened,
)

__all__ = ["check_holds"]


def check_holds(story: Story) -> None:
    """Raises Finding."""
    for tale in story.tales.values():
        if not tale.terminated:
            _let_go_once(tale)
            _as_decided(tale)
            _told(tale)
    _timeouts_wait(story.main)


def _let_go_once(tale: Tale) -> None:
    """A run is held and let go equally often."""
    counts: dict[str, Counter[str]] = {"step.held": Counter(), "step.released": Counter()}
    for event in tale.events:
        if event.type in counts:
            counts[event.type][event.meta["step_run_id"]] += 1
    if counts["step.held"] != counts["step.released"]:
        raise Finding("a held step is not let go once", f"held {counts['step.held']}, let go {counts['step.released']}")


def _as_decided(tale: Tale) -> None:
    """A decision that reaches a chunk while the step is held has its effect, unless the chunk stops before."""
    decided: dict[str, str] = {}
    for turn in tale.turns:
        fact: Any = turn.fact
        if isinstance(fact, Answered) and fact.answer.decision is not None:
            for wait_id in fact.wait_ids:
                decided.setdefault(wait_id.removesuffix(":hold"), fact.answer.decision.action)
        elif isinstance(fact, CancelRequested | LimitReached):
            return
        for event in (one.event for one in turn.commands if isinstance(one, Emit)):
            if event.type == "step.released":
                found = decided.pop(event.meta["step_run_id"], None)
                if found not in (None, event.meta["action"]) and event.meta["action"] != "stop":
                    raise Finding("a held step ends otherwise than decided", f"{event.meta}, decided was {found}")
            elif event.type == "step.held":
                decided.pop(event.meta["step_run_id"], None)


def _told(tale: Tale) -> None:
    """A chunk tells the playbook of each held step of its items."""
    if not tale.name or tale.given.frame is not None:
        return
    for number, turn in enumerate(tale.turns):
        events = [one.event for one in turn.commands if isinstance(one, Emit) and one.event.type == "step.held"]
        told = {one.wait.run for one in turn.commands if isinstance(one, OpenWait) and one.wait.kind == "held"}
        untold = {event.meta["step_run_id"] for event in events} - told
        if untold:
            raise Finding("the playbook is not told of a held step", f"{sorted(untold)[:3]}, in turn {number}")


def _timeouts_wait(main: Tale) -> None:
    """The timeout of the playbook does not count while it has a held step, or knows of one in a loop."""
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
            held = {one for one in held if not one.startswith(f"{fact.chunk_id} ")}
        for command in turn.commands:
            if isinstance(command, AnswerWait):
                held.difference_update(f"{command.chunk_id} {wait_id}" for wait_id in command.wait_ids)
            elif isinstance(command, Emit) and command.event.type == "step.held":
                held.add(command.event.meta["step_run_id"])
            elif isinstance(command, Emit) and command.event.type == "step.released":
                held.discard(command.event.meta["step_run_id"])
