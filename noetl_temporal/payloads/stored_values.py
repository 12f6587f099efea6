"""Local activities that store and load a machine's large values (machine/stored.py). Any workflow worker runs them.

Values are encoded as Temporal encodes them, so one that was also an argument or a result is stored once. Temporal
retries failures; a value that is missing from the store is reported to the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from temporalio import activity, workflow
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.common import RawValue, RetryPolicy
from temporalio.converter import JSONProtoPayloadConverter
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.limits import PREVIEW_BYTES, STORE_FROM_BYTES
from noetl_temporal.machine.call import Part, PlainOutcome, StoredRef, ToolReport
from noetl_temporal.machine.commands import LoadValue, StoreValues
from noetl_temporal.machine.facts import PayloadRef, ValueLoaded, ValuesStored
from noetl_temporal.machine.stored import assemble_result, reference_in, with_result
from noetl_temporal.naming import summary
from noetl_temporal.payloads.payload_store import STORE_NAME
from noetl_temporal.payloads.stored_lists import large_lists, store_list
from noetl_temporal.payloads.value_store import ValueStore

__all__ = [
    "GONE",
    "load_json",
    "load_result",
    "loaded_fact",
    "reference",
    "start_load",
    "start_store",
    "store_large_result",
    "store_values",
    "stored_fact",
    "value_activities",
]

STORE = "noetl.store"
LOAD = "noetl.load"

GONE = "ValueGone"
"""Failure type of a missing value: not retryable."""

ATTEMPT_TIMEOUT = timedelta(minutes=5)

BATCH_BYTES = 1_000_000
"""Bytes of the values that one local activity stores, as JSON."""

CONTAINER_BYTES = 4_000
"""The maximum bytes of a result without its large list: they are in history and in the machine's state."""

PAGE_PARTS = 64
"""Parts of a list that are read at once."""

_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=[GONE],
)
_REFERENCE = JSONProtoPayloadConverter()


def value_activities(values: ValueStore) -> list[Callable[..., Any]]:
    """Return both local activities, which use this store."""

    @activity.defn(name=STORE)
    async def store(*new_values: Any) -> list[PayloadRef]:
        return await store_values(values, new_values)

    @activity.defn(name=LOAD)
    async def load(stored: StoredRef) -> msgspec.Raw:
        try:
            return msgspec.Raw(await load_json(values, stored))
        except LookupError as error:
            raise ApplicationError(str(error), type=GONE, non_retryable=True) from error

    return [store, load]


async def store_values(values: ValueStore, new_values: Sequence[Any]) -> list[PayloadRef]:
    """Store the values, and return their references. Raises the driver's errors."""
    encoded = [msgspec.json.encode(value) for value in new_values]
    keys = await values.put_all(encoded)
    return [PayloadRef(key, len(data)) for key, data in zip(keys, encoded, strict=True)]


async def load_json(values: ValueStore, stored: StoredRef) -> bytes:
    """Return the JSON of a stored value. Raises LookupError when it is gone, the driver's errors.

    A list is assembled as text, a few parts at a time, so that only its JSON is in memory.
    """
    if stored.is_one:
        return await values.get(stored.parts[0].key)
    loaded = bytearray(b"[")
    for start in range(0, len(stored.parts), PAGE_PARTS):
        for text in await _elements(values, stored.parts[start : start + PAGE_PARTS]):
            loaded += text
            loaded += b","
    return bytes(loaded[:-1] if len(loaded) > 1 else loaded) + b"]"


async def _elements(values: ValueStore, parts: Sequence[Part]) -> Iterable[bytes]:
    """Return the elements of each part that has any, as JSON separated by commas."""
    texts = await values.get_all(list(dict.fromkeys(part.key for part in parts if part.key)))
    lists = _Lists(texts)
    return filter(None, (_elements_text(part, texts, lists) for part in parts))


class _Lists:
    """Stored lists by element. The last one is remembered: parts of one list mostly follow each other."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._key = ""
        self._elements: list[msgspec.Raw] = []

    def of(self, key: str) -> list[msgspec.Raw]:
        """Return the elements of the list with this key."""
        if key != self._key:
            self._key, self._elements = key, msgspec.json.decode(self._texts[key], type=list[msgspec.Raw])
        return self._elements


def _elements_text(part: Part, texts: Mapping[str, bytes], lists: _Lists) -> bytes:
    if part.key and not part.count:
        return texts[part.key]
    if part.key:
        return msgspec.json.encode(lists.of(part.key)[part.start : part.start + part.count])[1:-1]
    return msgspec.json.encode(part.inline_items or [None] * part.count)[1:-1]


async def store_large_result(report: ToolReport, values: ValueStore, *, is_paged: bool) -> ToolReport:
    """Store a large result, and return the report with a reference to it. If it ``is_paged``, a large list in it is
    stored page by page. Raises the driver's errors.
    """
    result = report.outcome.get("result")
    if not values.is_available or result is None:
        return report
    data = msgspec.json.encode(result)
    if len(data) < STORE_FROM_BYTES:
        return report
    stored = await _store_pages(result, len(data), values) if is_paged else None
    stored = stored or StoredRef((Part(await values.put(data)),), len(data), is_one=True)
    outcome = {name: value for name, value in report.outcome.items() if name != "result"}
    return replace(report, outcome=outcome, stored=stored, preview=data[:PREVIEW_BYTES].decode(errors="ignore"))


async def _store_pages(result: Json, size: int, values: ValueStore) -> StoredRef | None:
    """Store the only large list of a result page by page; None if it has none or several, or much data beside it."""
    match list(large_lists(result)):
        case [(place, items)]:
            container: dict[str, Json] = with_values_at(result, {place: None}) if place else {}
            if len(msgspec.json.encode(container)) <= CONTAINER_BYTES:
                return replace(await store_list(items, values), bytes=size, pointer=place, container=container)
        case _:
            pass
    return None


async def load_result(outcome: PlainOutcome, values: ValueStore) -> PlainOutcome:
    """Return the outcome with its result loaded. Raises LookupError when it is gone, the driver's errors."""
    stored = reference_in(outcome)
    if stored is None:
        return outcome
    value = msgspec.json.decode(await load_json(values, stored))
    return with_result(outcome, assemble_result(stored, value))


def reference(key: str) -> RawValue:
    """Return a reference as an argument of a workflow or activity, which receives the value itself."""
    payload = _REFERENCE.to_payload(ExternalStorageReference(driver_name=STORE_NAME, claim_data={"key": key}))
    assert payload is not None  # noqa: S101 - it converts every message
    return RawValue(payload)


def start_store(command: StoreValues) -> asyncio.Task[list[PayloadRef]]:
    """Start the local activity that stores the values; several one after the other if there are many values."""
    first, *more = _batches(command.values)
    if not more:
        return _store_batch(command, first)
    return asyncio.create_task(_store_batches(command, [first, *more]))


async def _store_batches(command: StoreValues, batches: Sequence[Sequence[Any]]) -> list[PayloadRef]:
    """Store one batch after the other: an activity has its values in memory several times, encoded and decoded."""
    stored: list[PayloadRef] = []
    for batch in batches:
        stored += await _store_batch(command, batch)
    return stored


def _store_batch(command: StoreValues, values: Sequence[Any]) -> workflow.ActivityHandle[list[PayloadRef]]:
    return workflow.start_local_activity(
        STORE,
        args=values,
        result_type=list[PayloadRef],
        start_to_close_timeout=ATTEMPT_TIMEOUT,
        retry_policy=_RETRY,
        summary=summary(f"store {command.description}"),
    )


def _batches(values: Sequence[Any]) -> list[list[Any]]:
    """Return the values in their order, each batch of at most BATCH_BYTES where it has several."""
    batches: list[list[Any]] = [[]]
    total = 0
    for value in values:
        size = len(msgspec.json.encode(value))
        if batches[-1] and total + size > BATCH_BYTES:
            batches.append([])
            total = 0
        batches[-1].append(value)
        total += size
    return batches


def start_load(command: LoadValue) -> workflow.ActivityHandle[msgspec.Raw]:
    """Start the local activity that loads the value, as JSON."""
    return workflow.start_local_activity(
        LOAD,
        command.stored,
        result_type=msgspec.Raw,
        start_to_close_timeout=ATTEMPT_TIMEOUT,
        retry_policy=_RETRY,
        summary=summary(f"load {command.stored.bytes:,} bytes"),
    )


def stored_fact(at: int, command: StoreValues, task: asyncio.Task[list[PayloadRef]]) -> ValuesStored | None:
    """Return the fact that the values are stored, or cannot be; None if it is no longer needed."""
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or (error is not None and is_cancelled_exception(error)):
        return None
    if error is not None:
        return ValuesStored(at, command.id, error=f"values cannot be stored: {_cause(error)}")
    return ValuesStored(at, command.id, tuple(task.result()))


def loaded_fact(at: int, command: LoadValue, task: asyncio.Task[msgspec.Raw]) -> ValueLoaded | None:
    """Return the fact that the value is loaded, or cannot be; None if it is no longer needed."""
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or (error is not None and is_cancelled_exception(error)):
        return None
    if error is not None:
        return ValueLoaded(at, command.id, error=f"a stored value cannot be read: {_cause(error)}")
    return ValueLoaded(at, command.id, msgspec.json.decode(task.result()))


def _cause(error: BaseException) -> BaseException:
    return error.cause if isinstance(error, ActivityError) and error.cause is not None else error
