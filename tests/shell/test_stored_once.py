"""Calls with sinks on the real stack: each row once, whatever dies in between, and no call that was answered is made
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext, load_tools
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving, workflow_worker

from .conftest import HEAD
from .reports import reports_of
from .servers import Site, proxy_to, site
from .table import Base
from .worker_process import worker_process

LARGE = 100_000


@pytest.fixture
async def web() -> AsyncGenerator[Site]:
    async with site() as started_site:
        yield started_site


async def submit(servers: Addresses, workflow: str, **payload: Any) -> RunHandle:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    return await client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"), payload)


async def until(condition: Callable[[], Any | Awaitable[Any]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if await value if isinstance(value, Awaitable) else value:
                return
            await asyncio.sleep(0.02)


async def run(servers: Addresses, workflow: str, answer: Callable[[Request, ToolContext], Any]) -> RunReport:
    """The report of a run whose tool ``noop`` answers so, beside the real sinks."""
    tools = {"noop": FakeTool("noop", answer)}
    credentials = CredentialSource(environment=servers.environment())
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, credentials):
        handle = await client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"))
        return await handle.result()


# ---- the payload store is away --------------------------------------------------------------------------------------


async def test_a_large_result_is_stored_however_long_the_store_is_unavailable(servers: Addresses, web: Site) -> None:
    """The outage is longer than a heartbeat timeout and a handful of Temporal's retries."""
    async with proxy_to(servers.postgres) as proxy, AsyncExitStack() as stack:
        await stack.enter_async_context(worker_process(servers.temporal, proxy.dsn))
        web.open.clear()
        handle = await submit(
            servers, f'  - step: start\n    tool: {{kind: http, method: GET, url: "{web.url}/size/{LARGE}"}}\n'
        )
        await until(lambda: web.calls.total() == 1)
        await proxy.disconnect()
        web.open.set()
        await asyncio.sleep(14)
        assert web.calls.total() == 1
        await proxy.restore()
        report = await handle.result()
        assert report.status == "completed"
        assert web.calls.total() == 1
        [call] = await reports_of(handle, servers.postgres)
        assert [attempt.status for attempt in call.attempts] == ["ok"]


async def test_a_call_that_cannot_be_read_yet_is_not_a_lost_attempt(servers: Addresses) -> None:
    """The tool's own worker is cut off from the store before it gets a call over 64 KB."""
    tools = {"noop": FakeTool("noop", lambda request, _context: len(request.config["message"]))}
    async with proxy_to(servers.postgres) as proxy:
        client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
        distant = await NoetlClient.connect(servers.temporal, dsn=proxy.dsn, tools=tools)
        await proxy.disconnect()
        source = CredentialSource(environment={})
        tool = '    tool: {kind: noop, message: "{{ workload.text }}", spec: {idempotent: false}}\n'
        graph = compile_or_raise(f"{HEAD}workflow:\n  - step: start\n{tool}")
        async with workflow_worker(client.temporal), serving(distant.temporal, tools, source, only=["noop"]):
            handle = await client.submit(graph, {"text": "x" * LARGE})
            await asyncio.sleep(12)
            await proxy.restore()
            report = await handle.result()
    assert (report.status, report.result) == ("completed", LARGE)
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["ok"]


# ---- a worker that dies between the commit of the sink and the report -----------------------------------------------

STORING = """
  - step: start
    tool:
      - call:
          kind: http
          method: POST
          url: "{{ workload.url }}"
          SPEC
          sink:
            tool: {kind: postgres, auth: pg_local, table: "{{ workload.table }}", data: {n: "{{ output.data.call }}"}}
"""


@pytest.mark.parametrize("spec", ["", "spec: {idempotent: false}"])
async def test_a_killed_worker_leaves_the_outcome_with_the_rows(
    servers: Addresses, web: Site, base: Base, spec: str
) -> None:
    """Its report cannot be stored, so it is known to be between commit and report when it is killed."""
    credentials = servers.environment()
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_to(servers.postgres))
        first = await stack.enter_async_context(worker_process(servers.temporal, proxy.dsn, **_only(credentials)))
        web.open.clear()
        workflow = STORING.replace("SPEC", spec)
        handle = await submit(servers, workflow, url=f"{web.url}/size/{LARGE}", table=base.table)
        await until(lambda: web.calls.total() == 1)
        await proxy.disconnect()
        web.open.set()
        await until(lambda: has_rows(base))
        first.kill()
        await first.wait_for_exit()
        await stack.enter_async_context(worker_process(servers.temporal, servers.postgres, **_only(credentials)))
        report = await handle.result()
        assert report.status == "completed"
        assert web.calls.total() == 1
        assert await base.rows() == [1]
        [call] = await reports_of(handle, servers.postgres)
        assert [(attempt.status, attempt.is_reused) for attempt in call.attempts] == [("lost", False), ("ok", True)]
        assert len(call.outcome["result"]["data"]["text"]) == LARGE


async def has_rows(base: Base) -> bool:
    return bool(await base.rows())


def _only(credentials: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in credentials.items() if name.startswith("NOETL_CREDENTIAL_")}


# ---- rows of repeated calls -----------------------------------------------------------------------------------------


async def test_a_retry_of_a_good_outcome_stores_as_many_rows_as_calls(servers: Addresses, base: Base) -> None:
    calls: list[int] = []

    def answer(_request: Request, _context: ToolContext) -> Any:
        calls.append(1)
        return {"n": len(calls)}

    report = await run(
        servers,
        f"""
  - step: start
    tool:
      - poll:
          kind: noop
          sink: {{tool: {{kind: postgres, auth: pg_local, table: {base.table}, data: {{n: "{{{{ result.n }}}}"}}}}}}
          spec:
            policy:
              rules:
                - when: "{{{{ output.data.n < 3 }}}}"
                  then: {{do: retry, attempts: 5, delay: 0.01}}
""",
        answer,
    )
    assert report.status == "completed"
    assert len(calls) == 3
    assert await base.rows() == [1, 2, 3]


async def test_replace_in_a_loop_leaves_the_rows_of_all_items(servers: Addresses, base: Base) -> None:
    for _ in range(2):
        report = await run(
            servers,
            f"""
  - step: start
    loop: {{in: [1, 2, 3, 4, 5], iterator: item, spec: {{mode: parallel, max_in_flight: 3}}}}
    tool:
      - one:
          kind: noop
          sink:
            tool: {{kind: postgres, auth: pg_local, table: {base.table}, data: {{n: "{{{{ item }}}}"}}}}
            mode: replace
""",
            lambda _request, _context: {"n": 1},
        )
        assert report.status == "completed"
        assert await base.rows() == [1, 2, 3, 4, 5]
