"""Stores large lists page by page, so that a loop over one loads only the items that it runs (dev/decisions/0073).

The list may be a value of a request or of the result of a call, at any depth of mappings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import msgspec

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import pointer
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.payloads.value_store import ValueStore

__all__ = ["Page", "large_lists", "pages_of", "store_list"]

LARGE_BYTES = 256_000
"""The size from which a list is large, as JSON."""

PAGE_ITEMS = 10_000
PAGE_BYTES = 1_000_000
"""The maximum number of items in a page, and its maximum size. A page of a single item may be larger."""


class Page(NamedTuple):
    """A part of a list: the number of its items, and their list as JSON."""

    item_count: int
    json: bytes


def large_lists(value: Json, path: str = "") -> Iterator[tuple[str, list[Json]]]:
    """Yield the large lists in a value, at any depth of its mappings, with their JSON pointers. ``path`` is the JSON
    pointer of the value itself.
    """
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Json]", value).items():
            yield from large_lists(inner, pointer(path, name))
    elif isinstance(value, list) and len(msgspec.json.encode(value)) >= LARGE_BYTES:
        yield path, cast("list[Json]", value)


async def store_list(items: list[Json], values: ValueStore) -> StoredRef:
    """Store the list page by page. Raises the driver's errors."""
    parts: list[Part] = []
    size = 0
    for page in pages_of(items):
        parts.append(Part(await values.put(page.json), 0, page.item_count))
        size += len(page.json)
    return StoredRef(tuple(parts), size)


def pages_of(items: list[Json]) -> Iterator[Page]:
    """Yield the items in pages, in their order. Each item is encoded once."""
    page_items: list[bytes] = []
    size = 0
    for item in items:
        json = msgspec.json.encode(item)
        if page_items and (len(page_items) >= PAGE_ITEMS or size + len(json) > PAGE_BYTES):
            yield _page(page_items)
            page_items, size = [], 0
        page_items.append(json)
        size += len(json)
    yield _page(page_items)


def _page(items: list[bytes]) -> Page:
    return Page(len(items), b"[" + b",".join(items) + b"]")
