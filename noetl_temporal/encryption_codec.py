"""Encrypts every payload on its way to Temporal: values, headers, memos, details of heartbeats and failures.

What belongs in the payload store passes unchanged: the store encrypts it itself, so its key remains the digest of the
value, whichever encryption key is used (payload_store.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter, PayloadCodec
from temporalio.exceptions import ApplicationError

from noetl_temporal.encryption import ENCRYPTED, DecryptionError, Keyring, is_encrypted, missing_key
from noetl_temporal.frames.wire import FrameInput
from noetl_temporal.machine.call import ToolCall

__all__ = ["EncryptedConverter", "EncryptionCodec", "Locked", "locked_error"]


@dataclass(frozen=True)
class Locked:
    """Stands in an activity for its input, or for details of its heartbeats, whose key this process does not have;
    ``why`` in words. Heartbeats send the same ``payload`` again.
    """

    why: str
    payload: Payload


def locked_error(locked: Locked, delay: timedelta) -> ApplicationError:
    """Return the error that ends an attempt because of a missing key; Temporal repeats the call after the delay."""
    return ApplicationError(locked.why, type=DecryptionError.__name__, next_retry_delay=delay)


class EncryptionCodec(PayloadCodec):
    """Encrypts and decrypts payloads.

    ``passes`` says which payloads are not encrypted here. ``is_lenient`` leaves alone what it has no key for.
    """

    def __init__(self, keyring: Keyring, passes: Callable[[Payload], bool], *, is_lenient: bool = False) -> None:
        self.keyring = keyring
        self._passes = passes
        self._is_lenient = is_lenient
        self._lenient = self if is_lenient else EncryptionCodec(keyring, passes, is_lenient=True)

    def lenient(self) -> EncryptionCodec:
        """Return the codec for an activity, which leaves undecodable details alone: the SDK would fail the activity."""
        return self._lenient

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See temporalio.converter.PayloadCodec."""
        if not self.keyring.ids:
            return list(payloads)
        return [
            payload if is_encrypted(payload) or self._passes(payload) else self.keyring.encrypt(payload)
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See temporalio.converter.PayloadCodec. Raises DecryptionError."""
        return [self._decoded(payload) for payload in payloads]

    def _decoded(self, payload: Payload) -> Payload:
        if not is_encrypted(payload) or (self._is_lenient and not self.keyring.has_key_of(payload)):
            return payload
        return self.keyring.decrypt(payload)


class EncryptedConverter(EncodingPayloadConverter):
    """Reads what no codec has decrypted: ``Locked`` for an activity, an error for anything else."""

    @property
    def encoding(self) -> str:
        return ENCRYPTED.decode()

    def to_payload(self, value: Any) -> Payload | None:
        return value.payload if isinstance(value, Locked) else None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises DecryptionError, so that a workflow task is retried."""
        error = missing_key(payload)
        if type_hint in (ToolCall, FrameInput) or (type_hint is None and not _is_in_workflow()):
            return Locked(str(error), payload)
        raise error


def _is_in_workflow() -> bool:
    """Whether this is called in a workflow: these run in threads without the worker's event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return workflow.in_workflow()
