"""Answers of a hostile server stall no worker: bodies, encodings, charsets and JSON have limits of size and time."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
import tracemalloc
import warnings
import zlib
from dataclasses import replace
from http.cookiejar import CookieJar
from typing import Any

import httpx
import pytest

from dev.attack.raw_server import Answer, answering, head, serving
from noetl_activities.errors import ConfigError
from noetl_activities.http.cookies import QuietCookieJar
from noetl_activities.http.data import CHARSETS, parse_body
from noetl_activities.http.tool import TOOL, HttpTool
from noetl_activities.json_limits import MAX_DEPTH, MAX_VALUES, exceeded_limit
from noetl_activities.outcome import Outcome

from .conftest import Context, request

pytestmark = pytest.mark.usefixtures("loopback")

SOON = 60.0
"""Seconds that are far more than any of these calls takes, also on a busy machine."""


async def call(answer: Answer, limit: float | None = SOON, **config: Any) -> Outcome:
    async with serving(answer) as url:
        return await TOOL.run(request("http", limit=limit, url=url, **config), Context())


def problem_of(outcome: Outcome) -> tuple[str, str]:
    assert outcome.error is not None
    return outcome.error.kind, outcome.error.message


# ---- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "unicode_escape", "zlib", "x" * 99])
async def test_no_codec_is_used_because_a_header_names_it(charset: str) -> None:
    outcome = await call(answering(b"caf\\xe9-" + b"a" * 99, f"Content-Type: text/plain; charset={charset}"))
    assert outcome.result["data"] == "caf\\xe9-" + "a" * 99


async def test_a_charset_with_quadratic_decoding_does_not_block_others() -> None:
    """400 KB of punycode take a minute to decode; nothing else of the process runs meanwhile."""
    body = b"a" * 200_000 + b"-" + b"b" * 200_000
    started_at = time.monotonic()
    outcome = await call(answering(body, "Content-Type: text/plain; charset=punycode"))
    assert outcome.result["data"] == body.decode()
    assert time.monotonic() - started_at < SOON
    short, long = (seconds_of_decoding(body[200_000 - half : 200_000 + half]) for half in (5_000, 80_000))
    assert long > 32 * short, "the control: 16 times the text takes far more than 16 times as long"


def seconds_of_decoding(body: bytes) -> float:
    started_at = time.process_time()
    body.decode("punycode")
    return time.process_time() - started_at


async def test_an_extended_charset_parameter_is_not_decoded() -> None:
    """RFC 2231: the parameter names the charset of its own value, which Python's mail parser believes."""
    value = "a" * 20_000 + "-" + "b" * 20_000
    outcome = await call(answering(b"ok", f"Content-Type: text/plain; charset*=punycode''{value}"))
    assert outcome.result["data"] == "ok"


@pytest.mark.parametrize("charset", sorted(CHARSETS))
async def test_charsets_that_are_read(charset: str) -> None:
    body = "plain ~ text".encode(CHARSETS[charset])
    assert await parse_body(body, f'text/plain; charset="{charset.upper()}"') == "plain ~ text"


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ("smørbrød".encode("latin-1"), "text/plain; charset=ISO-8859-1", "smørbrød"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("日本".encode(), "text/plain; charset=unheard-of", "日本"),
        (b"\xff\x00", "text/plain; charset=punycode", {"base64": "/wA="}),
        ('{"a": "ø"}'.encode("utf-16"), "application/json; charset=utf-16", {"a": "ø"}),
    ],
)
async def test_how_bodies_are_decoded(body: bytes, content_type: str, data: Any) -> None:
    assert await parse_body(body, content_type) == data


# ---- encodings ----------------------------------------------------------------------------------------------------


async def test_nested_encodings_are_not_decoded() -> None:
    bomb = gzip.compress(gzip.compress(gzip.compress(bytes(2**26), 9), 9), 9)
    assert len(bomb) < 1_000
    kind, message = problem_of(await call(answering(bomb, "Content-Encoding: gzip, gzip, gzip")))
    assert (kind, "3 content encodings" in message) == ("server_error", True)


async def test_a_body_is_unpacked_no_further_than_it_is_read() -> None:
    bomb = gzip.compress(bytes(2**27), 9)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match="over 16 MB"):
            await call(answering(bomb, "Content-Encoding: gzip"))
        bounded_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        async with serving(answering(bomb, "Content-Encoding: gzip")) as url, httpx.AsyncClient() as client:
            assert len((await client.get(url)).content) == 2**27, "the control: httpx unpacks all of it"
        unbounded_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bounded_peak < 2**26 < 2**27 < unbounded_peak


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"x" * 300_000)),
        ("X-GZIP", gzip.compress(b"x" * 300_000)),
        ("deflate", zlib.compress(b"x" * 300_000)),
        ("deflate", zlib.compress(b"x" * 300_000)[2:-4]),
        ("identity, gzip", gzip.compress(b"x" * 300_000)),
        ("identity", b"x" * 300_000),
    ],
)
async def test_one_encoding_is_decoded(encoding: str, body: bytes) -> None:
    outcome = await call(answering(body, f"Content-Encoding: {encoding}"))
    assert outcome.result["data"] == "x" * 300_000


async def test_an_unknown_encoding_is_left_as_it_is() -> None:
    outcome = await call(answering(b"\xff\x00", "Content-Encoding: br"))
    assert outcome.result["data"] == {"base64": "/wA="}


async def test_a_stream_that_unpacks_to_nothing_ends() -> None:
    """Empty blocks of deflate: endless bytes that never become a body."""
    packer = zlib.compressobj()
    start, nothing = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH), b"\x00\x00\x00\xff\xff" * 10_000

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head("Content-Encoding: deflate") + start)
        while True:
            writer.write(nothing)
            await writer.drain()

    kind, message = problem_of(await call(answer, limit=None))
    assert (kind, "bytes unpack to 0" in message) == ("server_error", True)


# ---- time ---------------------------------------------------------------------------------------------------------


async def drip_the_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    await drip(writer)


async def drip_the_body(writer: asyncio.StreamWriter) -> None:
    writer.write(head())
    await drip(writer)


async def drip_an_error(writer: asyncio.StreamWriter) -> None:
    writer.write(head(status="503 Busy"))
    await drip(writer)


async def drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def send_informational_responses_endlessly(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        await writer.drain()


async def redirect_slowly(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.1)
    writer.write(head("Location: /", status="302 Found"))


@pytest.mark.parametrize(
    "answer", [drip_the_head, drip_the_body, drip_an_error, send_informational_responses_endlessly, redirect_slowly]
)
async def test_no_response_outlives_the_timeout(answer: Answer) -> None:
    outcome = await call(answer, limit=0.5, follow_redirects=True)
    kind, message = problem_of(outcome)
    assert (kind, message.partition(": ")[2]) == ("timeout", "the response was not complete after 0.5 s")
    assert outcome.error is not None
    assert outcome.error.retryable


async def test_a_call_that_names_no_timeout_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOOL.spec.timeout == 60
    monkeypatch.setattr(HttpTool, "spec", replace(TOOL.spec, timeout=2.0))
    assert problem_of(await call(drip_the_body, limit=None))[0] == "timeout"


async def test_tiny_chunks_leave_others_their_turn() -> None:
    """A megabyte in chunks of one byte: each is read by itself, and others run in between."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head("Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
        await writer.drain()

    beside = asyncio.create_task(others())
    outcome = await call(answer)
    beside.cancel()
    assert outcome.result["data"] == "x" * 20_000
    assert turns > 20_000


async def test_the_body_of_a_redirect_is_not_read() -> None:
    sent_bytes = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent_bytes
        writer.write(head(f"Location: {target}", status="302 Found"))
        while True:
            writer.write(bytes(2**16))
            await writer.drain()
            sent_bytes += 2**16

    async with serving(answering(b"arrived")) as target:
        outcome = await call(endless, follow_redirects=True)
    assert outcome.result["data"] == "arrived"
    assert sent_bytes < 2**25, "no more than what lies in the buffers of the connection"


# ---- JSON ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[" + "[]," * 4_000_000 + "[]]",
        "[" + '"",' * MAX_VALUES * 3 + "1]",
        "[" + '",",' * MAX_VALUES + "1,1]",
        '[{"a":' + "1}," * MAX_VALUES + "{}]",
        "[" + "1," * MAX_VALUES + "1]",
    ],
    ids=["empty lists", "empty texts", "commas", "maps", "numbers"],
)
async def test_json_of_too_many_values_is_not_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(ConfigError, match="JSON with more than 1,000,000 values: request less at a time"):
        await call(answering(text.encode(), "Content-Type: application/json"))
    assert await parse_body(text.encode(), "text/plain") == text, "which nobody called JSON"


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', '[1,"[",', '["\\\\\\"]",{"]":'])
async def test_deep_json_is_a_failure_with_a_message(opening: str) -> None:
    closing = opening.replace('"["', "").replace('"]"', "").replace('"\\\\\\"]"', "")
    closing = "".join({"[": "]", "{": "}"}.get(bracket, "") for bracket in reversed(closing))
    for levels in (700, 100_000):
        text = opening * levels + "1" + closing * levels
        with pytest.raises(ConfigError, match="nested deeper than 100 levels"):
            await call(answering(text.encode(), "Content-Type: application/json"))
    levels = MAX_DEPTH // len(closing)
    fits = opening * levels + "1" + closing * levels
    assert await parse_body(fits.encode(), "application/json") == json.loads(fits)


async def test_slow_name_servers_do_not_delay_bodies() -> None:
    """Their look-ups fill asyncio's own threads, which a body does not need."""
    done = threading.Event()
    loop = asyncio.get_running_loop()
    lookups = [loop.run_in_executor(None, done.wait, SOON) for _ in range(100)]
    try:
        assert await parse_body(b"[" + b"1," * 100_000 + b"1]", "application/json") == [1] * 100_001
        assert not any(lookup.done() for lookup in lookups)
    finally:
        done.set()
        await asyncio.gather(*lookups)


async def test_unclosed_brackets_are_not_json() -> None:
    text = "[" * 90
    assert await parse_body(text.encode(), "application/json") == text
    with pytest.raises(ConfigError, match="nested deeper"):
        await parse_body(b"[" * 1_000_000, "application/json")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"text": ", [ { " * 2_000_000}),
        json.dumps(['"' * 1_000, "\\" * 1_001, '\\"' * 1_001] * 1_000),
        json.dumps([{"name": 'a "quoted" [name], {n}', "path": "c:\\temp\\"}] * 100_000),
        json.dumps([1] * (MAX_VALUES - 2)),
    ],
    ids=["brackets in a text", "escapes", "records", "as many as fit"],
)
async def test_json_with_brackets_in_strings_is_parsed(text: str) -> None:
    assert exceeded_limit(text) is None
    assert await parse_body(text.encode(), "application/json") == json.loads(text)


# ---- cookies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CookieJar, QuietCookieJar])
async def test_an_invalid_cookie_logs_no_traceback(kind: type[CookieJar], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: Python's own jar does."""
    monkeypatch.setattr("noetl_activities.network.guarded_client.QuietCookieJar", kind)
    cookie = f"a=b; expires=01 Jan {'9' * 5000}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = await call(answering(b"ok", f"Set-Cookie: {cookie}"))
    assert outcome.result["data"] == "ok"
    assert any("http.cookiejar bug" in str(problem.message) for problem in caught) == (kind is CookieJar)


async def test_a_cookie_is_not_kept_for_the_next_call() -> None:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        to_next = ("Location: /next",) if heads[-1].startswith(b"GET / ") else ()
        writer.write(
            head("Set-Cookie: a=b", "Content-Length: 0", *to_next, status="302 Found" if to_next else "200 OK")
        )
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for _ in range(2):
            await TOOL.run(request("http", limit=SOON, url=url, follow_redirects=True), Context())
    assert [b"Cookie: a=b" in request_head for request_head in heads] == [False, True, False, True]
