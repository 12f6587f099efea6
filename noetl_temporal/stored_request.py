"""Stores large lists of a request before its run begins (dev/decisions/0073).

The input of a workflow is in the memory of its worker, several times, for as long as the run is cached there. So the
client stores a large list page by page, and the input has references to the pages. A loop over the list gives each of
its chunks a reference to a part of a page, and no process has the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import msgspec

from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.contents import pointer, templates_in
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.run_input import RunInput
from noetl_temporal.value_store import ValueStore

__all__ = ["pages_of", "store_large_lists"]

LARGE_BYTES = 256_000
"""A list is stored from this size on, as JSON."""

PAGE_ITEMS = 10_000
PAGE_BYTES = 1_000_000
"""Maximum size of a page. A page of a single item may be larger."""


async def store_large_lists(run_input: RunInput, graph: Graph, values: ValueStore) -> RunInput:
    """Return the input with references in place of the large lists of its payload. Raises the driver's errors.

    A run does not load stored values when it starts: if the playbook's defaults or its timeout have templates, which
    are rendered then, the payload is left unchanged.
    """
    if not values.is_available or any(templates_in((graph.workload, graph.timeout))):
        return run_input
    kept = dict(run_input.kept)
    payload = await _store_lists(run_input.payload, "", kept, values)
    return msgspec.structs.replace(run_input, payload=payload, kept=kept)


async def _store_lists(
    mapping: dict[str, Json], place: str, kept: dict[str, StoredRef], values: ValueStore
) -> dict[str, Json]:
    """Return the mapping at ``place`` with null for each large list in it or below; ``kept`` gets their references."""
    payload = dict(mapping)
    for name, value in mapping.items():
        location = pointer(place, name)
        if isinstance(value, dict):
            payload[name] = await _store_lists(cast("dict[str, Json]", value), location, kept, values)
        elif isinstance(value, list) and len(msgspec.json.encode(value)) >= LARGE_BYTES:
            payload[name], kept[location] = None, await _store_list(cast("list[Json]", value), values)
    return payload


async def _store_list(items: list[Json], values: ValueStore) -> StoredRef:
    parts: list[Part] = []
    size = 0
    for page in pages_of(items):
        data = msgspec.json.encode(page)
        parts.append(Part(await values.put(data), 0, len(page)))
        size += len(data)
    return StoredRef(tuple(parts), size)


def pages_of(items: list[Json]) -> Iterator[list[Json]]:
    """Yield the items in pages, in their order."""
    page: list[Json] = []
    size = 0
    for item in items:
        bytes_ = len(msgspec.json.encode(item))
        if page and (len(page) >= PAGE_ITEMS or size + bytes_ > PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(item)
        size += bytes_
    yield page
