"""Stores the items and results of a loop in the payload store, instead of in the states of its machines (stored.py).

The items of a loop with several chunks, or with large items, are stored range by range before the first chunk starts,
and so is the scope of its body: each chunk gets references to its items and to the scope. A chunk stores its results
before it ends, and reports a reference. So nothing of a loop is copied on continue-as-new, and results that are not
read are never loaded.

Without a payload store nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.limits import INLINE_BYTES, STORE_FROM_BYTES
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.commands import ChunkItems
from noetl_temporal.machine.facts import PayloadRef
from noetl_temporal.machine.state import Chunk, LoopProgress, LoopState

__all__ = [
    "STORE_RESULTS_FROM_BYTES",
    "chunk_items_ref",
    "items_to_store",
    "joined_results",
    "replace_by_refs",
    "results_to_store",
    "stored_results",
]

LARGE_BYTES = STORE_FROM_BYTES
"""Minimum size of the items and scope, or of the results, that a loop of one chunk stores."""

STORE_RESULTS_FROM_BYTES = 4096
"""Minimum size of the results that one chunk of several stores: smaller ones take no more room than a reference."""


def items_to_store(progress: LoopProgress, limit: int) -> tuple[Json, ...] | None:
    """Return the items of each range, unless they are stored already, then the scope. None if they are small, or if
    there is no payload store (``limit`` is at most INLINE_BYTES then).
    """
    if limit <= INLINE_BYTES or not (progress.items or progress.stored_items):
        return None
    if progress.stored_items:
        return (progress.scope,) if _size(progress.scope) * len(progress.ranges) >= LARGE_BYTES else None
    if len(progress.ranges) < 2 and _size(progress.items) + _size(progress.scope) < LARGE_BYTES:
        return None
    ranges = [progress.items[first : first + size] for first, size in progress.ranges]
    return (*ranges, progress.scope)


def replace_by_refs(progress: LoopProgress, references: Sequence[PayloadRef]) -> None:
    """Replace the items and the scope by references to them."""
    *ranges, scope = references
    for (first, size), reference in zip(progress.ranges if ranges else (), ranges, strict=True):
        progress.stored_items[first] = Part(reference.key, 0, size)
    progress.scope_key = scope.key
    progress.items, progress.scope = [], {}


def chunk_items_ref(progress: LoopProgress, chunk: Chunk) -> Part:
    """Return the reference to the items of a chunk, which are all or the last of one range."""
    first = max(start for start in progress.stored_items if start <= chunk.first)
    part = progress.stored_items[first]
    return Part(part.key, part.start + chunk.first - first, chunk.size)


def results_to_store(chunk: ChunkItems, state: LoopState, limit: int) -> list[Json] | None:
    """Return the results of a chunk that are not stored yet, in the order of the items; None where they need not be."""
    if limit <= INLINE_BYTES or state.results_ref is not None:
        return None
    results = [result for _, result in sorted(state.results.items())]
    if not (results or state.stored_results):
        return None
    min_bytes = STORE_RESULTS_FROM_BYTES if chunk.total > chunk.size else LARGE_BYTES
    return results if state.stored_results or _size(results) >= min_bytes else None


def stored_results(state: LoopState, indices: range, reference: PayloadRef) -> StoredRef:
    """Return the reference to one result per item: stored with the chunk, stored with its call, or null without one."""
    parts: list[Part] = []
    position, size = 0, reference.bytes
    for index in indices:
        if index in state.results:
            _append_part(parts, Part(reference.key, position, 1))
            position += 1
        elif index in state.stored_results:
            _append_part(parts, state.stored_results[index].parts[0])
            size += state.stored_results[index].bytes
        else:
            _append_part(parts, Part(count=1))
    return StoredRef(tuple(parts), size)


def joined_results(progress: LoopProgress) -> StoredRef:
    """Return the results of all chunks, in the order of the items; null for items that no chunk reported."""
    parts: list[Part] = []
    size = position = 0
    for first, report in sorted(progress.reports.items()):
        _add_nulls(parts, first - position)
        total = report.stats.get("total", 0)
        if report.stored is not None:
            parts += report.stored.parts
            size += report.stored.bytes
        else:
            parts += [Part(inline_items=report.results)] if report.results else []
            size += _size(report.results)
            _add_nulls(parts, total - len(report.results))
        position = first + total
    _add_nulls(parts, progress.total - position)
    return StoredRef(tuple(parts), size)


def _add_nulls(parts: list[Part], count: int) -> None:
    if count > 0:
        _append_part(parts, Part(count=count))


def _append_part(parts: list[Part], new: Part) -> None:
    """Append a part; merge it with the last one if it continues that."""
    last = parts[-1] if parts else None
    if last is None or last.inline_items or new.inline_items or not (last.count and new.count) or last.key != new.key:
        parts.append(new)
    elif not new.key or last.start + last.count == new.start:
        parts[-1] = Part(last.key, last.start, last.count + new.count)
    else:
        parts.append(new)


def _size(value: Json) -> int:
    return len(msgspec.json.encode(value))
