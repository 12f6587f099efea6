"""A caller that is reset calls its playbooks again: each call is the same execution, whose rows are stored once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext, load_tools
from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.machine.loops import chunks
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.runs import Runs
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_execution
from tests.mirror.resets import reset, superseded_events
from tests.shell.table import Base

CHILD = """\
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: postgres, auth: pg_local, query: "insert into TABLE values ({{ workload.n }})"}
    next: {arcs: [{step: more}]}
  - step: more
    loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel, max_in_flight: 2}}
    tool:
      - call:
          kind: noop
          input: {n: "{{ workload.n }}"}
          sink: {tool: {kind: postgres, auth: pg_local, table: TABLE, data: {n: "{{ workload.n }}"}}}
"""
BEFORE = """\
  - step: start
    tool: {kind: noop, input: {n: before}}
    next: {arcs: [{step: call}]}
"""
CALL = """\
  - step: call
    tool: {kind: playbook, path: tests/child, input: {n: 7}MORE}
    next: {arcs: [{step: after}]}
"""
LOOP = """\
  - step: call
    loop: {in: "{{ range(9) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: playbook, path: tests/child, input: {n: "{{ n }}"}}
    next: {arcs: [{step: after}]}
"""
AFTER = "  - step: after\n    tool: {kind: noop, input: {n: after}}\n"


class Tool:
    """Counts its calls; those of the step ``after`` wait until they are let go."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.let_go = asyncio.Event()

    async def __call__(self, request: Request, context: ToolContext) -> Any:
        n = request.input["n"]
        self.calls.append(n)
        while n == "after" and not self.let_go.is_set():
            context.heartbeat()
            await asyncio.sleep(0.02)
        return {"n": n}

    async def came_to(self, n: Any, times: int) -> None:
        """Return once it was called so often with this."""
        while self.calls.count(n) < times:
            await asyncio.sleep(0.02)


def book(path: str, body: str) -> Graph:
    head = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {path}, path: {path}}}\n"
    return compile_or_raise(head + body, f"{path.replace('/', '_')}.yaml")


@asynccontextmanager
async def reset_and_repeat(
    servers: Addresses, base: Base, call: str
) -> AsyncGenerator[tuple[NoetlClient, RunHandle, RunReport]]:
    """A run that was reset to its first step after its call had ended; with its report."""
    tool = Tool()
    tools = {**load_tools(), "noop": FakeTool("noop", tool)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    playbooks = {"tests/child": book("tests/child", CHILD.replace("TABLE", base.table))}
    async with (
        asyncio.timeout(240),
        serving(client.temporal, tools, CredentialSource(environment=servers.environment())),
    ):
        run = await client.submit(book("tests/shell", f"workflow:\n{BEFORE}{call}{AFTER}"), playbooks=playbooks)
        await tool.came_to("after", 1)
        assert run.run_id is not None
        await reset(client.temporal, run.workflow, run.run_id, 0)
        await tool.came_to("before", 2)
        tool.let_go.set()
        report = await run.result()
        yield client, run, report
        for case in (run.run_id, None):
            await follow_execution(client.temporal, servers.postgres, run.workflow_id, case)
    assert await audit_execution(servers.postgres, run.execution_id) == []


async def child_calls(servers: Addresses, run: RunHandle) -> dict[int, tuple[str, int]]:
    """Of the runs that it called: execution id -> (status, how often it began)."""
    connection = await asyncpg.connect(servers.postgres)
    try:
        rows = await connection.fetch(
            "SELECT x.execution_id, x.status, (SELECT count(*) FROM noetl.event e WHERE "
            "e.execution_id = x.execution_id AND event_type = 'playbook.started') AS begun "
            "FROM noetl.execution x WHERE parent_execution_id = $1",
            run.execution_id,
        )
        return {row["execution_id"]: (row["status"], row["begun"]) for row in rows}
    finally:
        await connection.close()


async def test_a_call_that_a_reset_repeats_is_the_same_execution_and_stores_its_rows_once(
    servers: Addresses, base: Base
) -> None:
    started_at = datetime.now(UTC)
    async with reset_and_repeat(servers, base, CALL.replace("MORE", "")) as (client, run, report):
        assert report.status == "completed"
        [child] = await Runs(client.temporal, None).list("tests/child", since=started_at)
        assert child.started >= started_at
    assert await base.rows() == [7] * 4
    [(execution_id, rows_called)] = (await child_calls(servers, run)).items()
    assert rows_called == ("COMPLETED", 2)
    assert execution_id < run.execution_id
    assert await audit_execution(servers.postgres, execution_id) == []
    connection = await asyncpg.connect(servers.postgres)
    superseded_ids = await superseded_events(connection, execution_id)
    start_query = (
        "SELECT event_id FROM noetl.event WHERE execution_id = $1 AND event_type = 'playbook.started' ORDER BY 1"
    )
    assert [row[0] in superseded_ids for row in await connection.fetch(start_query, execution_id)] == [True, False]
    await connection.close()


async def test_calls_of_a_loop_that_a_reset_repeats_store_their_rows_once(
    servers: Addresses, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of every chunk."""
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 4)
    async with reset_and_repeat(servers, base, LOOP) as (_, run, report):
        assert report.status == "completed"
    assert await base.rows() == sorted(list(range(9)) * 4)
    assert list((await child_calls(servers, run)).values()) == [("COMPLETED", 2)] * 9


async def test_a_call_that_is_not_waited_for_is_made_once_whatever_is_reset(servers: Addresses, base: Base) -> None:
    async with reset_and_repeat(servers, base, CALL.replace("MORE", ", wait: false")) as (client, run, report):
        assert report.status == "completed"
        [child] = await called_by(client, run)
        assert (await (await client.handle(child)).result()).status == "completed"
    assert await base.rows() == [7] * 4
    assert list((await child_calls(servers, run)).values()) == [("COMPLETED", 1)]


async def test_a_call_that_must_not_be_repeated_fails_after_a_reset(servers: Addresses, base: Base) -> None:
    async with reset_and_repeat(servers, base, CALL.replace("MORE", ", spec: {idempotent: false}")) as (_, run, report):
        assert [(failure.kind, failure.message) for failure in report.failures.detailed] == [
            (
                "unknown_outcome",
                "the playbook 'tests/child' was called before a reset of its caller, and must not be called again",
            )
        ]
    assert await base.rows() == [7] * 4
    assert list((await child_calls(servers, run)).values()) == [("COMPLETED", 1)]


async def called_by(client: NoetlClient, run: RunHandle) -> set[str]:
    """The workflow ids of the playbooks that it called, once Temporal lists any: it lists a new run a moment later."""
    query = f"ParentWorkflowId = '{run.workflow_id}'"
    while not (ids := {workflow.id async for workflow in client.temporal.list_workflows(query)}):
        await asyncio.sleep(0.05)
    return ids
