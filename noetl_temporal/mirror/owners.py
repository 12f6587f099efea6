"""The owners of payloads: an execution owns the payloads that its history refers to (dev/decisions/0024).

The rows of noetl.payload_owner are written in the transaction that stores the history, so they are always complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.decryption import messages_of_type
from noetl_temporal.mirror.payloads import REFERENCE, Reference, payload_value

__all__ = ["ReadEvent", "keys_in", "keys_in_json", "payload_keys", "references", "store_owner"]

_KEY = re.compile(rb'"(?:key|kept_scope)":"([0-9a-f]{64})"')


class ReadEvent(NamedTuple):
    """A history event in two forms: ``stored`` as the server has it, but decrypted; ``plain`` as the fold reads it,
    with values decoded to JSON, and a frame's result expanded to its entries. ``segments`` are the keys of the frame's
    segments, ``keys`` those in the event's decoded values before a frame's result was expanded.
    """

    stored: HistoryEvent
    plain: HistoryEvent
    segments: list[str]
    keys: frozenset[str] = frozenset()


def payload_keys(event: ReadEvent) -> set[str]:
    """Return the keys of all payloads that the event refers to: by references to external storage, as segments of its
    frame, and in its values, where a machine gets a StoredRef (machine/call.py) instead of a value.
    """
    return {*references(event.stored), *event.segments, *keys_in(event.stored), *event.keys}


def keys_in(message: Message) -> frozenset[str]:
    """Return the keys in the values of a message. At worst, a string that only looks like a key keeps a payload too
    long.
    """
    return keys_in_json(message.SerializeToString())


def keys_in_json(text: bytes) -> frozenset[str]:
    """Return the keys of the payloads that JSON refers to."""
    return frozenset(key.decode() for key in _KEY.findall(text))


def references(message: Message) -> set[str]:
    """Return the keys of the references to external storage anywhere in a message."""
    if REFERENCE not in message.SerializeToString():  # most have none, and the search takes ten times as long
        return set()
    values = (payload_value(payload) for payload in messages_of_type(message, Payload))
    return {item.claim["key"] for item in values if isinstance(item, Reference) and "key" in item.claim}


async def store_owner(connection: Connection, execution_id: int, events: Iterable[ReadEvent]) -> None:
    """Store the execution as the owner of the payloads that its events refer to."""
    keys = set[str]().union(*map(payload_keys, events))
    if keys:
        await connection.execute(sql.query("add_owner"), execution_id, sorted(keys))
