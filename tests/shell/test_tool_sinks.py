"""Sinks that call a tool, behind one with a transaction: a lost worker repeats them and nothing before them."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import asyncpg
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from noetl_activities.tool import load_tools
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.stack.addresses import Addresses

from .conftest import HEAD
from .servers import on_loopback
from .worker_process import worker_process


class Hook:
    """Counts requests and posts; it never answers the first post."""

    def __init__(self) -> None:
        self.call_count = 0
        self.received_posts: list[tuple[str | None, Any]] = []
        self.closing = asyncio.Event()

    async def ask(self, _request: Request) -> Response:
        self.call_count += 1
        return JSONResponse({"number": self.call_count})

    async def answer(self, request: Request) -> Response:
        self.received_posts.append((request.headers.get("idempotency-key"), await request.json()))
        if len(self.received_posts) == 1:
            await self.closing.wait()
        return JSONResponse({})


def playbook(url: str, table: str) -> str:
    return f"""{HEAD}workflow:
  - step: start
    tool:
      - name: create
        kind: postgres
        auth: pg_local
        command: create table {table} (number int)
      - name: ask
        kind: http
        url: "{url}/ask"
        sink:
          - {{kind: postgres, auth: pg_local, table: {table}}}
          - {{kind: http, url: "{url}/tell", data: {{seen: "{{{{ output.data.data.number }}}}"}}}}
          - {{kind: python, code: "assert number == 1"}}
"""


async def test_a_worker_lost_in_a_sink_repeats_that_sink_alone(servers: Addresses) -> None:
    hook, table = Hook(), f"told_{uuid.uuid4().hex[:8]}"
    secrets = {name: value for name, value in servers.environment().items() if name.startswith("NOETL_CREDENTIAL_")}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    routes = Route("/ask", hook.ask), Route("/tell", hook.answer, methods=["POST"])
    async with on_loopback(*routes) as url:
        async with worker_process(servers.temporal, servers.postgres, **secrets) as first:
            handle = await client.submit(compile_or_raise(playbook(url, table)))
            async with asyncio.timeout(60):
                while not hook.received_posts:
                    await asyncio.sleep(0.02)
            first.kill()
            await first.wait_for_exit()
        async with worker_process(servers.temporal, servers.postgres, **secrets):
            report = await handle.result()
        hook.closing.set()
    assert report.status == "completed", report.failures
    assert hook.call_count == 1
    (key, posted_data), (key_again, seen_again) = hook.received_posts
    assert key is not None
    assert (key, posted_data) == (key_again, seen_again)
    assert posted_data == {"seen": 1}
    connection = await asyncpg.connect(servers.playbooks)
    rows = await connection.fetch(f"select number from {table}")
    await connection.close()
    assert [row["number"] for row in rows] == [1]
