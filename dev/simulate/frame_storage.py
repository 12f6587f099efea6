"""The payload store and the sink database of simulated frames: in memory, slow, and at times unavailable."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

import msgspec

from dev.simulate.process import ProcessLoop
from dev.simulate.simulated_values import SimulatedValues
from noetl_activities.errors import SinkError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.sinks import Entry, OutcomeLookup, SinkRequest, StoreResult
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

__all__ = ["Database", "SegmentContents", "SimulatedPayloadStore", "current_process"]


class StoreWorld(Protocol):
    """The part of the world that store and database use."""

    now: int
    store: SimulatedValues

    def draw(self, low: int, high: int) -> int: ...
    def occurs(self, probability: float) -> bool: ...


def current_process() -> ProcessLoop:
    """The process that runs the caller. Raises CancelledError if it is dead, so that it cannot affect the world."""
    loop = cast("ProcessLoop", asyncio.get_running_loop())
    if loop.is_dead:
        raise asyncio.CancelledError
    return loop


class SegmentContents(msgspec.Struct):
    """The contents of a segment and those before it: keys of ended calls, ended items, and all events in order."""

    calls: frozenset[str] = frozenset()
    items: frozenset[int] = frozenset()
    events: tuple[dict[str, Any], ...] = ()


class SimulatedPayloadStore(ValueStore):
    """Unavailable until ``unavailable_until``. Each request takes up to ``slow`` milliseconds."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(data_converter())
        self.unavailable_until = 0
        self.slow = 20
        self._world = world
        self._segments: dict[str, bytes] = {}
        self._contents: dict[str | None, SegmentContents] = {None: SegmentContents()}

    async def keep(self, value: Any) -> None:
        """See ValueStore: stores nothing, as reports of frames are small enough for history."""
        del value
        await self._respond()

    async def put_all(self, values: Sequence[bytes], encoding: bytes = b"") -> list[str]:
        """See ValueStore: for values of the machine."""
        del encoding
        await self._respond()
        return [self._world.store.put(data) for data in values]

    async def get_all(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See ValueStore."""
        await self._respond()
        return {key: self._world.store.data(key) for key in keys}

    async def put(self, data: bytes, encoding: bytes = b"") -> str:
        """See ValueStore: for a segment."""
        del encoding
        process = current_process()
        process.owner.note_store_wait(since=self._world.now)
        await self._respond()
        process.owner.note_store_wait(since=None)
        key = hashlib.sha256(data).hexdigest()
        self._segments[key], self._contents[key] = data, self._read(data)
        return key

    async def get(self, key: str) -> bytes:
        """See ValueStore."""
        await self._respond()
        return self._segments[key]

    async def _respond(self) -> None:
        await asyncio.sleep(self._world.draw(0, self.slow) / 1000)
        current_process().mark_active()
        if self._world.now < self.unavailable_until:
            raise OSError("the payload store is unavailable")

    def contents(self, key: str | None) -> SegmentContents:
        """Return the contents of the segment with this key and those before it; empty for None."""
        return self._contents[key]

    def _read(self, data: bytes) -> SegmentContents:
        segment = msgspec.json.decode(zlib.decompress(data))
        before = self._contents[segment["previous_key"]]
        events = tuple(entry["event"] for entry in segment["entries"] if "event" in entry)
        calls = {_call_key(entry["call"]) for entry in segment["entries"] if "call" in entry}
        ends = (event for event in events if event["type"].startswith("loop.iteration.") and "ends" in event)
        items = {event["meta"]["iteration"] for event in ends}
        return SegmentContents(before.calls | calls, before.items | items, (*before.events, *events))


def _call_key(call: dict[str, Any]) -> str:
    return str(call["key"]) + ("/store" if "outcome_to_store" in call else "")


class Database:
    """The database of the sinks of framed calls: rows with their ledger entries, and outcomes (semantics 26a).

    ``fails`` is the probability that a sink fails. Rows are appended to ``rows``, in the format of unframed calls.
    """

    def __init__(self, world: StoreWorld, fails: float, rows: list[str]) -> None:
        self.rows = rows
        self._world = world
        self._fails = fails
        self._entries: set[tuple[str, int]] = set()
        self._outcomes: dict[tuple[str, int], str] = {}

    async def find_outcome(self, lookup: OutcomeLookup, context: Any) -> str | None:
        """See noetl_activities.sinks.find_outcome."""
        del context
        await self._pause()
        return self._outcomes.get((lookup.key, lookup.repetition))

    async def store(self, request: SinkRequest, context: Any) -> StoreResult:
        """See noetl_activities.sinks.store: commits at once, and responds after a delay."""
        del context
        await self._pause()
        stored = self._commit(request.config, request.entry)
        await self._pause()
        return stored

    def _commit(self, config: dict[str, Any], entry: Entry) -> StoreResult:
        outcome = self._outcomes.get((entry.call_key, entry.repetition))
        if entry.outcome is not None and outcome is not None:
            return StoreResult(existing_outcome=outcome)
        if (entry.key, entry.repetition) in self._entries:
            return StoreResult(duplicate=True, is_in_ledger=outcome is not None)
        if self._world.occurs(self._fails):
            raise SinkError(Outcome("error", error=ErrorInfo("sql_integrity", "the sink failed", retryable=False)))
        if entry.outcome is not None:
            self._outcomes[entry.call_key, entry.repetition] = entry.outcome
        self._entries.add((entry.key, entry.repetition))
        self.rows.append(f"{config.get('table')} {config.get('data')}")
        return StoreResult(1, str(config.get("table")), is_in_ledger=entry.outcome is not None)

    async def _pause(self) -> None:
        current_process()
        await asyncio.sleep(self._world.draw(0, 5) / 1000)
        current_process().mark_active()
