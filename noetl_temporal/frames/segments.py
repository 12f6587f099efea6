"""Segments: the events and the progress of a frame in the payload store, each with the key of the previous one.

The mirror reads ``entries`` by key (mirror/frames.py): an entry is ``{"event": DomainEvent}`` or, where a call ended,
``{"call": ToolCall, "scheduled": ms, "closed": ms, "worker": name, "report": ToolReport}``. Entries repeat each other a
lot, so a segment is compressed.
"""

from __future__ import annotations

import zlib
from functools import partial

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import AttemptRecord, ToolCall
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.messages.inflate import InflateError
from noetl_temporal.messages.segment_chain import SegmentChain
from noetl_temporal.payloads.value_store import ValueStore, retry_until_done

__all__ = ["InFlight", "Resumption", "Segment", "pack_segment", "read_progress", "read_segment"]

_LEVEL = 1
"""The compression level: higher ones cost more time than the saved bytes are worth."""


class InFlight(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that had begun and not ended, with its attempts so far; ``scheduled`` in milliseconds since the epoch."""

    call: ToolCall
    scheduled: int
    attempts: tuple[AttemptRecord, ...] = ()


class Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the progress of a frame, as it is stored.

    ``results`` and ``assigns`` are those since the previous segment; ``state``, the machine's snapshot, has none, so
    its size depends only on what is in flight. ``report`` is set once the frame has ended.
    """

    previous_key: str | None
    entries: list[msgspec.Raw]
    results: dict[int, Json] = {}
    assigns: dict[int, list[tuple[str, Json]]] = {}
    state: dict[str, Json] = {}
    calls: list[InFlight] = []
    report: ChunkReport | None = None


class Resumption(msgspec.Struct, frozen=True):
    """The state in which an earlier attempt left a frame: a snapshot of the machine, the calls in progress, and the
    ``report`` if it had ended.
    """

    state: dict[str, Json]
    calls: list[InFlight]
    report: ChunkReport | None


def pack_segment(segment: Segment) -> bytes:
    """Return the segment as it is stored."""
    return zlib.compress(msgspec.json.encode(segment), _LEVEL)


async def read_progress(values: ValueStore, head: str) -> Resumption:
    """Read the segments, with retries. Raises LookupError if one is missing, or if there are too many."""
    chain = SegmentChain()
    last = await read_segment(values, head, chain)
    state = dict(last.state)
    results, assigns = dict(last.results), dict(last.assigns)
    older = last.previous_key
    while older is not None:
        segment = await read_segment(values, older, chain)
        results |= segment.results
        assigns |= segment.assigns
        older = segment.previous_key
    changes = {"results": results, "assigns": assigns}
    return Resumption({**state, **msgspec.to_builtins(changes, str_keys=True)}, last.calls, last.report)


async def read_segment(values: ValueStore, key: str, chain: SegmentChain | None = None) -> Segment:
    """Read a segment, the next of the chain if given, with retries.

    Raises LookupError if it is missing or was not written by a frame.
    """
    try:
        chain = SegmentChain() if chain is None else chain
        chain.follow(key)
        text = await retry_until_done("the progress of a frame cannot be read", partial(values.get, key))
        return msgspec.json.decode(chain.decompress(text), type=Segment, strict=False)
    except InflateError as error:
        raise LookupError(str(error)) from error
