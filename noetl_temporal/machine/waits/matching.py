"""Matches signals and waits (semantics.md 44).

A signal with a key is for the wait with that key, else for a wait without a key. A signal without a key is for the
oldest wait. Signals without a matching wait are queued, first in first out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_compiler.graph import Graph, Json, Step, Task
from noetl_compiler.language.tools import WAIT_KINDS
from noetl_compiler.value_merge import mapping_of
from noetl_temporal.machine.waits.wait import Signal, Wait

__all__ = ["matching_wait", "may_wait", "signals_of", "take_queued"]


def matching_wait(signal: Signal, waits: Iterable[Wait]) -> Wait | None:
    """Return the wait that the signal ends, if there is one."""
    candidates = sorted((wait for wait in waits if wait.signal == signal.name), key=lambda wait: wait.age)
    if signal.key is None:
        return candidates[0] if candidates else None
    keys = (signal.key, None)
    return next((wait for key in keys for wait in candidates if wait.key == key), None)


def take_queued(signals: dict[str, list[Signal]], wait: Wait) -> Signal | None:
    """Remove the first queued signal that the wait accepts and return it, if there is one."""
    queue = signals.get(wait.signal, [])
    indexes = (index for index, candidate in enumerate(queue) if wait.key is None or candidate.key in (None, wait.key))
    index = next(indexes, None)
    if index is None:
        return None
    signal = queue.pop(index)
    if not queue:
        del signals[wait.signal]
    return signal


def signals_of(graph: Graph) -> Mapping[str, Mapping[str, Any]]:
    """Return the signals that the graph waits for, each with the schema of its payload."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for step in graph.steps.values():
        for task in step.tasks:
            for name in _retry_signals(task):
                schemas.setdefault(name, {})
            config: dict[str, Json] = mapping_of(task.config)
            if task.kind == "wait" and isinstance(config.get("signal"), str):
                schemas[config["signal"]] = config.get("schema") or {}
    return schemas


def may_wait(step: Step) -> bool:
    """Whether a run of the step may wait for a time, a signal or a person, which may take longer than any delay."""
    return any(task.kind in WAIT_KINDS or any(_retry_signals(task)) for task in step.tasks)


def _retry_signals(task: Task) -> Iterable[str]:
    rules = task.policy.rules if task.policy else ()
    return (rule.wait_for for rule in rules if rule.wait_for is not None)
