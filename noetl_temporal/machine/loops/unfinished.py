"""The items of a failed loop that did not succeed, which a retry of the loop's step runs (semantics.md 42).

The reports of the failed loop are divided into those of the successful items, which are kept, and ranges of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.state import LoopProgress

__all__ = ["consecutive", "unfinished_loop"]


def unfinished_loop(failed: LoopProgress, id_: str) -> LoopProgress:
    """Return the loop ``id_`` that runs the items of ``failed`` that did not succeed, and has the results of the
    others.
    """
    reports: dict[int, ChunkReport] = {}
    ranges = [*failed.skipped_ranges]
    for first, report in failed.reports.items():
        total = report.stats.get("total", 0)
        unfinished_ranges = report.unfinished if report.stats.get("success") else ((first, total),) if total else ()
        ranges += unfinished_ranges
        for start, size in _between(first, total, unfinished_ranges):
            reports[start] = _part(report, first, start, size)
    return replace(
        failed,
        id=id_,
        ranges=sorted(ranges),
        reports=reports,
        chunks={},
        skipped_ranges=[],
        reused_items=sum(report.stats["total"] for report in reports.values()),
        failures=FailureLog(),
        failure=None,
    )


def consecutive(indices: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending numbers as ranges of (first, size)."""
    ranges: list[tuple[int, int]] = []
    for index in indices:
        if ranges and sum(ranges[-1]) == index:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((index, 1))
    return tuple(ranges)


def _between(first: int, total: int, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges between these, from ``first`` on."""
    position = first
    for start, size in (*ranges, (first + total, 0)):
        if start > position:
            yield position, start - position
        position = start + size


def _part(report: ChunkReport, first: int, start: int, size: int) -> ChunkReport:
    """Return the report of ``size`` successful items from ``start`` on, without the calls of other items."""
    reference = report.stored
    return ChunkReport(
        "ok",
        results=report.results[start - first : start - first + size],
        stats={"total": size, "success": size, "failed": 0, "skipped": 0},
        assigns=tuple(assign for assign in report.assigns if start <= assign[0] < start + size),
        stored=None if reference is None else _slice(reference, start - first, size),
    )


def _slice(reference: StoredRef, start: int, size: int) -> StoredRef:
    """Return a part of a list; its size is estimated as a proportion of that of the list."""
    parts: list[Part] = []
    position = 0
    for part in reference.parts:
        count = _length(part)
        low, high = max(start, position) - position, min(start + size, position + count) - position
        if low < high:
            parts.append(_cut(part, low, high))
        position += count
    return StoredRef(tuple(parts), reference.bytes * size // max(1, position))


def _length(part: Part) -> int:
    return len(part.inline_items) or part.count or 1


def _cut(part: Part, low: int, high: int) -> Part:
    if part.inline_items:
        return Part(inline_items=part.inline_items[low:high])
    if not part.count:
        return part
    return Part(part.key, part.start + low if part.key else 0, high - low)
