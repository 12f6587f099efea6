"""The items of a failed loop that did not succeed: only these run when its step is retried (semantics.md 42).

The reports of the failed loop are divided into reports of the successful items, which the retry reuses, and ranges of
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.state import LoopProgress

__all__ = ["consecutive_ranges", "unfinished_loop"]


def unfinished_loop(failed: LoopProgress, id_: str) -> LoopProgress:
    """Return the loop with the id ``id_`` that repeats the loop ``failed``: it has the results of the successful items,
    and ranges of the others.
    """
    reports: dict[int, ChunkReport] = {}
    ranges = [*failed.skipped_ranges]
    for first, report in failed.reports.items():
        total = report.stats.get("total", 0)
        unfinished_ranges = report.unfinished if report.stats.get("success") else ((first, total),) if total else ()
        ranges += unfinished_ranges
        for start, size in _gaps_between(first, total, unfinished_ranges):
            reports[start] = _report_of_range(report, first, start, size)
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


def consecutive_ranges(indices: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return ranges (first, size) of consecutive numbers; ``indices`` are ascending."""
    ranges: list[tuple[int, int]] = []
    for index in indices:
        if ranges and sum(ranges[-1]) == index:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((index, 1))
    return tuple(ranges)


def _gaps_between(first: int, total: int, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the ``total`` items from ``first`` on that are not in the given ranges."""
    position = first
    for start, size in (*ranges, (first + total, 0)):
        if start > position:
            yield position, start - position
        position = start + size


def _report_of_range(report: ChunkReport, first: int, start: int, size: int) -> ChunkReport:
    """Return the report of ``size`` successful items from ``start`` on, without counts of calls; ``first`` is the first
    item of ``report``.
    """
    reference = report.stored
    return ChunkReport(
        "ok",
        results=report.results[start - first : start - first + size],
        stats={"total": size, "success": size, "failed": 0, "skipped": 0},
        assigns=tuple(assign for assign in report.assigns if start <= assign[0] < start + size),
        stored=None if reference is None else _slice_of_reference(reference, start - first, size),
    )


def _slice_of_reference(reference: StoredRef, start: int, size: int) -> StoredRef:
    """Return the reference to a slice of a stored list. Its size in bytes is estimated from that of the list."""
    parts: list[Part] = []
    position = 0
    for part in reference.parts:
        count = _item_count(part)
        low, high = max(start, position) - position, min(start + size, position + count) - position
        if low < high:
            parts.append(_slice_of_part(part, low, high))
        position += count
    return StoredRef(tuple(parts), reference.bytes * size // max(1, position))


def _item_count(part: Part) -> int:
    return len(part.inline_items) or part.count or 1


def _slice_of_part(part: Part, low: int, high: int) -> Part:
    if part.inline_items:
        return Part(inline_items=part.inline_items[low:high])
    if not part.count:
        return part
    return Part(part.key, part.start + low if part.key else 0, high - low)
