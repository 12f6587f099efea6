"""Scripts fetched by http, through the guards of the http tool."""

from __future__ import annotations

import asyncio
import re

import pytest

from noetl_activities.script_fetch import fetch_script
from noetl_compiler.scripts import Download, ScriptError


async def fetched(url: str, seconds: float = 10.0, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    return await asyncio.to_thread(fetch_script, Download(url, headers, seconds))


@pytest.mark.usefixtures("loopback")
async def test_the_body_of_the_answer_is_the_script(web: str) -> None:
    assert await fetched(f"{web}/data/text") == b"plain"
    assert b'"x-key":"k"' in await fetched(f"{web}/echo", headers=(("X-Key", "k"),))
    assert await fetched(f"{web}/away?to=/data/text") == b"plain"


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/status/404?token=secret", r"/status/404: it returned 404 Not Found"),
        ("/round", "more than 20 redirects"),
        ("/large", "the response is over 16 MB"),
        ("/data/broken", "incorrect header check"),
        ("/away?to=ftp://x/a.py", "cannot fetch"),
    ],
)
async def test_what_is_no_script_is_told(web: str, path: str, why: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(why)) as raised:
        await fetched(f"{web}{path}")
    assert "secret" not in str(raised.value)


@pytest.mark.usefixtures("loopback")
async def test_a_slow_server_gains_nothing(web: str) -> None:
    with pytest.raises(ScriptError, match=r"no complete response after 0.3 s"):
        await fetched(f"{web}/slow", seconds=0.3)


async def test_an_address_that_is_not_public_is_refused(web: str) -> None:
    with pytest.raises(ScriptError, match="is not a public address"):
        await fetched(f"{web}/data/text")
