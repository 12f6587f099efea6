"""SQL of the postgres tool on the real stack: it takes effect once, whatever dies after its commit, also when the
workflow is reset.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.tool import load_tools
from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Value
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.machine.call import SinkCall, ToolCall, ToolReport
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import HEAD
from .reports import reports_of
from .servers import proxy_to
from .worker_process import worker_process

LARGE = 100_000
"""Characters of a result that does not stand in history: its report needs the payload store."""


class Base:
    """Tables in the database of playbooks, which ``pg_local`` names: ``calls`` is written by the tool, ``rows`` by its
    sink, and whoever reads ``gate`` waits while it is locked.
    """

    def __init__(self, dsn: str, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        name = uuid.uuid4().hex[:8]
        self.calls, self.rows, self.gate = f"calls_{name}", f"rows_{name}", f"gate_{name}"
        self._dsn = dsn
        self._connection = connection

    async def make(self) -> None:
        for table in (self.calls, self.rows, self.gate):
            await self._connection.execute(f"create table {table} (n int)")

    async def fetch(self, sql: str, *values: Any) -> Any:
        return await self._connection.fetchval(sql, *values)

    async def count(self, table: str) -> int:
        return int(await self._connection.fetchval(f"select count(*) from {table}"))

    async def has_waiter(self, table: str) -> bool:
        sql = f"select count(*) from pg_locks where not granted and relation = '{table}'::regclass"
        return bool(await self._connection.fetchval(sql))

    async def lock(self, table: str) -> asyncpg.Connection[asyncpg.Record]:
        """A connection that holds the table until it is closed."""
        holder = await asyncpg.connect(self._dsn)
        await holder.execute(f"begin; lock table {table} in access exclusive mode")
        return holder


@pytest.fixture
async def base(servers: Addresses) -> AsyncGenerator[Base]:
    connection = await asyncpg.connect(servers.playbooks)
    base = Base(servers.playbooks, connection)
    await base.make()
    yield base
    await connection.close()


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def submit(servers: Addresses, workflow: str) -> RunHandle:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    return await client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"))


def credentials(servers: Addresses) -> dict[str, str]:
    return {name: value for name, value in servers.environment().items() if name.startswith("NOETL_CREDENTIAL_")}


def call_of(base: Base, sql: str, *lines: str) -> str:
    inserts = f"insert into {base.calls} values (1); {sql}"
    head = ["  - step: start", "    tool:", "      - call:", "          kind: postgres", "          auth: pg_local"]
    return "\n".join([*head, f'          query: "{inserts}"', *(f"          {line}" for line in lines)]) + "\n"


@pytest.mark.parametrize("spec", [[], ["spec: {idempotent: false}"]])
async def test_a_worker_killed_between_commit_and_report(servers: Addresses, base: Base, spec: list[str]) -> None:
    """Its report cannot be stored, so it is known to be between commit and report when it is killed."""
    sql = f"select count(*) from {base.gate}; select repeat('x', {LARGE}) as text"
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_to(servers.postgres))
        first = await stack.enter_async_context(worker_process(servers.temporal, proxy.dsn, **credentials(servers)))
        holder = await base.lock(base.gate)
        handle = await submit(servers, call_of(base, sql, *spec))
        await until(lambda: base.has_waiter(base.gate))
        await proxy.disconnect()
        await holder.close()
        await until(lambda: has_rows(base, base.calls))
        first.kill()
        await first.wait_for_exit()
        await stack.enter_async_context(worker_process(servers.temporal, servers.postgres, **credentials(servers)))
        report = await handle.result()
    assert report.status == "completed"
    assert await base.count(base.calls) == 1
    [call] = await reports_of(handle, servers.postgres)
    attempts = [(attempt.status, attempt.is_called, attempt.is_reused) for attempt in call.attempts]
    assert attempts == [("lost", True, False), ("ok", False, True)]
    assert call.outcome["result"]["rows"] == [{"text": "x" * LARGE}]


async def test_a_worker_killed_while_the_sinks_of_the_call_run(servers: Addresses, base: Base) -> None:
    sink = f"sink: {{tool: {{kind: postgres, auth: pg_local, table: {base.rows}, data: {{n: 7}}}}}}"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(
            worker_process(servers.temporal, servers.postgres, **credentials(servers))
        )
        holder = await base.lock(base.rows)
        handle = await submit(servers, call_of(base, "select 1 as one", sink))
        await until(lambda: base.has_waiter(base.rows))
        assert await base.count(base.calls) == 1
        first.kill()
        await first.wait_for_exit()
        await holder.close()
        await stack.enter_async_context(worker_process(servers.temporal, servers.postgres, **credentials(servers)))
        report = await handle.result()
    assert report.status == "completed"
    assert (await base.count(base.calls), await base.count(base.rows)) == (1, 1)


async def has_rows(base: Base, table: str) -> bool:
    return await base.count(table) > 0


async def test_a_reset_workflow_does_not_repeat_it(servers: Addresses, base: Base) -> None:
    source = CredentialSource(environment=servers.environment())
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    async with serving(client.temporal, load_tools(), source):
        handle = await submit(servers, call_of(base, f"select count(*) as n from {base.calls}"))
        first = await handle.result()
        await _reset(client, handle)
        second: Any = await client.temporal.get_workflow_handle(handle.workflow_id).result()
    assert (first.status, first.result["rows"]) == ("completed", [{"n": 1}])
    assert await base.count(base.calls) == 1
    assert second["result"] == first.result
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.is_reused for attempt in call.attempts] == [True]


async def _reset(client: NoetlClient, handle: RunHandle) -> None:
    """To the first workflow task, as ``temporal workflow reset --type FirstWorkflowTask`` does."""
    event_type = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    history = await handle.workflow.fetch_history()
    request = ResetWorkflowExecutionRequest(
        namespace=client.temporal.namespace,
        workflow_execution=WorkflowExecution(workflow_id=handle.workflow_id),
        reason="a test",
        request_id=uuid.uuid4().hex,
        workflow_task_finish_event_id=next(
            event.event_id for event in history.events if event.event_type == event_type
        ),
    )
    await client.temporal.workflow_service.reset_workflow_execution(request)


# ---- one attempt after the other, each as if the workflow had been reset ---------------------------------------------


class Attempts:
    """Of one call of the postgres tool."""

    def __init__(self, servers: Addresses, sql: str, *sinks: SinkCall) -> None:
        fields = {"dsn": servers.playbooks, "token": "hush-hush"}
        self._source = CredentialSource(environment={"NOETL_CREDENTIAL_PG": json.dumps(fields)})
        key = f"1/{uuid.uuid4().hex}"
        self.call = ToolCall(
            "c", key, "step", "task", "postgres", 1, "usual", {"query": sql}, auth="pg", sinks=sinks
        )  # fmt: skip

    async def attempt(self, limit: int = 1_000_000) -> ToolReport:
        store = ValueStore(data_converter(), limit)
        activity = tool_activity(load_tools()["postgres"], self._source, store)
        report: ToolReport = await ActivityEnvironment().run(activity, self.call)
        return report

    async def read_ledger(self, base: Base) -> str:
        return str(await base.fetch("select outcome from noetl_ledger.outcome where key = $1", self.call.key))


async def test_secrets_are_not_kept(servers: Addresses, base: Base) -> None:
    calls = Attempts(servers, f"insert into {base.calls} values (1); select 'the hush-hush' as text")
    first = await calls.attempt()
    assert "hush" not in await calls.read_ledger(base)
    assert (await calls.attempt()).outcome == first.outcome
    assert first.outcome["result"]["rows"] == [{"text": "the ***"}]
    assert await base.count(base.calls) == 1


async def test_an_outcome_that_is_too_large_is_stored_as_the_error(servers: Addresses, base: Base) -> None:
    calls = Attempts(servers, f"insert into {base.calls} values (1); select repeat('x', 5000) as text")
    for _ in range(2):
        assert (await calls.attempt(limit=2000)).outcome["error"]["kind"] == "too_large"
    assert len(await calls.read_ledger(base)) < 2000
    assert await base.count(base.calls) == 1


async def test_a_failed_sink_is_done_again_without_the_statements(servers: Addresses, base: Base) -> None:
    sink = SinkCall("postgres", Value({"table": base.rows, "data": [{"n": 1}]}), f"1/{uuid.uuid4().hex}", auth="pg")
    calls = Attempts(servers, f"insert into {base.calls} values (1)", sink)
    await base.fetch(f"alter table {base.rows} rename to {base.rows}_away")
    assert (await calls.attempt()).outcome["status"] == "error"
    await base.fetch(f"alter table {base.rows}_away rename to {base.rows}")
    report = await calls.attempt()
    assert (report.outcome["status"], report.attempts[-1].is_reused) == ("ok", True)
    assert (await base.count(base.calls), await base.count(base.rows)) == (1, 1)
