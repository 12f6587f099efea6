"""The key that http calls send, at a real server: the same in all attempts of a call, another in each call."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from noetl_activities.tool import load_tools
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.addresses import Addresses

from .conftest import HEAD
from .servers import on_loopback
from .worker_process import worker_process


class Shop:
    """``keys`` are those that it was sent, by path. Of ``/pay`` it fails the first attempt and does not answer the
    second.
    """

    def __init__(self) -> None:
        self.url = ""
        self.keys: defaultdict[str, list[str | None]] = defaultdict(list)
        self.closing = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        """One attempt."""
        keys = self.keys[request.url.path]
        keys.append(request.headers.get("X-Call"))
        number = len(keys)
        if request.path_params["what"] == "pay" and number == 2:
            await self.closing.wait()
        return JSONResponse({"number": number}, 503 if request.path_params["what"] == "pay" and number == 1 else 200)


@pytest.fixture
async def shop() -> AsyncGenerator[Shop]:
    shop = Shop()
    async with on_loopback(Route("/{what}/{item}", shop.answer, methods=["POST"])) as shop.url:
        yield shop
        shop.closing.set()


def call(shop: Shop, message: str, rule: str) -> str:
    return f"""\
  - step: start
    loop: {{in: [a, b], iterator: item, mode: parallel}}
    tool:
      kind: http
      method: POST
      url: "{shop.url}/{message}/{{{{ iter.item }}}}"
      spec:
        idempotency_key: X-Call
        policy: {{rules: [{{{rule}}}]}}
"""


async def submit(servers: Addresses, workflow: str) -> RunHandle:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    return await client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_retry_and_a_lost_attempt_send_the_key_of_their_call(servers: Addresses, shop: Shop) -> None:
    rule = "when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 0.05}"
    async with worker_process(servers.temporal, servers.postgres) as first:
        handle = await submit(servers, call(shop, "pay", rule))
        await until(lambda: [len(shop.keys[f"/pay/{item}"]) for item in "ab"] == [2, 2])
        first.kill()
        await first.wait_for_exit()
    async with worker_process(servers.temporal, servers.postgres):
        assert (await handle.result()).status == "completed"
    a, b = shop.keys["/pay/a"], shop.keys["/pay/b"]
    assert a == [a[0]] * 3
    assert b == [b[0]] * 3
    assert a[0] != b[0]
    assert all(key and len(key) == 32 and key.isalnum() for key in (a[0], b[0]))


@pytest.mark.parametrize("action", ["again", "retry"])
async def test_a_call_after_a_good_outcome_sends_another(servers: Addresses, shop: Shop, action: str) -> None:
    """The next page, or another look: a server that remembers the key would only repeat its first answer."""
    rule = f'when: "{{{{ output.data.data.number < 3 }}}}", then: {{do: {action}, attempts: 3, delay: 0.01}}'
    async with worker_process(servers.temporal, servers.postgres):
        handle = await submit(servers, call(shop, "look", rule))
        assert (await handle.result()).status == "completed"
    keys = [key for item in "ab" for key in shop.keys[f"/look/{item}"]]
    assert len(set(keys)) == len(keys) == 6
