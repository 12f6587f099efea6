"""What a machine keeps outside of its state, and fetches when a template reads it (machine/stored.py): two local
activities, so that any worker of workflows can do it.

A value is written as Temporal would write it, so one that was an argument or a result is stored once. A failure is
tried again by Temporal; what is gone from the store is told to the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from temporalio import activity, workflow
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.common import RawValue, RetryPolicy
from temporalio.converter import JSONProtoPayloadConverter
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine.call import Outcome, Part, Stored, ToolReport
from noetl_temporal.machine.commands import KeepValues, LoadValue
from noetl_temporal.machine.events import Kept, ValueLoaded, ValuesKept
from noetl_temporal.machine.stored import stored_in, with_result
from noetl_temporal.naming import summary
from noetl_temporal.payload_store import STORE_NAME
from noetl_temporal.value_store import ValueStore

__all__ = [
    "keep",
    "kept_fact",
    "kept_values",
    "load",
    "loaded",
    "loaded_fact",
    "reference",
    "value_activities",
    "with_result_loaded",
    "with_stored_result",
]

KEEP = "noetl.keep"
LOAD = "noetl.load"

GONE = "ValueGone"
"""The type of the failure that no later attempt mends."""

SECONDS = timedelta(minutes=5)
"""Of one attempt."""

_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    maximum_interval=timedelta(seconds=10),
    non_retryable_error_types=[GONE],
)
_REFERENCE = JSONProtoPayloadConverter()


def value_activities(values: ValueStore) -> list[Callable[..., Any]]:
    """Both activities, on this store."""

    @activity.defn(name=KEEP)
    async def keep_values(*given: Any) -> list[Kept]:
        return await kept_values(values, given)

    @activity.defn(name=LOAD)
    async def load_value(stored: Stored) -> msgspec.Raw:
        try:
            return msgspec.Raw(await loaded(values, stored))
        except LookupError as error:
            raise ApplicationError(str(error), type=GONE, non_retryable=True) from error

    return [keep_values, load_value]


async def kept_values(values: ValueStore, given: Sequence[Any]) -> list[Kept]:
    """Store each of them. Raises the driver's errors."""
    encoded = [msgspec.json.encode(one) for one in given]
    keys = await values.put_all(encoded)
    return [Kept(key, len(data)) for key, data in zip(keys, encoded, strict=True)]


async def loaded(values: ValueStore, stored: Stored) -> bytes:
    """The JSON of a stored value. Raises LookupError when it is gone, the driver's errors."""
    texts = await values.get_all(list(dict.fromkeys(part.key for part in stored.parts if part.key)))
    if stored.is_one:
        return texts[stored.parts[0].key]
    lists: dict[str, list[msgspec.Raw]] = {}
    found: list[Any] = []
    for part in stored.parts:
        if part.key and not part.count:
            found.append(msgspec.Raw(texts[part.key]))
        elif part.key:
            if part.key not in lists:
                lists[part.key] = msgspec.json.decode(texts[part.key], type=list[msgspec.Raw])
            found += lists[part.key][part.start : part.start + part.count]
        else:
            found += part.given or [None] * part.count
    return msgspec.json.encode(found)


async def with_stored_result(report: ToolReport, values: ValueStore) -> ToolReport:
    """The report with a large result in the payload store, and nothing of it here. Raises the driver's errors."""
    result = report.outcome.get("result")
    if not values.is_available or result is None:
        return report
    data = msgspec.json.encode(result)
    if len(data) < STORE_FROM_BYTES:
        return report
    stored = Stored((Part(await values.put(data)),), len(data), is_one=True)
    outcome = {name: value for name, value in report.outcome.items() if name != "result"}
    return replace(report, outcome=outcome, stored=stored)


async def with_result_loaded(outcome: Outcome, values: ValueStore) -> Outcome:
    """The outcome with its result, wherever that lies. Raises LookupError when it is gone, the driver's errors."""
    stored = stored_in(outcome)
    if stored is None:
        return outcome
    text = await loaded(values, stored)
    result = msgspec.json.decode(text)
    return with_result(outcome, {stored.under: result, **stored.beside} if stored.under else result)


def reference(key: str) -> RawValue:
    """A stored value as an argument of a workflow or activity, which is given the value itself."""
    payload = _REFERENCE.to_payload(ExternalStorageReference(driver_name=STORE_NAME, claim_data={"key": key}))
    assert payload is not None  # noqa: S101 - it converts every message
    return RawValue(payload)


def keep(command: KeepValues) -> workflow.ActivityHandle[list[Kept]]:
    """Have the workflow's worker store values."""
    return workflow.start_local_activity(
        KEEP,
        args=command.values,
        result_type=list[Kept],
        start_to_close_timeout=SECONDS,
        retry_policy=_RETRY,
        summary=summary(f"keep {command.what}"),
    )


def load(command: LoadValue) -> workflow.ActivityHandle[Any]:
    """Have the workflow's worker fetch a value."""
    return workflow.start_local_activity(
        LOAD,
        command.stored,
        start_to_close_timeout=SECONDS,
        retry_policy=_RETRY,
        summary=summary(f"load {command.stored.bytes:,} bytes"),
    )


def kept_fact(at: int, command: KeepValues, task: asyncio.Task[list[Kept]]) -> ValuesKept | None:
    """What became of it; None when it was cancelled, with its workflow."""
    return None if task.cancelled() else ValuesKept(at, command.id, tuple(task.result()))


def loaded_fact(at: int, command: LoadValue, task: asyncio.Task[Any]) -> ValueLoaded | None:
    """What became of it; None when nobody needs the value any more."""
    if task.cancelled():
        return None
    error = task.exception()
    if error is None:
        return ValueLoaded(at, command.id, task.result())
    if is_cancelled_exception(error):
        return None
    cause = error.cause if isinstance(error, ActivityError) and error.cause is not None else error
    return ValueLoaded(at, command.id, error=f"a stored value cannot be read: {cause}")
