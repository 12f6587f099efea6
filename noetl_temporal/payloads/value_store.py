"""Stores large values from inside an activity, while it sends heartbeats (dev/decisions/0008).

If the SDK cannot store a result, Temporal repeats the activity, and with it the tool. So the activity stores the result
itself, with retries. When the SDK stores it again, the payload store already has the payload, which has the same
digest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    PayloadConverter,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from noetl_temporal.database_errors import DATABASE_ERRORS, reason_of
from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.payloads.codec import UnreadValue, belongs_in_store, codec_of_stored, payload_limit
from noetl_temporal.payloads.payload_store import PayloadStore
from noetl_temporal.payloads.signed_converter import RefusedValue

__all__ = ["ValueStore", "retry_until_done"]

FIRST_DELAY = 0.1
MAX_DELAY = 5.0
"""Seconds between attempts."""

METADATA_BYTES = 1_000
"""An upper bound of the size of the metadata of a payload."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class ValueStore:
    """Stores values that are too large for history. ``limit`` is the maximum size of a value, in bytes."""

    def __init__(self, converter: DataConverter, limit: int | None = None) -> None:
        self.converter = converter
        storage = converter.external_storage
        self._driver = storage.drivers[0] if storage else None
        self.limit = payload_limit(converter) if limit is None else limit

    @property
    def is_available(self) -> bool:
        """Whether there is a payload store."""
        return self._driver is not None

    @property
    def dsn(self) -> str | None:
        """The Postgres of the event log, where values are stored too; None without one."""
        return self._driver.dsn if isinstance(self._driver, PayloadStore) else None

    async def store(self, value: Any) -> None:
        """Store a value as Temporal would, if it is too large for history. Raises the driver's errors."""
        if self._driver is None or self.stays_in_history(value):
            return
        payloads = self._payload_converter().to_payloads([value])
        codec = codec_of_stored(self.converter)
        if codec is not None:
            payloads = await codec.encode(payloads)
        if belongs_in_store(payloads[0]):
            await self._driver.store(StorageDriverStoreContext(), payloads)

    def stays_in_history(self, value: Any) -> bool:
        """Whether this value is certainly small enough for history. Not known with a codec, which changes sizes."""
        if self._driver is None:
            return True
        is_coded = codec_of_stored(self.converter) is not None
        return not is_coded and len(msgspec.json.encode(value)) < STORE_FROM_BYTES - METADATA_BYTES

    async def read(self, unread: UnreadValue, kind: type[T]) -> T:
        """Return a value that could not be read when its payload was decoded.

        Raises LookupError if it was removed or its signature is refused (signed_converter.py), the driver's errors.
        """
        claim = StorageDriverClaim({"key": unread.key})
        payloads = await self._required_driver().retrieve(StorageDriverRetrieveContext(), [claim])
        if self.converter.payload_codec is not None:
            payloads = await self.converter.payload_codec.decode(payloads)
        [value] = self._payload_converter().from_payloads(payloads, [kind])
        if isinstance(value, RefusedValue):
            raise LookupError(value.reason)
        return cast("T", value)

    async def put(self, data: bytes, encoding: bytes = b"json/plain") -> str:
        """Store bytes. Returns their key. Raises LookupError without a payload store, the driver's errors."""
        return (await self.put_all([data], encoding))[0]

    async def put_all(self, values: Sequence[bytes], encoding: bytes = b"json/plain") -> list[str]:
        """Store each of the values. Returns their keys. Raises LookupError without a payload store, the driver's
        errors.
        """
        payloads = [Payload(metadata={"encoding": encoding}, data=data) for data in values]
        codec = codec_of_stored(self.converter)
        if codec is not None:
            payloads = await codec.encode(payloads)
        claims = await self._required_driver().store(StorageDriverStoreContext(), payloads)
        return [claim.claim_data["key"] for claim in claims]

    async def get(self, key: str) -> bytes:
        """Return a stored value. Raises LookupError if it is missing, the driver's errors."""
        return (await self.get_all([key]))[key]

    async def get_all(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return stored values by key. Raises LookupError if one is missing, the driver's errors."""
        claims = [StorageDriverClaim({"key": key}) for key in keys]
        payloads = await self._required_driver().retrieve(StorageDriverRetrieveContext(), claims) if claims else []
        if self.converter.payload_codec is not None:
            payloads = await self.converter.payload_codec.decode(payloads)
        return {key: payload.data for key, payload in zip(keys, payloads, strict=True)}

    def _payload_converter(self) -> PayloadConverter:
        """Return the SDK's converter for this activity, because signatures are bound to the activity."""
        if not activity.in_activity():
            return self.converter.payload_converter
        info = activity.info()
        context = ActivitySerializationContext(
            namespace=info.namespace,
            workflow_id=info.workflow_id,
            workflow_type=info.workflow_type,
            activity_type=info.activity_type,
            activity_id=info.activity_id,
            activity_task_queue=info.task_queue,
            is_local=info.is_local,
        )
        return self.converter.with_context(context).payload_converter

    def _required_driver(self) -> StorageDriver:
        if self._driver is None:
            raise LookupError("there is no payload store")
        return self._driver


async def retry_until_done(failure: str, work: Callable[[], Awaitable[T]]) -> T:
    """Retry ``work`` until it succeeds. ``failure`` is the beginning of the message in the log.

    Raises only LookupError, for values that were removed. Any other error is retried, if necessary until a worker of a
    fixed build takes over: if the activity failed, Temporal would repeat the tool.
    """
    delay = FIRST_DELAY
    while True:
        try:
            return await work()
        except LookupError:
            raise
        except Exception as error:
            known = isinstance(error, DATABASE_ERRORS)
            reason = reason_of(error) if known else f"{type(error).__name__}: {error}"
            _log.warning("%s: %s; retrying in %g s", failure, reason, delay)
        await asyncio.sleep(delay)
        delay = min(MAX_DELAY, 2 * delay)
