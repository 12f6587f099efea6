"""A server sends back what it was sent, in many ways: nothing of a secret is left in what leaves the activity."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest

from noetl_activities.http.exchange import MAX_ERROR_BYTES
from noetl_activities.http.tool import TOOL

from .conftest import Context, request

pytestmark = pytest.mark.usefixtures("loopback")

PASSWORD = "Sésame-0uvre/toi+&%"
CREDENTIALS: dict[str, dict[str, str]] = {
    "basic": {"type": "basic", "username": "ali", "password": PASSWORD},
    "bearer": {"type": "bearer", "token": "tok-4f1c9e77d0aa"},
    "api_key": {"type": "api_key", "header_name": "X-Key", "value": "key/+-_/9e77d0aa4f1c"},
    "neutral": {"type": "bearer", "access_token": "plain-looking-words", "note": "another-secret-9e77"},
}

Answer = Callable[[str], list[bytes]]
"""The pieces of a response, each sent by itself, to what the Authorization or X-Key header of the request said."""


def complete_response(body: bytes, status: str = "200 OK", **headers: str) -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ["\r\n".join(lines).encode() + b"\r\n\r\n", body]


def in_pieces(body: bytes, size: int) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return [head, *(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


def decode_login(header: str) -> str:
    """What Basic says is in the header, as a server that knows the password would write it."""
    kind, _, value = header.partition(" ")
    return base64.b64decode(value).decode() if kind == "Basic" else header


ANSWERS: dict[str, Answer] = {
    "a text": lambda header: complete_response(f"you are {header}, {decode_login(header)}".encode()),
    "JSON": lambda sent: complete_response(
        json.dumps({"you": [sent, {decode_login(sent): decode_login(sent)}]}).encode()
    ),
    "JSON in JSON": lambda sent: complete_response(
        json.dumps({"log": json.dumps({"you": decode_login(sent)})}).encode()
    ),
    "a header": lambda sent: complete_response(b"", X_You=sent, X_Hex=decode_login(sent).encode().hex()),
    "an error": lambda sent: complete_response(decode_login(sent).encode() * 3, "401 Unauthorized", X_You=sent),
    "the reason": lambda sent: complete_response(b"", f"401 no {sent}"),
    "a redirect": lambda sent: complete_response(
        sent.encode(), "302 Found", Location=f"/?you={sent}&{decode_login(sent).encode().hex()}"
    ),
    "a cut error": lambda sent: complete_response(
        b"." * 9_990 + decode_login(sent).encode() + b"." * MAX_ERROR_BYTES, "500 Oops"
    ),
    "a cut error in base64": lambda sent: complete_response(
        b"." * 9_970 + base64.b64encode(b"x" + decode_login(sent).encode()) + b"." * MAX_ERROR_BYTES, "500 Oops"
    ),
    "an error of wide letters": lambda sent: complete_response(
        "語".encode() * 9_990 + decode_login(sent).encode() * 9_000, "500 Oops"
    ),
    "pieces": lambda sent: in_pieces(f"you are {sent}, {decode_login(sent)}".encode(), 7),
    "bytes": lambda sent: in_pieces(decode_login(sent).encode(), 1),
    "what is no text": lambda sent: complete_response(b"\xff\xfe\x00" + decode_login(sent).encode()),
    "UTF-16": lambda sent: complete_response(decode_login(sent).encode("utf-16")),
    "NULs between": lambda sent: complete_response(decode_login(sent).encode("utf-16-be")),
    "upper case": lambda sent: complete_response(decode_login(sent).upper().encode()),
    "700 deep": lambda sent: complete_response(b'{"a":' * 700 + json.dumps(decode_login(sent)).encode() + b"}" * 700),
}


@pytest.fixture
async def echo() -> AsyncGenerator[str]:
    """The address of a server that answers ``/NUMBER`` in that way."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = [line.partition(": ") for line in head.splitlines()[1:]]
        header = next(value for name, _, value in headers if name.lower() in ("authorization", "x-key"))
        answer = list(ANSWERS.values())[int(head.split(" ")[1].strip("/").partition("?")[0])]
        for piece in answer(header):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def answer_of(url: str, name: str) -> tuple[Any, Any]:
    """The outcome as the tool gives it, and as it leaves the activity."""
    context = Context(own=CREDENTIALS[name])
    outcome = msgspec.to_builtins(await TOOL.run(request("http", "own", url=url, follow_redirects=False), context))
    return outcome, context.credentials.mask_secrets(outcome)


def pieces_of(secret: str) -> set[str]:
    """Parts of it that nobody else would write, and those that a mask in base64 must not leave."""
    parts = {secret[at : at + 6] for at in range(len(secret) - 5)}
    return parts | {part.upper() for part in parts} | {json.dumps(part)[1:-1] for part in parts}


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("way", ANSWERS)
async def test_no_part_of_a_secret_is_left(echo: str, way: str, credential: str) -> None:
    plain, left = await answer_of(f"{echo}/{list(ANSWERS).index(way)}", credential)
    text = msgspec.json.encode(left).decode()
    secret = max((v for k, v in CREDENTIALS[credential].items() if k in ("password", "token", "value", "access_token")))
    assert "***" in text
    assert text != msgspec.json.encode(plain).decode() or "cut" in way or "wide" in way
    assert not [part for part in pieces_of(secret) if part in text]
    raw = (bytes(before) + secret.encode() for before in range(3))
    digits = {base64.b64encode(secret).decode()[4:-4] for secret in raw}
    assert not [digit for digit in digits if digit in text or digit.translate(str.maketrans("+/", "-_")) in text]


async def test_control_a_tool_that_truncates_first_leaves_half_a_secret(
    echo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncate(_self: Context, text: str, limit: int) -> str:
        return text[:limit]

    monkeypatch.setattr(Context, "truncate", truncate)
    _, left = await answer_of(f"{echo}/{list(ANSWERS).index('a cut error')}", "basic")
    assert PASSWORD[:5] in left["result"]["data"]
