"""The operations of the nats tool on key-value buckets, object stores and streams, one function each.

Each takes the JetStream context of a connection and the request, and returns the result.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from noetl_activities.errors import ConfigError
from noetl_activities.http.data import parse_body
from noetl_activities.http.request import idempotency_key
from noetl_activities.tool import Json, Request

if TYPE_CHECKING:
    from nats.js import JetStreamContext

__all__ = ["OPERATIONS", "Operation"]

MAX_OBJECT_BYTES = 16 * 2**20
"""Maximum size of a fetched object, the same as for a response of the http tool."""

_MESSAGE_ID = "Nats-Msg-Id"
"""The header by which a stream detects duplicates of a message."""

_BASE64 = "base64"


async def _kv_get(jetstream: JetStreamContext, request: Request) -> Json:
    bucket, key = _string_field(request, "bucket"), _string_field(request, "key")
    entry = await (await jetstream.key_value(bucket)).get(key)
    return {"key": entry.key, "value": await _decode_value(entry.value), "revision": entry.revision}


async def _kv_put(jetstream: JetStreamContext, request: Request) -> Json:
    bucket, key, value = _string_field(request, "bucket"), _string_field(request, "key"), _bytes_field(request, "value")
    store = await jetstream.key_value(bucket)
    if request.config.get("ttl") is None:
        return {"key": key, "revision": await store.put(key, value)}
    await store.status()
    ack = await jetstream.publish(f"$KV.{bucket}.{_check_key(key)}", value, msg_ttl=_ttl_seconds(request.config["ttl"]))
    return {"key": key, "revision": ack.seq}


async def _kv_delete(jetstream: JetStreamContext, request: Request) -> Json:
    bucket, key = _string_field(request, "bucket"), _string_field(request, "key")
    return {"key": key, "deleted": await (await jetstream.key_value(bucket)).delete(key)}


async def _kv_keys(jetstream: JetStreamContext, request: Request) -> Json:
    from nats.js.errors import NoKeysError

    bucket = await jetstream.key_value(_string_field(request, "bucket"))
    try:
        return {"keys": sorted(await bucket.keys())}  # pyright: ignore[reportUnknownMemberType]
    except NoKeysError:
        return {"keys": []}


async def _object_put(jetstream: JetStreamContext, request: Request) -> Json:
    bucket, key, value = _string_field(request, "bucket"), _string_field(request, "key"), _bytes_field(request, "value")
    info = await (await jetstream.object_store(bucket)).put(key, value)
    return {"key": info.name, "size": info.size, "digest": info.digest}


async def _object_get(jetstream: JetStreamContext, request: Request) -> Json:
    bucket, key = _string_field(request, "bucket"), _string_field(request, "key")
    store = await jetstream.object_store(bucket)
    info = await store.get_info(key)
    if (info.size or 0) > MAX_OBJECT_BYTES:
        raise ConfigError(f"the object {info.name!r} has {info.size:,} bytes, over {MAX_OBJECT_BYTES >> 20} MB")
    object_ = await store.get(key)
    return {"key": info.name, "value": await _decode_value(object_.data), "size": info.size, "digest": info.digest}


async def _object_delete(jetstream: JetStreamContext, request: Request) -> Json:
    bucket, key = _string_field(request, "bucket"), _string_field(request, "key")
    await (await jetstream.object_store(bucket)).delete(key)
    return {"key": key, "deleted": True}


async def _object_list(jetstream: JetStreamContext, request: Request) -> Json:
    from nats.js.errors import NotFoundError

    store = await jetstream.object_store(_string_field(request, "bucket"))
    try:
        objects = await store.list(ignore_deletes=True)
    except NotFoundError:
        objects = []
    entries = sorted((str(object_.name), object_.size or 0) for object_ in objects)
    return {"objects": [{"key": name, "size": size} for name, size in entries]}


async def _js_publish(jetstream: JetStreamContext, request: Request) -> Json:
    """Publish a message. All attempts of a call send the same id, so the stream stores it once within its duplicate
    window.
    """
    ack = await jetstream.publish(
        _string_field(request, "subject"),
        _bytes_field(request, "payload"),
        stream=request.config.get("stream"),
        headers={_MESSAGE_ID: idempotency_key(request.key, request.repetition)},
    )
    return {"stream": ack.stream, "sequence": ack.seq, "duplicate": bool(ack.duplicate)}


async def _js_get_msg(jetstream: JetStreamContext, request: Request) -> Json:
    message = await jetstream.get_last_msg(_string_field(request, "stream"), _string_field(request, "subject"))
    return {"subject": message.subject, "sequence": message.seq, "payload": await _decode_value(message.data)}


async def _js_stream_info(jetstream: JetStreamContext, request: Request) -> Json:
    info = await jetstream.stream_info(_string_field(request, "stream"))
    state = info.state
    return {
        "stream": info.config.name,
        "subjects": info.config.subjects or [],
        "messages": state.messages,
        "bytes": state.bytes,
        "first_sequence": state.first_seq,
        "last_sequence": state.last_seq,
    }


Operation: TypeAlias = "Callable[[JetStreamContext, Request], Awaitable[Json]]"

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "kv_get": _kv_get,
        "kv_put": _kv_put,
        "kv_delete": _kv_delete,
        "kv_keys": _kv_keys,
        "object_get": _object_get,
        "object_put": _object_put,
        "object_delete": _object_delete,
        "object_list": _object_list,
        "js_publish": _js_publish,
        "js_get_msg": _js_get_msg,
        "js_stream_info": _js_stream_info,
    }
)


# ---- fields ----------------------------------------------------------------------------------------------------------


def _string_field(request: Request, name: str) -> str:
    value: Json = request.config.get(name)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise ConfigError(f"{request.config['operation']} needs a {name}: a string")
    return str(value)


def _check_key(key: str) -> str:
    """Return a valid key. Raises ConfigError if it would be a pattern in the subject that it becomes part of."""
    if not all(part and not set(part) & set("*> \t\r\n") for part in key.split(".")):
        raise ConfigError(f"{key!r:.100} is not a key of a bucket")
    return key


def _ttl_seconds(value: Json) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0
    if seconds < 1:
        raise ConfigError(f"ttl is {value!r:.60}: write a number of seconds, at least 1")
    return seconds


def _bytes_field(request: Request, name: str) -> bytes:
    """Return the bytes of a field: a string as UTF-8, or decoded from base64; any other value as JSON."""
    value: Json = request.config.get(name)
    if value is None:
        raise ConfigError(f"{request.config['operation']} needs a {name}")
    if request.config.get("encoding") == _BASE64:
        try:
            return base64.b64decode(str(value), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"the {name} is not base64") from error
    return (value if isinstance(value, str) else json.dumps(value)).encode()


async def _decode_value(data: Any) -> Json:
    """Return the value of the data: parsed JSON, text, or ``{base64}`` for other bytes; None if there is no data."""
    return await parse_body(cast("bytes", data or b""), "")
