"""Long lists in the payload store: put together a few parts at a time, and stored a few values at a time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.converter import DataConverter

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.payloads import stored_values
from noetl_temporal.payloads.stored_values import load_json
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import HEAD, history_of

LISTS: dict[str, Any] = {"a": [0, "a,b", None, [1, 2], {"x": "]"}], "b": [], "c": {"one": 1}, "d": ["ü", '"']}

LOOP = """
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {frame: {max_rows: 10}}}
    tool: {kind: noop, message: "{{ iter.item }}"}
"""


class CountingStore(ValueStore):
    """A store that has these values; ``asked`` has how many were read at once."""

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(DataConverter.default)
        self.values = values
        self.read_sizes: list[int] = []

    async def get_all(self, keys: Sequence[str]) -> dict[str, bytes]:
        self.read_sizes.append(len(keys))
        return {key: self.values[key] for key in keys}


def _expected(part: Part) -> list[Any]:
    if part.key and not part.count:
        return [LISTS[part.key]]
    if part.key:
        return list(LISTS[part.key][part.start : part.start + part.count])
    return list(part.inline_items) or [None] * part.count


PARTS = st.one_of(
    st.builds(Part, st.just("a"), st.integers(0, 4), st.integers(1, 5)),
    st.builds(Part, st.sampled_from("abcd")),
    st.builds(Part, st.just("d"), st.just(0), st.just(2)),
    st.builds(Part, count=st.integers(1, 3)),
    st.builds(Part, inline_items=st.lists(st.integers(), min_size=1, max_size=3)),
)


@given(st.lists(PARTS, max_size=12))
@settings(max_examples=200, deadline=None)
async def test_a_list_is_put_together_of_its_parts(parts: list[Part]) -> None:
    values = CountingStore({key: msgspec.json.encode(value) for key, value in LISTS.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_values, "PAGE_PARTS", 3)
        text = await load_json(values, StoredRef(tuple(parts), 0))
    assert msgspec.json.decode(text) == [value for part in parts for value in _expected(part)]
    assert all(size <= 3 for size in values.read_sizes)


async def test_a_long_list_is_loaded_in_little_more_than_its_text() -> None:
    size, count = 2_000, 100
    segments = {str(number): msgspec.json.encode(list(range(size))) for number in range(count)}
    parts = tuple(Part(key, 0, size) for key in segments)
    bytes_ = sum(map(len, segments.values()))
    tracemalloc.start()
    try:
        text = await load_json(CountingStore(segments), StoredRef(parts, bytes_))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(text) == bytes_ - count + 1
    assert peak < 4 * bytes_


async def test_the_items_of_a_long_loop_are_stored_a_few_ranges_at_a_time(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    monkeypatch.setattr(stored_values, "BATCH_BYTES", 200)
    sizes: list[int] = []
    store_values = stored_values.store_values

    async def noting(values: ValueStore, references: Sequence[Any]) -> Any:
        sizes.append(len(references))
        return await store_values(values, references)

    monkeypatch.setattr(stored_values, "store_values", noting)
    tool = FakeTool("noop", lambda request, _context: request.config["message"])
    client = await NoetlClient.connect(servers.temporal, tools={"noop": tool})
    async with serving(client.temporal, {"noop": tool}, CredentialSource(environment={})):
        graph = compile_or_raise(f"{HEAD}workload: {{items: []}}\nworkflow:\n{LOOP}")
        handle = await client.submit(graph, {"items": list(range(100))})
        report = await handle.result()
    assert report.result["results"] == list(range(100))
    assert sum(sizes) == 11, "ten ranges and the scope"
    assert len(sizes) > 1
    history = await history_of(handle)
    markers = [event for event in history.events if event.HasField("marker_recorded_event_attributes")]
    assert len(markers) == len(sizes)
