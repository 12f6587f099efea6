"""A payload converter that wraps another: it signs what it writes and verifies what it reads (signing.py).

Values of this project's types are signed. When a type hint requires one of these types, the signature is verified
before the value is decoded. A worker also verifies values that the SDK reads without a type hint: the details of
heartbeats, and the reports of called playbooks that failed. Plain text, such as the reason of a cancel, is not signed
and may come from anyone.

A refused value fails immediately: a workflow with the ApplicationError raised here, and an activity through its guard
(call_guard.py), because the SDK would retry an activity whose input raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self, cast, get_args, get_origin

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError

from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.messages.frame import FrameDetails, FrameInput
from noetl_temporal.messages.run_input import RunInput, RunReport
from noetl_temporal.naming import scheduled_base_id
from noetl_temporal.payloads.encryption import ENCRYPTED
from noetl_temporal.payloads.payload_store import UNREAD_ENCODING
from noetl_temporal.payloads.signing import NO_CONTEXT, SIGNATURE, Signer, SigningContext, schedule_context

__all__ = ["REFUSED", "RefusedValue", "SignedConverter", "SignedConverters", "signing_context"]

REFUSED = "Unsigned"
"""Type of the failure for a refused value."""

_CALLS = (ToolCall, FrameInput)
_NAMES = {
    "RunInput": "run",
    "LoopRun": "loop",
    "ToolCall": "call",
    "FrameInput": "frame",
    "SignalRequest": "request",
    "DecisionRequest": "request",
}
"""The names of signed values in messages."""

_UNTYPED = (Details.__name__, FrameDetails.__name__, RunReport.__name__)
"""Kinds that are read without a type hint."""

_UNREADABLE = (UNREAD_ENCODING.encode(), ENCRYPTED)

_LOCAL = "local "
"""The prefix of the context of a local activity, before its type: it has no id that both sides know. Its arguments do
not leave the process.
"""


class RefusedValue(msgspec.Struct, frozen=True):
    """Replaces a refused call. ``reason`` is the message."""

    reason: str


class SignedConverter(PayloadConverter, WithSerializationContext):
    """Signs the values of our types, and refuses such values without a valid signature.

    With ``is_strict``, as in workers, values without a type hint are checked as well.
    """

    def __init__(
        self, inner: PayloadConverter, signer: Signer, *, is_strict: bool, context: SigningContext = NO_CONTEXT
    ) -> None:
        self._inner = inner
        self._signer = signer
        self._is_strict = is_strict
        self._context = context

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """See temporalio.converter.PayloadConverter."""
        payloads = self._inner.to_payloads(values)
        kind = _kind_of(values[0]) if values else None
        if kind is not None:
            payloads[0].metadata[SIGNATURE] = self._signer.signature(self._context, kind, payloads)
        return payloads

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """See temporalio.converter.PayloadConverter. Raises ApplicationError for refused values."""
        refusal = self._refusal(payloads, type_hints[0] if type_hints else None)
        if refusal is None:
            return self._inner.from_payloads(payloads, type_hints)
        if type_hints and type_hints[0] in _CALLS:
            return [RefusedValue(refusal)]
        raise ApplicationError(refusal, type=REFUSED, non_retryable=True)

    def with_context(self, context: SerializationContext) -> Self:
        """Return the converter for one workflow or activity."""
        return type(self)(self._inner, self._signer, is_strict=self._is_strict, context=signing_context(context))

    def _refusal(self, payloads: Sequence[Payload], hint: Any) -> str | None:
        """Return why the list is refused; None if it is accepted.

        A list with a value that could not be read or decrypted is accepted here and checked when that value is read.
        """
        kinds = self._kinds(hint)
        if not payloads or not kinds:
            return None
        for payload in payloads:
            if payload.metadata.get("encoding") in _UNREADABLE:
                return None
        for kind in kinds:
            if self._signer.is_valid(self._context, kind, payloads):
                return None
        if kinds == (RunInput.__name__,) and self._is_input_of_schedule(payloads):
            return None
        kind = kinds[0] if len(kinds) == 1 else "value"
        if SIGNATURE not in payloads[0].metadata:
            return (
                f"refused: this {_NAMES.get(kind, kind)} is not signed. Set {SIGNING_KEY_VARIABLE} where you submit "
                "it, to the file that the workers use"
            )
        return (
            f"refused a {kind} with a wrong signature: it was changed, or signed for another run or call, or with "
            f"another key than the one in the file that {SIGNING_KEY_VARIABLE} names here"
        )

    def _is_input_of_schedule(self, payloads: Sequence[Payload]) -> bool:
        """Whether the payloads are the input of the schedule that has started the workflow."""
        schedule = scheduled_base_id(self._context.workflow_id)
        if schedule is None:
            return False
        return self._signer.is_valid(schedule_context(self._context.namespace, schedule), RunInput.__name__, payloads)

    def _kinds(self, hint: Any) -> Sequence[str]:
        """Return the kinds that the value may have; empty if it need not be signed."""
        kind = _kind_of_hint(hint)
        if kind is not None:
            return (kind,)
        is_untyped = hint is None or hint is Any or hint is object
        return _UNTYPED if is_untyped and self._is_strict and not self._context.activity.startswith(_LOCAL) else ()


def signing_context(context: SerializationContext) -> SigningContext:
    """Return the signing context of a context of the SDK."""
    if isinstance(context, ActivitySerializationContext):
        activity = f"{_LOCAL}{context.activity_type}" if context.is_local else f"call {context.activity_id}"
        return SigningContext(context.namespace, context.workflow_id or "", activity)
    if isinstance(context, WorkflowSerializationContext):
        return SigningContext(context.namespace, context.workflow_id)
    return NO_CONTEXT


def _kind_of(value: Any) -> str | None:
    """Return the kind of a value that NoETL defines; None for any other value."""
    if isinstance(value, msgspec.Struct | msgspec.Raw):
        return type(value).__name__
    if isinstance(value, list) and value:
        inner = _kind_of(cast("list[Any]", value)[0])
        return None if inner is None else f"list of {inner}"
    return None


def _kind_of_hint(hint: Any) -> str | None:
    """Return the kind of the values that a type hint describes; None if NoETL does not define it."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct | msgspec.Raw):
        return hint.__name__
    if get_origin(hint) is list and get_args(hint):
        inner = _kind_of_hint(get_args(hint)[0])
        return None if inner is None else f"list of {inner}"
    return None


@dataclasses.dataclass(frozen=True)
class SignedConverters:
    """Makes signed converters: the ``payload_converter_class`` of a data converter, which the SDK calls whenever it
    copies the data converter. So the context must be stored here.
    """

    inner: Callable[[], PayloadConverter]
    signer: Signer
    is_strict: bool = False
    context: SigningContext = NO_CONTEXT

    def __call__(self) -> PayloadConverter:
        """Return a converter."""
        return SignedConverter(self.inner(), self.signer, is_strict=self.is_strict, context=self.context)

    def with_context(self, context: SigningContext) -> SignedConverters:
        """Return the converters for another context."""
        return SignedConverters(self.inner, self.signer, self.is_strict, context)
