"""What a loop has in the payload store instead of in the states of its machines (stored.py).

A loop of several chunks, or of large items, has its items stored before the first of them begins, range by range, and
the scope of its body beside them: each chunk is told where its own lie. A chunk has its results stored before it ends,
and tells the same of them. So nothing of a loop is copied when a run continues as new, and a playbook that nobody reads
the results of never loads them.

Nothing is stored where there is no payload store.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.limits import INLINE_BYTES, STORE_FROM_BYTES
from noetl_temporal.machine.call import Part, Stored
from noetl_temporal.machine.commands import ChunkItems
from noetl_temporal.machine.events import Kept
from noetl_temporal.machine.state import Chunk, LoopProgress, LoopState

__all__ = [
    "KEPT_FROM_BYTES",
    "items_to_keep",
    "joined_results",
    "kept_items",
    "results_to_keep",
    "stored_results",
    "take_kept",
]

LARGE_BYTES = STORE_FROM_BYTES
"""Of the items and the scope, or the results, of a loop that is a single chunk."""

KEPT_FROM_BYTES = 4096
"""Results of one chunk among several: smaller ones take no more room in the playbook's state than where they lie."""


def items_to_keep(progress: LoopProgress, limit: int) -> tuple[Json, ...] | None:
    """The items of each range, and at the end the scope of the body; None for a loop that is small enough, or where
    values of ``limit`` bytes show that there is no payload store.
    """
    if limit <= INLINE_BYTES or not progress.items:
        return None
    is_small = _size(progress.items) + _size(progress.scope) < LARGE_BYTES
    if len(progress.ranges) < 2 and is_small:
        return None
    ranges = [progress.items[first : first + size] for first, size in progress.ranges]
    return (*ranges, progress.scope)


def take_kept(progress: LoopProgress, kept: Sequence[Kept]) -> None:
    """Remember where the items and the scope lie, and drop them."""
    *ranges, scope = kept
    for (first, size), one in zip(progress.ranges, ranges, strict=True):
        progress.kept[first] = Part(one.key, 0, size)
    progress.kept_scope = scope.key
    progress.items, progress.scope = [], {}


def kept_items(progress: LoopProgress, chunk: Chunk) -> Part:
    """Where the items of a chunk lie, which are all or the last of one range."""
    first = max(one for one in progress.kept if one <= chunk.first)
    return Part(progress.kept[first].key, chunk.first - first, chunk.size)


def results_to_keep(given: ChunkItems, state: LoopState, limit: int) -> list[Json] | None:
    """The results of a chunk that are here, in the order of the items; None where they need not be stored."""
    if limit <= INLINE_BYTES or state.kept is not None:
        return None
    results = [result for _, result in sorted(state.results.items())]
    least = KEPT_FROM_BYTES if given.total > given.size else LARGE_BYTES
    return results if state.stored or _size(results) >= least else None


def stored_results(state: LoopState, indices: range, kept: Kept) -> Stored:
    """One entry an item: what was here, what was stored with its call, None for an item without any."""
    parts: list[Part] = []
    place, size = 0, kept.bytes
    for index in indices:
        if index in state.results:
            _add(parts, Part(kept.key, place, 1))
            place += 1
        elif index in state.stored:
            _add(parts, state.stored[index].parts[0])
            size += state.stored[index].bytes
        else:
            _add(parts, Part(count=1))
    return Stored(tuple(parts), size)


def joined_results(progress: LoopProgress) -> Stored:
    """The results of all chunks, in the order of the items. An item of which no chunk told has none."""
    parts: list[Part] = []
    size = place = 0
    for first, report in sorted(progress.reports.items()):
        _add_nothing(parts, first - place)
        total = report.stats.get("total", 0)
        if report.stored is not None:
            parts += report.stored.parts
            size += report.stored.bytes
        else:
            parts += [Part(given=report.results)] if report.results else []
            size += _size(report.results)
            _add_nothing(parts, total - len(report.results))
        place = first + total
    _add_nothing(parts, progress.total - place)
    return Stored(tuple(parts), size)


def _add_nothing(parts: list[Part], count: int) -> None:
    if count > 0:
        _add(parts, Part(count=count))


def _add(parts: list[Part], more: Part) -> None:
    """Add a part, to the last one where it goes on from that."""
    last = parts[-1] if parts else None
    if last is None or last.given or more.given or not (last.count and more.count) or last.key != more.key:
        parts.append(more)
    elif not more.key or last.start + last.count == more.start:
        parts[-1] = Part(last.key, last.start, last.count + more.count)
    else:
        parts.append(more)


def _size(value: Json) -> int:
    return len(msgspec.json.encode(value))
