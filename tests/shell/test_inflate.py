"""Compressed data that decompresses to more than the limit is refused, without taking that memory."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from noetl_temporal.frames.segments import Segment, pack_segment, read_progress, read_segment
from noetl_temporal.messages import inflate, segment_chain
from noetl_temporal.messages.inflate import InflateError, decompress
from noetl_temporal.messages.packed_trail import DICTIONARIES, PackedTrail, unpack
from noetl_temporal.messages.segment_chain import MAX_SEGMENTS_OF_FULL_SIZE
from noetl_temporal.mirror.frames import with_entries
from noetl_temporal.payloads.value_store import ValueStore

LIMIT = 100_000
SIZE = 32_000_000
"""The decompressed size of the bomb; compressed, it has about a thousandth of that."""

MEMORY = 2_000_000
"""The most memory that a refusal may take: two copies of the limit, and some overhead."""


class ChainedDriver(StorageDriver):
    """A payload store of segments that refer to each other as in ``links``.

    If a chain is read endlessly, the test fails here instead of hanging.
    """

    def __init__(self, links: Mapping[str, str | None], padding: int = 0) -> None:
        self._links, self._padding = links, padding
        self.reads = 0

    def name(self) -> str:
        return "chained"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        raise NotImplementedError

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        self.reads += len(claims)
        if self.reads > 100:
            pytest.fail("the chain is read without an end")
        entry = msgspec.Raw(b'"' + b"x" * self._padding + b'"')
        segments = (Segment(self._links[claim.claim_data["key"]], [entry]) for claim in claims)
        return [Payload(data=pack_segment(segment)) for segment in segments]


class StoredDriver(StorageDriver):
    """A payload store in which every key has the same data."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def name(self) -> str:
        return "stored"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        raise NotImplementedError

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        return [Payload(data=self.data) for _ in claims]


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "UNPACKED_BYTES", LIMIT)
    monkeypatch.setattr(segment_chain, "UNPACKED_BYTES", LIMIT)


def _bomb(bits: int = zlib.MAX_WBITS, dictionary: bytes = b"") -> bytes:
    """Return a compressed list of nothing but spaces."""
    packer = zlib.compressobj(9, zlib.DEFLATED, bits, zdict=dictionary)
    return packer.compress(b"[" + b" " * SIZE + b"]") + packer.flush()


def _converter(data: bytes) -> DataConverter:
    return DataConverter(external_storage=ExternalStorage([StoredDriver(data)]))


def _chained_converter(links: Mapping[str, str | None], padding: int = 0) -> DataConverter:
    return DataConverter(external_storage=ExternalStorage([ChainedDriver(links, padding)]))


def _frame_ended() -> HistoryEvent:
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
    result = event.activity_task_completed_event_attributes.result.payloads.add()
    result.metadata["encoding"], result.data = b"json/plain", msgspec.json.encode({"last_segment": "k"})
    return event


@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
def test_data_up_to_the_limit_is_decompressed(size: int) -> None:
    assert decompress(zlib.compress(bytes(size))) == bytes(size)


def test_data_over_the_limit_is_refused() -> None:
    with pytest.raises(InflateError, match="decompress to over 100,000"):
        decompress(zlib.compress(bytes(LIMIT + 1)))


def test_incomplete_data_is_refused() -> None:
    with pytest.raises(InflateError, match="incomplete"):
        decompress(zlib.compress(bytes(1000))[:-5])


def test_a_decompression_bomb_in_a_trail_is_refused() -> None:
    trail = PackedTrail("1", _bomb(-15, DICTIONARIES["1"]))
    tracemalloc.start()
    try:
        with pytest.raises(InflateError):
            unpack(trail)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


async def test_a_segment_that_is_a_bomb_cannot_be_resumed() -> None:
    """The frame fails for good: no later attempt would read another."""
    values = ValueStore(_converter(_bomb()))
    tracemalloc.start()
    try:
        with pytest.raises(LookupError, match="decompress to over"):
            await read_segment(values, "k")
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


async def test_a_segment_that_is_a_bomb_is_not_mirrored() -> None:
    converter, event = _converter(_bomb()), _frame_ended()
    tracemalloc.start()
    try:
        with pytest.raises(InflateError):
            await with_entries(event, converter)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


async def test_a_segment_within_the_limit_is_read_by_both() -> None:
    converter = _converter(pack_segment(Segment(None, [msgspec.Raw(b'{"event":1}')])))
    assert (await read_segment(ValueStore(converter), "k")).entries == [msgspec.Raw(b'{"event":1}')]
    event, keys = await with_entries(_frame_ended(), converter)
    assert keys == ["k"]
    text = event.activity_task_completed_event_attributes.result.payloads[0].data
    assert msgspec.json.decode(text) == {"entries": [{"event": 1}]}


@pytest.mark.parametrize("links", [{"k": "k"}, {"k": "a", "a": "b", "b": "a"}])
async def test_a_cyclic_chain_of_segments_is_refused(links: dict[str, str | None]) -> None:
    with pytest.raises(LookupError, match="refers to itself or a later segment"):
        await read_progress(ValueStore(_chained_converter(links)), "k")
    with pytest.raises(InflateError, match="refers to itself or a later segment"):
        await with_entries(_frame_ended(), _chained_converter(links))


async def test_the_segments_of_a_chain_share_one_limit() -> None:
    links = {"k": "0", **{str(n): str(n + 1) for n in range(20)}, "20": None}
    limit = f"{MAX_SEGMENTS_OF_FULL_SIZE * LIMIT:,}"
    with pytest.raises(LookupError, match=f"over {limit} bytes in all"):
        await read_progress(ValueStore(_chained_converter(links, LIMIT - 100)), "k")
    with pytest.raises(InflateError, match=f"over {limit} bytes in all"):
        await with_entries(_frame_ended(), _chained_converter(links, LIMIT - 100))
    _, keys = await with_entries(_frame_ended(), _chained_converter(links))
    assert keys == ["k", *map(str, range(21))]
