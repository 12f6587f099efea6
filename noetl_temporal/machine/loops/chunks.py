"""Divides the items of a loop into chunks, which run while there are free shares of ``max_in_flight``.

How it works. A loop is divided into ranges of about CHUNK_ITEMS items, fewer if the items are large. Each is a chunk:
a machine and a workflow of its own, so that no history contains a whole loop and the loop is not copied when a run
continues as new. At least two chunks run at once, each with its share of ``max_in_flight``, so that one is busy while
another drains; a sequential loop runs one at a time, and passes ``ctx`` on. A chunk that approaches the limits of its
history returns the items that it has not begun, which become the next chunk.

The reports of chunks are recorded by their first item and joined in the order of the items (semantics.md 22c).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.circuits import latest_states
from noetl_temporal.machine.commands import FrameLimits
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.loops.offload import joined_results
from noetl_temporal.machine.records import latest_records
from noetl_temporal.machine.state import Chunk, LoopProgress
from noetl_temporal.machine.tally import add_tallies

__all__ = [
    "CHUNK_ITEMS",
    "item_ranges",
    "join_reports",
    "next_chunk",
    "record_report",
    "skip_remaining_items",
    "stored_list_ranges",
]

CHUNK_ITEMS = 400
"""Usual number of items of a chunk."""

WHOLE_ITEMS = 1_000
"""Maximum size of a loop that is one chunk, because its items may wait for long. A playbook cannot continue as new
before its chunks have ended, and Temporal limits a run to 2,000 requests, of which each item may need one."""

MAX_CHUNKS = 500
"""Maximum number of chunks of a loop, so that their events fit into one history; longer loops have longer chunks."""

PAGE_ITEMS = 10_000
"""How many items are encoded together to measure them."""

CHUNKS_AT_ONCE = 2
"""How many chunks of a loop run at once."""


def item_ranges(
    items: list[Json],
    max_in_flight: int,
    max_bytes: int,
    frame: FrameLimits | None = None,
    *,
    is_whole: bool = False,
) -> list[tuple[int, int]]:
    """Divide the items of a loop into ranges (first, size), each of at most ``max_bytes`` if it has several items.

    The ranges have equal sizes, and their number is a multiple of those that run at once, so that none idles at the
    end. A frame has as many items as its limits allow, fewer if not enough are left for all frames that run at once. A
    loop that ``is_whole``, because its items may wait for long, is one range if it has up to WHOLE_ITEMS: an item that
    waits would keep the next chunk from beginning.
    """
    if frame is not None:
        ranges = _frame_ranges(len(items), max_in_flight, frame)
    else:
        is_one = is_whole and 0 < len(items) <= WHOLE_ITEMS
        ranges = [(0, len(items))] if is_one else _even_ranges(len(items), max_in_flight)
    if _is_within_limit(items, max_bytes):
        return ranges
    return [part for first, size in ranges for part in _ranges_within_limit(items, first, size, max_bytes)]


def stored_list_ranges(
    reference: StoredRef, max_in_flight: int, max_bytes: int, frame: FrameLimits | None = None
) -> dict[int, Part]:
    """Divide a stored list into ranges, each a slice of one part of the list; return them by their first item."""
    total = sum(part.count for part in reference.parts)
    ranges = _even_ranges(total, max_in_flight) if frame is None else _frame_ranges(total, max_in_flight, frame)
    max_size = max(1, max_bytes * total // max(1, reference.bytes))
    starts = sorted({first + offset for first, size in ranges for offset in range(0, size, max_size)})
    parts_by_item: dict[int, Part] = {}
    position = 0
    for part in reference.parts:
        end_of_part = position + part.count
        bounds = [position, *(start for start in starts if position < start < end_of_part), end_of_part]
        for first, end in pairwise(bounds):
            parts_by_item[first] = Part(part.key, part.start + first - position, end - first)
        position += part.count
    return parts_by_item


def _is_within_limit(items: list[Json], max_bytes: int) -> bool:
    """Whether the items have at most ``max_bytes`` as JSON, measured page by page."""
    total = 1
    for start in range(0, len(items), PAGE_ITEMS):
        total += len(msgspec.json.encode(items[start : start + PAGE_ITEMS])) - 1
        if total > max_bytes:
            return False
    return max(2, total) <= max_bytes


def _even_ranges(items: int, max_in_flight: int) -> list[tuple[int, int]]:
    count = -(-items // max(CHUNK_ITEMS, -(-items // MAX_CHUNKS)))
    if count > 1:
        at_once = min(max_in_flight, CHUNKS_AT_ONCE)
        count = -(-count // at_once) * at_once
    sizes = [items // count + (1 if number < items % count else 0) for number in range(count)]
    return list(zip([0, *accumulate(sizes)], sizes, strict=False))


def _frame_ranges(items: int, max_in_flight: int, frame: FrameLimits) -> list[tuple[int, int]]:
    at_once = max(1, max_in_flight // frame.row_concurrency)
    rows = max(1, min(frame.max_rows, -(-items // at_once)))
    return [(first, min(rows, items - first)) for first in range(0, items, rows)]


def _ranges_within_limit(items: list[Json], first: int, size: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    total = 0
    for index in range(first, first + size):
        bytes_ = len(msgspec.json.encode(items[index]))
        if total and total + bytes_ > max_bytes:
            yield first, index - first
            first, total, size = index, 0, size - (index - first)
        total += bytes_
    yield first, size


def next_chunk(progress: LoopProgress, slot: int) -> Chunk | None:
    """Return the next chunk to run, with event ids of ``slot``; None if no share is free or no range is left."""
    share = _free_share(progress)
    if not progress.ranges or share < 1:
        return None
    first, size = progress.ranges.pop(0)
    return Chunk(first, size, share, slot)


def _free_share(progress: LoopProgress) -> int:
    """Return the share of ``max_in_flight`` for one more chunk. The last chunk gets all of it if it runs alone."""
    max_in_flight, frame = progress.max_in_flight, progress.frame
    used_share = sum(chunk.share for chunk in progress.chunks.values())
    if frame is not None:
        return frame.row_concurrency if not used_share or used_share + frame.row_concurrency <= max_in_flight else 0
    if not progress.chunks and len(progress.ranges) == 1:
        return max_in_flight
    if len(progress.chunks) >= CHUNKS_AT_ONCE:
        return 0
    return min(-(-max_in_flight // CHUNKS_AT_ONCE), max_in_flight - used_share)


def record_report(progress: LoopProgress, chunk: Chunk, report: ChunkReport, *, continues: bool) -> None:
    """Record the report of a chunk. Items that it returned form a new range; no range begins unless the loop
    ``continues``.
    """
    progress.reports[chunk.first] = msgspec.structs.replace(report, failures=FailureLog(), circuits={})
    progress.failures = progress.failures.merged_by_index(report.failures)
    if progress.claims is not None:
        progress.total += report.stats.get("total", 0)
    if report.unstarted:
        first = chunk.first + chunk.size - report.unstarted if progress.claims is None else progress.total
        progress.ranges.append((first, report.unstarted))
        progress.ranges.sort()
    if not continues:
        skip_remaining_items(progress)
    progress.ctx = report.ctx or progress.ctx
    progress.circuits = latest_states(progress.circuits, report.circuits)


def skip_remaining_items(progress: LoopProgress) -> None:
    """Begin no more chunks: items that are in no chunk yet are skipped."""
    progress.skipped_ranges += progress.ranges
    progress.ranges.clear()


def join_reports(progress: LoopProgress) -> ChunkReport:
    """Return the report of the whole loop."""
    reports = [report for _, report in sorted(progress.reports.items())]
    total = progress.total
    reference = joined_results(progress) if any(report.stored is not None for report in reports) else None
    results: list[Json] = [None] * (0 if reference else total)
    for first, report in progress.reports.items():
        if reference is None:
            results[first : first + len(report.results)] = report.results
    success = sum(report.stats.get("success", 0) for report in reports)
    failed = sum(report.stats.get("failed", 0) for report in reports)
    failure = next((report.failure for report in reports if report.failure is not None), None)
    return ChunkReport(
        status=_status(reports),
        results=results,
        stats={"total": total, "success": success, "failed": failed, "skipped": total - success - failed},
        failures=progress.failures,
        failure=failure,
        assigns=tuple(assign for report in reports for assign in report.assigns),
        attempts=sum(report.attempts for report in reports),
        retries=sum(report.retries for report in reports),
        stored=reference,
        steps=reduce(add_tallies, (report.steps for report in reports), {}),
        route_records=reduce(latest_records, (report.route_records for report in reports), {}),
    )


def _status(reports: list[ChunkReport]) -> Literal["ok", "error", "cancelled"]:
    statuses = {report.status for report in reports}
    return "cancelled" if "cancelled" in statuses else "error" if "error" in statuses else "ok"
