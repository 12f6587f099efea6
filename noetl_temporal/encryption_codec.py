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

__all__ = ["EncryptedConverter", "EncryptionCodec", "LockedValue", "locked_error"]


@dataclass(frozen=True)
class LockedValue:
    """Takes the place of an activity's input, or of the details of its heartbeats, if this process lacks the encryption
    key. ``why`` is the message. Heartbeats send the same ``payload`` again.
    """

    why: str
    payload: Payload


def locked_error(locked: LockedValue, delay: timedelta) -> ApplicationError:
    """Return the error that ends an attempt because of a missing key; Temporal repeats the call after the delay."""
    return ApplicationError(locked.why, type=DecryptionError.__name__, next_retry_delay=delay)


class EncryptionCodec(PayloadCodec):
    """Encrypts and decrypts payloads.

    ``passes`` says which payloads are not encrypted here. With ``is_lenient``, payloads without a known key stay
    encrypted.
    """

    def __init__(self, keyring: Keyring, passes: Callable[[Payload], bool], *, is_lenient: bool = False) -> None:
        self.keyring = keyring
        self._passes = passes
        self._is_lenient = is_lenient
        self._lenient = self if is_lenient else EncryptionCodec(keyring, passes, is_lenient=True)

    def lenient(self) -> EncryptionCodec:
        """Return the lenient codec, for activities: the SDK would fail one whose details cannot be decrypted."""
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
        return [self._decrypt_if_possible(payload) for payload in payloads]

    def _decrypt_if_possible(self, payload: Payload) -> Payload:
        if not is_encrypted(payload) or (self._is_lenient and not self.keyring.has_key_of(payload)):
            return payload
        return self.keyring.decrypt(payload)


class EncryptedConverter(EncodingPayloadConverter):
    """Reads what no codec has decrypted: a ``LockedValue`` for an activity, an error for anything else."""

    @property
    def encoding(self) -> str:
        return ENCRYPTED.decode()

    def to_payload(self, value: Any) -> Payload | None:
        return value.payload if isinstance(value, LockedValue) else None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises DecryptionError, so that a workflow task is retried."""
        error = missing_key(payload)
        if type_hint in (ToolCall, FrameInput) or (type_hint is None and not _is_in_workflow()):
            return LockedValue(str(error), payload)
        raise error


def _is_in_workflow() -> bool:
    """Whether this is called in a workflow: these run in threads without the worker's event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return workflow.in_workflow()
