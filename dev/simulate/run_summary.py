"""The outcome of a run without ids and times: equal for all hosts that run the same playbook with the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from dev.simulate.run_trace import RunTrace

__all__ = ["DERIVED", "RunSummary", "differences", "failure_of", "row_of", "summarize"]

DERIVED = ("task.attempt.", "sink.", "policy.task.")
"""Types of the rows that the mirror derives from calls, or that depend on the activity of a call."""


class RunSummary(NamedTuple):
    """Counts failures, rows of the log and stored rows. ``results`` has those of loops, by loop and index."""

    status: str
    result: Any
    failures: Counter[str]
    rows: Counter[str]
    stored: Counter[str]
    results: Mapping[str, Any] = MappingProxyType({})


def summarize(run_trace: RunTrace) -> RunSummary:
    """The summary of a run on the machine alone."""
    finish = run_trace.main.finish
    assert finish is not None
    events = [event for trace in run_trace.traces.values() for event in trace.events]
    rows = Counter(
        row_of(emitted_event.type, emitted_event.node, emitted_event.status, emitted_event.meta.get("iteration"))
        for emitted_event in events
    )
    compared_rows = Counter({row: count for row, count in rows.items() if not row.startswith(DERIVED)})
    failures = Counter(failure_of(failure) for failure in finish.failures.detailed)
    return RunSummary(
        finish.status, finish.result, failures, compared_rows, Counter(run_trace.stored), dict(_results(run_trace))
    )


def _results(run_trace: RunTrace) -> Iterator[tuple[str, Any]]:
    for trace in run_trace.traces.values():
        if trace.name and trace.report is not None:
            stored = trace.report.stored
            results = trace.report.results if stored is None else run_trace.store.load(stored)
            for index, result in enumerate(results, trace.chunk_input.first):
                yield f"{trace.chunk_input.loop_id[:60]} {index}", result


def row_of(type_: str, node: str, status: str, iteration: Any) -> str:
    """The key of a row of the log."""
    return f"{type_} {node[:60]} {status} {iteration}"


def failure_of(failure: Any) -> str:
    """The key of a failure in the run's report."""
    return f"{failure.run[:60]} {failure.task} {failure.kind} {failure.iteration} {failure.handled}"


def differences(summary: RunSummary, other: RunSummary, names: tuple[str, str]) -> Iterator[str]:
    """Describe the differences; ``names`` are those of the two runs."""
    if (summary.status, summary.result) != (other.status, other.result):
        yield f"{names[0]} {summary.status} {summary.result}, {names[1]} {other.status} {other.result}"
    for name in ("failures", "rows", "stored"):
        counts: Counter[str] = getattr(summary, name)
        other_counts: Counter[str] = getattr(other, name)
        if counts != other_counts:
            yield f"{name}: {names[0]} {dict(counts - other_counts)}, {names[1]} {dict(other_counts - counts)}"
    differing = [key for key in summary.results if summary.results[key] != other.results.get(key)]
    if differing:
        key = differing[0]
        yield f"results: {key} is {summary.results[key]} {names[0]}, {other.results.get(key)} {names[1]}"
