"""Values too large for Temporal: they lie in Postgres, or fail their task; nothing hangs."""

from __future__ import annotations

from typing import Any

import asyncpg

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import HEAD, history_of

ONE_STEP = '  - step: start\n    tool: {kind: noop, message: "{{ workload.size }}"}\n'
LOOP = """
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 8}}
    tool: {kind: noop, message: "{{ workload.size }}"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, message: 1, input: {all: "{{ start.results }}"}}
"""


def answer(request: Request, _context: ToolContext) -> Any:
    return "x" * int(request.config["message"])


async def run(servers: Addresses, dsn: str | None, workflow: str, **payload: Any) -> tuple[RunReport, str]:
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=dsn, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"), payload)
        report = await handle.result()
        return report, (await history_of(handle)).to_json()


async def test_a_large_result_comes_back_whole_and_history_stays_small(servers: Addresses) -> None:
    report, history = await run(servers, servers.postgres, ONE_STEP, size=5_000_000)
    assert report.status == "completed"
    assert report.result == "x" * 5_000_000
    assert len(history) < 100_000


async def test_a_loop_may_gather_more_than_one_message_holds(servers: Addresses) -> None:
    report, _ = await run(servers, servers.postgres, LOOP, size=200_000, items=list(range(40)))
    assert report.status == "completed"


async def test_the_same_value_is_stored_once(servers: Addresses) -> None:
    connection = await asyncpg.connect(servers.postgres)
    try:
        await run(servers, servers.postgres, ONE_STEP, size=3_000_001)
        before = await connection.fetchval("select count(*) from noetl.payload")
        await run(servers, servers.postgres, ONE_STEP, size=3_000_001)
        after = await connection.fetchval("select count(*) from noetl.payload")
    finally:
        await connection.close()
    assert after - before <= 2  # the reports name their own execution


async def test_without_a_place_for_it_a_large_result_fails_its_task(servers: Addresses) -> None:
    report, _ = await run(servers, None, ONE_STEP, size=5_000_000)
    assert report.status == "failed"
    assert report.failures.detailed[0].kind == "too_large"
