"""Decrypts history events for the mirror, which stores them in noetl.history as the server has them.

All values of an event are decrypted, also those that no row of the log is derived from: an execution owns the stored
values that any of them names (owners.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from noetl_temporal.mirror.payloads import as_mapping, payload_value
from noetl_temporal.payloads.encrypted_failures import HIDDEN
from noetl_temporal.payloads.encryption import ENCRYPTED, DecryptionError, is_encrypted, missing_key_error

__all__ = ["decrypt_event", "messages_of_type"]

_MessageType = TypeVar("_MessageType", bound=Message)


async def decrypt_event(event: HistoryEvent, converter: DataConverter) -> HistoryEvent:
    """Return the event with its values decrypted, and the decrypted texts of its failures in their usual fields.

    Raises DecryptionError for a value. A failure whose text cannot be decrypted gets a message that says so: a worker
    that lacks a key may have encrypted it with another.
    """
    if ENCRYPTED not in event.SerializeToString():
        return event
    copy = HistoryEvent()
    copy.CopyFrom(event)
    for failure in list(messages_of_type(copy, Failure)):
        await _restore_texts(failure, converter)
    for payload in list(messages_of_type(copy, Payload)):
        if is_encrypted(payload):
            payload.CopyFrom(await _decrypt_payload(payload, converter))
    return copy


async def _restore_texts(failure: Failure, converter: DataConverter) -> None:
    if not is_encrypted(failure.encoded_attributes):
        return
    try:
        texts = as_mapping(payload_value(await _decrypt_payload(failure.encoded_attributes, converter))) or {}
    except DecryptionError as error:
        is_hidden = failure.message == HIDDEN
        texts = {"message": f"the text of this failure is encrypted: {error}"} if is_hidden else {}
    failure.ClearField("encoded_attributes")
    if "message" in texts:
        failure.message, failure.stack_trace = texts["message"], texts.get("stack_trace", "")


async def _decrypt_payload(payload: Payload, converter: DataConverter) -> Payload:
    if converter.payload_codec is None:
        raise missing_key_error(payload)
    [plain_payload] = await converter.payload_codec.decode([payload])
    return plain_payload


def messages_of_type(message: Message, message_type: type[_MessageType]) -> Iterator[_MessageType]:
    """Yield all messages of this type in a message, not copied; an outer one before those inside it."""
    if isinstance(message, message_type):
        yield message
    if isinstance(message, Payload):
        return
    for field, content in message.ListFields():
        if field.message_type is not None:
            for inner in _messages(content):
                yield from messages_of_type(inner, message_type)


def _messages(value: Any) -> Iterable[Message]:
    """Return the messages in a field: one, a list of them, or the values of a mapping."""
    if isinstance(value, Message):
        return [value]
    values = cast("Mapping[Any, Any]", value).values() if isinstance(value, Mapping) else cast("Iterable[Any]", value)
    return [message_value for message_value in values if isinstance(message_value, Message)]
