"""Large lists, stored page by page: a loop over one loads only the items that run (dev/decisions/0073).

Such a list may be a value of a request, or of the result of a call, at any depth of mappings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import msgspec

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import pointer
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.value_store import ValueStore

__all__ = ["Page", "large_lists", "pages_of", "store_list"]

LARGE_BYTES = 256_000
"""A list is large from this size on, as JSON."""

PAGE_ITEMS = 10_000
PAGE_BYTES = 1_000_000
"""Maximum size of a page. A page of a single item may be larger."""


class Page(NamedTuple):
    """A part of a list: the number of its items, and its JSON."""

    items: int
    json: bytes


def large_lists(value: Json, place: str = "") -> Iterator[tuple[str, list[Json]]]:
    """Yield the large lists in a value at ``place``, at any depth of its mappings, with their JSON pointers."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Json]", value).items():
            yield from large_lists(inner, pointer(place, name))
    elif isinstance(value, list) and len(msgspec.json.encode(value)) >= LARGE_BYTES:
        yield place, cast("list[Json]", value)


async def store_list(items: list[Json], values: ValueStore) -> StoredRef:
    """Store the list page by page. Raises the driver's errors."""
    parts: list[Part] = []
    size = 0
    for page in pages_of(items):
        parts.append(Part(await values.put(page.json), 0, page.items))
        size += len(page.json)
    return StoredRef(tuple(parts), size)


def pages_of(items: list[Json]) -> Iterator[Page]:
    """Yield the items in their order, divided into pages. Each item is encoded once."""
    page: list[bytes] = []
    size = 0
    for item in items:
        json = msgspec.json.encode(item)
        if page and (len(page) >= PAGE_ITEMS or size + len(json) > PAGE_BYTES):
            yield _page(page)
            page, size = [], 0
        page.append(json)
        size += len(json)
    yield _page(page)


def _page(items: list[bytes]) -> Page:
    return Page(len(items), b"[" + b",".join(items) + b"]")
