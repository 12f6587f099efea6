"""Validates requests to pause, resume, retry or skip before they are accepted: pure functions of the machine's state
and of the accepted facts that it has not applied yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.graph import Graph, Json
from noetl_temporal.machine.facts import Fact, PauseRequested, RetryRequested, SkipRequested, UnpauseRequested
from noetl_temporal.machine.held_steps import HeldStep, held_steps, unique_names
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.machine.waits.refusals import MAX_SIGNAL_BYTES, open_waits

__all__ = [
    "RefusedError",
    "find_held_run",
    "find_held_runs",
    "pause_refusal",
    "resume_refusal",
    "retry_refusal",
    "skip_refusal",
]


MAX_LISTED_RUNS = 10
"""The maximum number of held runs that a refusal lists."""

MAX_SKIP_BYTES = 500_000
"""The maximum size of the data with which many held runs are skipped at once, times their number: each gets its own."""


class RefusedError(ValueError):
    """A request is refused; the message says why."""


def pause_refusal(state: PlaybookState, unapplied_facts: Sequence[Fact]) -> str | None:
    """Return why the run cannot be paused; None if it can."""
    if state.phase == "ended":
        return "the run has ended"
    if state.stop is not None:
        return "the run is stopping"
    return "the run is paused already" if _is_paused(state, unapplied_facts) else None


def resume_refusal(state: PlaybookState, unapplied_facts: Sequence[Fact]) -> str | None:
    """Return why the run cannot be resumed; None if it can."""
    if state.phase == "ended":
        return "the run has ended"
    return None if _is_paused(state, unapplied_facts) else "the run is not paused"


def retry_refusal(state: PlaybookState, unapplied_facts: Sequence[Fact]) -> str | None:
    """Return why no held step can be retried; None if one can."""
    return "the run is paused: resume it first" if _is_paused(state, unapplied_facts) else None


def skip_refusal(data: Json, steps: int = 1) -> str | None:
    """Return why the data cannot be the result of so many held steps; None if it can."""
    size = len(msgspec.json.encode(data))
    if size * steps > MAX_SKIP_BYTES and size <= MAX_SIGNAL_BYTES:
        limit = f"at most {MAX_SKIP_BYTES // steps:,} are allowed for {steps:,} held steps"
        return f"the data has {size:,} bytes; {limit}: skip fewer at a time"
    if size <= MAX_SIGNAL_BYTES:
        return None
    limit = f"at most {MAX_SIGNAL_BYTES:,} are allowed"
    return f"the data has {size:,} bytes; {limit}: store it elsewhere and send its location"


def find_held_run(graph: Graph, state: PlaybookState, step: str, unapplied_facts: Sequence[Fact]) -> HeldStep:
    """Return the held run that ``step`` names: ``load`` for the run of a step, ``load[3]`` for that of the loop item
    with index 3, ``load#2`` for one of several, "" for the only held run. Raises RefusedError.
    """
    steps = find_held_runs(graph, state, step, unapplied_facts)
    if len(steps) == 1:
        return steps[0]
    names = _format_names(unique_names(steps))
    raise RefusedError(f"{len(steps):,} steps and items are held: name one of {names}, or decide about all")


def find_held_runs(graph: Graph, state: PlaybookState, step: str, unapplied_facts: Sequence[Fact]) -> list[HeldStep]:
    """Return the held runs that ``step`` names, all with "", from the oldest on; at least one. Raises RefusedError."""
    if state.phase == "ended":
        raise RefusedError("the run has ended")
    decisions = [fact for fact in unapplied_facts if isinstance(fact, RetryRequested | SkipRequested)]
    decided_runs = {run for decision in decisions for run in decision.runs}
    waits = open_waits(state, unapplied_facts).values()
    held = [step_run for step_run in held_steps(waits) if step_run.run not in decided_runs]
    chosen = [step_run for step_run in held if step in ("", step_run.step, step_run.run, step_run.name)]
    if not chosen:
        raise RefusedError(_not_held_message(graph, held, step))
    return chosen


def _not_held_message(graph: Graph, held: Sequence[HeldStep], step: str) -> str:
    if not step:
        return "no step is held"
    step_name = step.partition("#")[0].rpartition("/")[2]
    if not {step, step_name, step.partition("[")[0]} & graph.steps.keys():
        hint = did_you_mean(step.partition("[")[0], graph.steps)
        return f"the playbook has no step {step!r}{f': {hint}' if hint else ''}"
    others = f"held are {_format_names([run.name for run in held])}" if held else "no step is"
    return f"step {step!r} is not held: {others}"


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED_RUNS
    text = ", ".join(map(repr, names[:MAX_LISTED_RUNS]))
    return f"{text} and {more:,} more" if more > 0 else text


def _is_paused(state: PlaybookState, unapplied_facts: Sequence[Fact]) -> bool:
    requests = [fact for fact in unapplied_facts if isinstance(fact, PauseRequested | UnpauseRequested)]
    return isinstance(requests[-1], PauseRequested) if requests else state.pause is not None
