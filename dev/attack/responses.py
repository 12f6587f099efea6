"""Responses of a hostile HTTP server: charsets, encodings, endless and slow bodies, redirects, JSON, delays."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from dev.attack.plain_http import plain_call
from dev.attack.raw_server import Answer, answering, head, serving
from dev.attack.tool_calls import call
from noetl_activities.errors import ToolError
from noetl_activities.http.tool import TOOL
from noetl_activities.outcome import Outcome
from noetl_activities.retry_after import MAX_RETRY_AFTER
from noetl_activities.variables import STACK_PORTS_VARIABLE

__all__ = ["CLASS"]

SECRET = "canary-4711"
CREDENTIAL = {"thing": {"type": "api_key", "header_name": "X-Thing", "api_key": SECRET}}
SLOW_LIMIT = 0.5
"""The timeout in seconds of a call whose server is slow."""

DRIPPING = 4.0
"""Seconds after which a slow response is complete, and one without an end has ended."""

LARGE = 17 * 2**20
"""A size in bytes above the limit of a response."""


class Response(NamedTuple):
    """The response of a server, and the check whether the call accepted it."""

    description: str
    answer: Answer
    is_obeyed: Callable[[Outcome], bool]
    limit: float = 30.0


def _is_ok(outcome: Outcome) -> bool:
    """Whether the call succeeded, although it should have failed."""
    return outcome.status == "ok"


# ---- charsets and encodings ----------------------------------------------------------------------------------------

ENCODED = {
    "punycode": b"mnchen-3ya",
    "idna": b"xn--mnchen-3ya",
    "utf-7": b"+ZeVnLA-",
    "unicode_escape": b"caf\\xe9",
    "raw_unicode_escape": b"caf\\u00e9",
    "hz": b"~{<:Ky2;S{#,NpJ)l6HK!#~}",
}
"""Codecs of Python that a header may name, and bytes that they read as something else."""

SPELLINGS = ("text/plain; charset={}", 'text/plain; charset="{}"', "text/plain; CHARSET={}; x=1", "a/b;charset= {}")


def _charset(rng: random.Random) -> Response:
    codec = rng.choice(list(ENCODED))
    codec_name = rng.choice((codec, codec.upper(), codec.replace("_", "-")))
    body = ENCODED[codec] if rng.random() < 0.8 else b"a" * (size := rng.randint(5, 200) * 1000) + b"-" + b"b" * size
    kind = rng.choice(SPELLINGS).format(codec_name)
    return Response(
        f"{kind}, {len(body)} bytes", answering(body, f"Content-Type: {kind}"), partial(_reads, codec, body)
    )


def _reads(codec: str, body: bytes, outcome: Outcome) -> bool:
    """Whether the body was read with that codec. A long one would take a minute to compare with."""
    data = outcome.result["data"]
    return data != body.decode() if len(body) > 1000 else bool(data == body.decode(codec))


def _layers(rng: random.Random) -> Response:
    """Return a response with nested encodings."""
    layers = [rng.choice(("gzip", "deflate", "x-gzip")) for _ in range(rng.randint(2, 5))]
    return _layered_response(layers, rng.choice((", ", ",", " , identity, ")), rng.randint(2**20, 2**22))


def _layered_response(layers: list[str], separator: str, size: int) -> Response:
    body = bytes(size)
    for layer in layers:
        body = zlib.compress(body, 9) if layer == "deflate" else gzip.compress(body, 9)
    payload = separator.join(layers)
    return Response(f"{payload} of {size} zeros", answering(body, f"Content-Encoding: {payload}"), partial(_has, size))


def _has(size: int, outcome: Outcome) -> bool:
    return outcome.status == "ok" and len(outcome.result["data"]) >= size


def _bomb(rng: random.Random) -> Response:
    size, name = rng.randint(LARGE, 4 * LARGE), rng.choice(("gzip", "deflate", "X-Gzip", "raw deflate"))
    body = gzip.compress(bytes(size), 9) if "gzip" in name.lower() else zlib.compress(bytes(size), 9)
    payload = body[2:-4] if name == "raw deflate" else body
    header = f"Content-Encoding: {name.removeprefix('raw ')}"
    return Response(f"{name} of {size} zeros", answering(payload, header), _is_ok)


# ---- without an end, or slow ---------------------------------------------------------------------------------------


async def _write_repeatedly(
    writer: asyncio.StreamWriter, *, start: bytes, piece: bytes, pause: float, end: bytes
) -> None:
    """Write pieces for a while, and then the end of a complete response."""
    writer.write(start)
    for _ in range(int(DRIPPING / pause) if pause else LARGE * 2 // len(piece)):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause)
    writer.write(end)
    await writer.drain()


EMPTY_BLOCKS = b"\x00\x00\x00\xff\xff" * 10_000
PIECES: dict[str, tuple[bytes, bytes, bytes]] = {
    "a body": (head(), b"x", b""),
    "an error": (head(status="503 Busy"), b"x", b""),
    "chunks": (head("Transfer-Encoding: chunked"), b"1\r\nx\r\n", b"0\r\n\r\n"),
    "a header": (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", b"\r\nContent-Length: 0\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-Slow: y\r\n", b"Content-Length: 0\r\n\r\n"),
    "the reason": (b"HTTP/1.1 200 ", b"x", b"\r\nContent-Length: 0\r\n\r\n"),
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", head("Content-Length: 0")),
}
"""What comes slowly: the beginning, a piece and the end."""


def _slow(rng: random.Random) -> Response:
    part = rng.choice(list(PIECES))
    start, piece, end = PIECES[part]
    pause = rng.choice((0.02, 0.05, 0.1, 0.3))
    respond = partial(_write_repeatedly, start=start, piece=piece, pause=pause, end=end)
    return Response(f"{part} a piece every {pause} s", respond, _is_late, SLOW_LIMIT)


def _is_late(outcome: Outcome) -> bool:
    return outcome.error is None or outcome.error.kind != "timeout"


ENDLESS: dict[str, tuple[bytes, bytes, bytes]] = {
    "a body": (head(), bytes(2**16), b""),
    "chunks": (head("Transfer-Encoding: chunked"), b"8000\r\n" + bytes(2**15) + b"\r\n", b"0\r\n\r\n"),
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 2**16, b"\r\nContent-Length: 0\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 5000, b"Content-Length: 0\r\n\r\n"),
    "empty blocks": (head("Content-Encoding: deflate") + b"\x78\x9c", EMPTY_BLOCKS, b"\x03\x00\x00\x00\x00\x01"),
}


def _endless(rng: random.Random) -> Response:
    part = rng.choice(list(ENDLESS))
    start, piece, end = ENDLESS[part]
    more = rng.randint(1, 99)
    respond = partial(_write_repeatedly, start=start, piece=piece * (1 + more % 3), pause=0.0, end=end)
    return Response(f"{part} without an end, {more}", respond, _is_ok)


# ---- JSON and waits ------------------------------------------------------------------------------------------------


def _json(rng: random.Random) -> Response:
    if rng.random() < 0.5:
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"a":[', "]}]"), ("[[],[1,", "]]")))
        depth = rng.choice((101, 700, 900, 5_000, 100_000))
        text = opening * depth + "1" + closing * depth
    else:
        piece = rng.choice(("[],", "{},", "1,", '"",', "[[]],", '{"":0},', '",",'))
        text = "[" + piece * rng.randint(1_000_001, 1_500_000) + "1]"
    kind = rng.choice(("application/json", "text/json; charset=utf-8", "application/vnd.x+json", "Application/JSON"))
    return Response(
        f"{kind}: {text[:20]}, {len(text)} bytes", answering(text.encode(), f"Content-Type: {kind}"), _is_ok
    )


def _wait(rng: random.Random) -> Response:
    number, status = rng.randint(10**5, 10**18), rng.choice(("429 Slow", "503 Busy"))
    numbers = (str(number), f"{number}.5", "9" * 5_000, "1e9", "Infinity", "-1", "nan", "0x7fffffff", "\xd9\xa3")
    date = rng.choice(("31 Dec 9999 23:59:59", f"31 Dec {number} 23:59:59", "01 Jan 0001 00:00:00"))
    header = rng.choice((*numbers, f"Fri, {date} {rng.choice(('GMT', '-0000', '', '-2359', '+2359'))}"))
    return _waiting(header, status)


def _waiting(header: str, status: str) -> Response:
    return Response(f"{status}, {header[:40]}", answering(b"", f"Retry-After: {header}", status=status), _waits_long)


def _waits_long(outcome: Outcome) -> bool:
    return outcome.error is None or not 0 <= (outcome.error.retry_after or 0) <= MAX_RETRY_AFTER


MAKERS: tuple[Callable[[random.Random], Response], ...] = (_charset, _layers, _bomb, _slow, _endless, _json, _wait)


class _Guard:
    """The http tool while it is on, else httpx."""

    is_on = True


def _attack(response: Response, kind: str) -> Attack:
    return Attack(f"{kind}: {response.description}", lambda: asyncio.run(_gets_through(response)))


async def _gets_through(response: Response) -> bool:
    async with serving(response.answer) as url:
        outcome = await _call(url, response.limit)
    return outcome is not None and response.is_obeyed(outcome)


async def _call(url: str, limit: float, credentials: dict[str, dict[str, Any]] | None = None) -> Outcome | None:
    """Make the call; None if it was refused."""
    if not _Guard.is_on:
        return await plain_call(url, {"X-Thing": SECRET} if credentials else {})
    try:
        return await call(TOOL, {"url": url, "follow_redirects": True}, limit=limit, credentials=credentials)
    except ToolError:
        return None


# ---- redirects -----------------------------------------------------------------------------------------------------

HOSTS = (
    *("127.0.0.1", "localhost", "LOCALHOST", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "[::1]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.2", "0.0.0.0", "user@127.0.0.1", "a:b@localhost", "0"),
)
"""Names of this machine: an attack that is not stopped reaches our own server."""

SCHEMES = ("file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "data:text/plain,x", "unix:///tmp/x", "//")
STATUSES = ("301 Moved", "302 Found", "303 Other", "307 Again", "308 Moved")


def _redirect(rng: random.Random) -> Attack:
    status, way = rng.choice(STATUSES), rng.choice(("port", "scheme", "secret", "round", "cookie"))
    host = rng.choice(HOSTS)
    if way == "scheme":
        target = rng.choice(SCHEMES)
        return Attack(f"redirect {status}: {target}", lambda: asyncio.run(_is_followed(status, target)))
    if way == "round":
        return Attack(
            f"redirect {status}: /{host} without an end", lambda: asyncio.run(_is_followed(status, f"/{host}"))
        )
    return Attack(f"redirect {status}: {way} to {host}", lambda: asyncio.run(_reaches(status, host, way)))


async def _is_followed(status: str, target: str) -> bool:
    async with serving(answering(b"", f"Location: {target}", status=status)) as url:
        outcome = await _call(url, SLOW_LIMIT * 10)
    return outcome is not None and _is_ok(outcome)


async def _reaches(status: str, host: str, way: str) -> bool:
    """Whether the other server was reached, which is the stack's, or got a secret, when it is not."""
    async with _recording_server() as (other, heads):
        port = other.rpartition(":")[2]
        sends = answering(b"", f"Location: http://{host}:{port}/", f"Set-Cookie: a={SECRET}", status=status)
        with patch.dict(os.environ, {STACK_PORTS_VARIABLE: port if way == "port" else ""}):
            async with serving(sends) as url:
                await _call(url, SLOW_LIMIT * 10, CREDENTIAL if way == "secret" else None)
    return bool(heads) if way == "port" else any(SECRET in text for text in heads)


@asynccontextmanager
async def _recording_server() -> AsyncGenerator[tuple[str, list[str]]]:
    """A server on all of this machine's loopback addresses that keeps the heads of requests."""
    heads: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        writer.write(head("Content-Length: 0"))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield responses of all makers and redirects, in turn."""
    for index in range(count):
        number = index % (len(MAKERS) + 1)
        if number == len(MAKERS):
            yield _redirect(rng)
        else:
            yield _attack(MAKERS[number](rng), MAKERS[number].__name__.strip("_"))


def _disable_guard() -> AbstractContextManager[object]:
    """Call with plain httpx and decode with Python."""
    return patch.object(_Guard, "is_on", False)


def _site() -> AbstractContextManager[object]:
    """Loopback is allowed, as by the embedded stack."""
    return patch.dict(os.environ, {"NOETL_HTTP_ALLOW": "127.0.0.0/8,0.0.0.0,::1,localhost", STACK_PORTS_VARIABLE: ""})


CONTROLS: dict[str, Callable[[], Response]] = {
    "utf-7": lambda: Response(
        "", answering(ENCODED["utf-7"], "Content-Type: a/b; charset=utf-7"), partial(_reads, "utf-7", ENCODED["utf-7"])
    ),
    "encodings on top of each other": lambda: _layered_response(["gzip", "deflate"], ", ", 2**20),
    "a bomb": lambda: _bomb(random.Random(1)),
    "a slow response": lambda: _slow(random.Random(1)),
    "700 levels of JSON": lambda: Response(
        "", answering(b"[" * 700 + b"]" * 700, "Content-Type: application/json"), _is_ok
    ),
    "a wait of three years": lambda: _waiting("99999999", "429 Slow"),
}


def _control(name: str) -> bool:
    return asyncio.run(_gets_through(CONTROLS[name]()))


def _redirect_control(host: str, way: str) -> bool:
    return asyncio.run(_reaches("302 Found", host, way))


CLASS = AttackClass(
    "responses",
    _attacks,
    (
        *(Attack(name, partial(_control, name)) for name in CONTROLS),
        Attack("a redirect to the stack's port", partial(_redirect_control, "127.0.0.1", "port")),
        Attack("a redirect with a secret", partial(_redirect_control, "localhost", "secret")),
    ),
    _disable_guard,
    _site,
)
