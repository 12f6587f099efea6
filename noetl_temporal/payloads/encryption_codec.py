"""Encrypts every payload on its way to Temporal: values, headers, memos, details of heartbeats and failures.

Values for the payload store are exempt. The store encrypts them itself, so that a value has the same key in the store
whichever encryption key is used (payload_store.py).
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

from noetl_temporal.machine.call import ToolCall
from noetl_temporal.messages.frame import FrameInput
from noetl_temporal.payloads.encryption import ENCRYPTED, DecryptionError, Keyring, is_encrypted, missing_key_error

__all__ = ["EncryptedConverter", "EncryptionCodec", "UndecryptableValue", "missing_key_failure"]


@dataclass(frozen=True)
class UndecryptableValue:
    """An input of an activity, or a detail of its heartbeats, whose encryption key this process does not have.

    ``message`` names the missing key. If the value is sent again in a heartbeat, that is ``payload``, unchanged.
    """

    message: str
    payload: Payload


def missing_key_failure(value: UndecryptableValue, delay: timedelta) -> ApplicationError:
    """Return the error that ends an attempt because of a missing key; Temporal starts another one after the delay."""
    return ApplicationError(value.message, type=DecryptionError.__name__, next_retry_delay=delay)


class EncryptionCodec(PayloadCodec):
    """Encrypts and decrypts payloads.

    ``is_exempt`` decides which payloads are not encrypted here. With ``is_lenient``, payloads without a known key stay
    encrypted.
    """

    def __init__(self, keyring: Keyring, is_exempt: Callable[[Payload], bool], *, is_lenient: bool = False) -> None:
        self.keyring = keyring
        self._is_exempt = is_exempt
        self._is_lenient = is_lenient
        self._lenient = self if is_lenient else EncryptionCodec(keyring, is_exempt, is_lenient=True)

    def for_activities(self) -> EncryptionCodec:
        """Return the lenient codec: the SDK would fail an activity whose heartbeat details cannot be decrypted."""
        return self._lenient

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See temporalio.converter.PayloadCodec."""
        if not self.keyring.ids:
            return list(payloads)
        return [
            payload if is_encrypted(payload) or self._is_exempt(payload) else self.keyring.encrypt(payload)
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See temporalio.converter.PayloadCodec. Raises DecryptionError."""
        return [self._decrypt_if_possible(payload) for payload in payloads]

    def _decrypt_if_possible(self, payload: Payload) -> Payload:
        if not is_encrypted(payload) or (self._is_lenient and not self.keyring.has_key_for(payload)):
            return payload
        return self.keyring.decrypt(payload)


class EncryptedConverter(EncodingPayloadConverter):
    """Converts payloads that no codec has decrypted: to ``UndecryptableValue`` for an activity, else it raises an
    error.
    """

    @property
    def encoding(self) -> str:
        return ENCRYPTED.decode()

    def to_payload(self, value: Any) -> Payload | None:
        return value.payload if isinstance(value, UndecryptableValue) else None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """See temporalio.converter.PayloadConverter. Raises DecryptionError, so that a workflow task is retried."""
        error = missing_key_error(payload)
        if type_hint in (ToolCall, FrameInput) or (type_hint is None and not _is_in_workflow()):
            return UndecryptableValue(str(error), payload)
        raise error


def _is_in_workflow() -> bool:
    """Whether this is called in a workflow: workflows run in threads without the worker's event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return workflow.in_workflow()
