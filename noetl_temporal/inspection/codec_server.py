"""A codec server: decrypts values for Temporal's Web UI and for the `temporal` command (dev/decisions/0060).

It implements Temporal's protocol: POST /decode and /encode, with payloads as JSON, for web pages of one origin. Values
in the payload store are fetched, and event trails are unpacked. A value that cannot be read is returned unchanged.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import DataConverter, StorageDriverClaim, StorageDriverRetrieveContext

from noetl_temporal.messages.packed_trail import from_payload, is_packed, unpack
from noetl_temporal.mirror.payloads import Reference, payload_value
from noetl_temporal.observability.http_listener import QuietHandler, listening
from noetl_temporal.payloads.encryption import is_encrypted, missing_key_error
from noetl_temporal.payloads.encryption_codec import EncryptionCodec

__all__ = ["MAX_BYTES", "Access", "decode_payload", "encode_payload", "serving_codec"]

MAX_BYTES = 32_000_000
"""The maximum size of a request, which has a page of history in JSON."""

RESPONSE_SECONDS = 60.0

_HEADERS = "authorization, content-type, x-namespace"
_PLAIN = b"json/plain"
_log = logging.getLogger(__name__)

Conversion = Callable[[Payload], Awaitable[Payload]]


class Access(NamedTuple):
    """The clients that are allowed: web pages of this ``origin``; if there is a ``token``, only with it as a bearer
    token.
    """

    origin: str
    token: str | None = None


async def decode_payload(converter: DataConverter, payload: Payload) -> Payload:
    """Return the payload as plain JSON. Raises DecryptionError, LookupError, the payload store's errors."""
    payload = await _fetch_stored(converter, payload)
    if is_encrypted(payload):
        if converter.payload_codec is None:
            raise missing_key_error(payload)
        [payload] = await converter.payload_codec.decode([payload])
    if is_packed(payload):
        events = unpack(from_payload(payload))
        return Payload(metadata={"encoding": _PLAIN}, data=msgspec.json.encode(events))
    return payload


async def _fetch_stored(converter: DataConverter, payload: Payload) -> Payload:
    reference = payload_value(payload) if "messageType" in payload.metadata else None
    storage = converter.external_storage
    if not isinstance(reference, Reference) or storage is None:
        return payload
    claims = [StorageDriverClaim(reference.claim)]
    [stored_payload] = await storage.drivers[0].retrieve(StorageDriverRetrieveContext(), claims)
    return stored_payload


async def encode_payload(converter: DataConverter, payload: Payload) -> Payload:
    """Return the payload encrypted, also one that is large enough for the payload store."""
    codec = converter.payload_codec
    return codec.keyring.encrypt(payload) if isinstance(codec, EncryptionCodec) else payload


@asynccontextmanager
async def serving_codec(
    converter: DataConverter, access: Access, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[str]:
    """Serve while the block runs, and yield the URL. Raises OSError if it cannot listen on the host and port."""
    loop = asyncio.get_running_loop()

    def convert_payloads(
        convert: Callable[[DataConverter, Payload], Awaitable[Payload]], payloads: Payloads
    ) -> Payloads:
        work = _convert_all(payloads, lambda payload: convert(converter, payload))
        return asyncio.run_coroutine_threadsafe(work, loop).result(RESPONSE_SECONDS)

    class Handler(_Handler):
        pass

    Handler.routes = {
        "/decode": partial(convert_payloads, decode_payload),
        "/encode": partial(convert_payloads, encode_payload),
    }
    Handler.access = access
    async with listening(Handler, host, port) as (_, bound_port):
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound_port}"


async def _convert_all(payloads: Payloads, convert: Conversion) -> Payloads:
    return Payloads(payloads=[await _convert_if_readable(payload, convert) for payload in payloads.payloads])


async def _convert_if_readable(payload: Payload, convert: Conversion) -> Payload:
    try:
        return await convert(payload)
    except Exception as error:
        _log.warning("a value cannot be read: %s: %s", type(error).__name__, error)
        return payload


class _Handler(QuietHandler):
    """Handles the requests of a codec server.

    ``routes`` and ``access`` are set by serving_codec.
    """

    routes: dict[str, Callable[[Payloads], Payloads]]
    access: Access

    def do_OPTIONS(self) -> None:  # noqa: N802 - the base class names it so
        """Respond to the CORS preflight request of a browser."""
        self._respond(HTTPStatus.NO_CONTENT)

    def do_POST(self) -> None:  # noqa: N802 - the base class names it so
        """Convert the payloads."""
        route = self.routes.get(self.path.partition("?")[0])
        refusal = self._refusal()
        if refusal is not None:
            self._respond(*refusal)
        elif route is None:
            self._respond(HTTPStatus.NOT_FOUND, {"error": "no such path: use POST /decode or POST /encode"})
        else:
            self._respond(*self._convert_request(route))

    def _refusal(self) -> tuple[HTTPStatus, dict[str, Any]] | None:
        """Return the response to a refused request; None if it is accepted. Pages of other origins may send requests,
        with a host name that resolves to this server.
        """
        if self.headers.get("Origin", self.access.origin) != self.access.origin:
            return HTTPStatus.FORBIDDEN, {"error": "requests from this origin are not allowed: see --origin"}
        authorization = self.headers.get("Authorization", "").encode()
        if self.access.token is not None and not hmac.compare_digest(
            authorization, f"Bearer {self.access.token}".encode()
        ):
            return HTTPStatus.UNAUTHORIZED, {"error": "send the access token: Authorization: Bearer TOKEN"}
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or int(length) > MAX_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"a request has at most {MAX_BYTES:,} bytes"}
        return None

    def _convert_request(self, route: Callable[[Payloads], Payloads]) -> tuple[HTTPStatus, dict[str, Any]]:
        try:
            text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            payloads = ParseDict(text, Payloads(), ignore_unknown_fields=True)
        except (ValueError, ParseError, RecursionError):
            return HTTPStatus.BAD_REQUEST, {"error": "the body is not JSON like {'payloads': [...]}"}
        try:
            return HTTPStatus.OK, MessageToDict(route(payloads))
        except TimeoutError:
            return HTTPStatus.GATEWAY_TIMEOUT, {"error": "the payload store did not answer in time"}

    def _respond(self, status: HTTPStatus, body: dict[str, Any] | None = None) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, content in self._headers(text).items():
            self.send_header(name, content)
        self.end_headers()
        self.wfile.write(text)

    def _headers(self, text: bytes) -> dict[str, str]:
        return {
            "Access-Control-Allow-Origin": self.access.origin,
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Methods": "POST, OPTIONS",
            "Access-Control-Allow-Headers": _HEADERS,
            "Vary": "Origin",
            "Cache-Control": "no-store",
            "Content-Type": "application/json",
            "Content-Length": str(len(text)),
        }
