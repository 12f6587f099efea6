"""Stored lists that a playbook passes to one that it calls: by reference, never loaded by the caller."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import reading_converter
from noetl_temporal.inspection.replay import histories_of, replay
from noetl_temporal.messages.run_input import RunInput
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads import payload_store, stored_lists, stored_values
from noetl_temporal.payloads.payload_store import PayloadStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_execution
from tests.shell.test_stored_results import loads_in
from tests.shell.test_sub_playbooks import book, caller, children

ROWS = [{"n": number, "text": "x" * 20} for number in range(50)]
CALLER = """\
  - step: load
    tool: {kind: duckdb, query: SELECT 1}
    next: {arcs: [{step: call}]}
  - step: call
    tool: {kind: playbook, path: PATH, input: INPUT}
"""
INPUT = '{rows: "{{ load.rows }}", deep: {rows: "{{ load.rows }}", n: 1}, other: "{{ load.row_count }}"}'
CALLEE = """\
workload: WORKLOAD
workflow:
  - step: start
    tool: {kind: noop, input: {n: "READ"}}
"""
TWO_STEPS = (
    CALLEE.replace("READ", "{{ rows[1].n }}")
    + """\
    next: {arcs: [{step: next}]}
  - step: next
    tool: {kind: noop, input: {n: "READ"}}
"""
)
READS = {
    "nothing": ("done", "done"),
    "the list": ("{{ workload.rows | length }} {{ rows[49].n }} {{ payload.rows[1].text }}", f"50 49 {'x' * 20}"),
    "a list below a mapping": ("{{ workload.deep.rows | length }} {{ deep.n }} {{ other }}", "50 1 50"),
    "the request": ("{{ payload }}", {"rows": ROWS, "deep": {"rows": ROWS, "n": 1}, "other": 50}),
}
DEFAULTS = {"plain defaults": "{rows: null}", "a default that reads the list": "{rows: null, last: '{{ rows[49].n }}'}"}


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and lists of this size are large, and no process caches them."""
    monkeypatch.setattr(stored_lists, "LARGE_BYTES", 1_000)
    monkeypatch.setattr(stored_lists, "PAGE_ITEMS", 20)
    monkeypatch.setattr(stored_values, "STORE_FROM_BYTES", 1_000)
    monkeypatch.setattr("noetl_temporal.payloads.value_store.STORE_FROM_BYTES", 1_100)
    monkeypatch.setattr("noetl_temporal.machine.loops.chunks.CHUNK_ITEMS", 8)
    monkeypatch.setattr(payload_store, "CACHE_BYTES", 0)


@asynccontextmanager
async def serving_client(servers: Addresses, rows: list[Any] = ROWS) -> AsyncGenerator[NoetlClient]:
    def answer(request: Request, _context: ToolContext) -> Any:
        return request.input.get("n", {"rows": rows, "columns": ["n", "text"], "row_count": 50})

    await migrate(servers.postgres)
    tools = {name: FakeTool(name, answer) for name in ("noop", "duckdb")}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        yield client


async def submit(
    client: NoetlClient,
    read: str = "done",
    workload: str = "{}",
    text: str = CALLER,
    input_: str = INPUT,
    callee: str = CALLEE,
) -> RunHandle:
    graph = caller(text.replace("INPUT", input_).replace("PATH", "tests/callee"))
    called_graph = book("tests/callee", callee.replace("WORKLOAD", workload).replace("READ", read))
    return await client.submit(graph, {}, playbooks={"tests/callee": called_graph})


async def callee_of(client: NoetlClient, handle: RunHandle) -> str:
    [workflow_id] = {run.id for run in await children(client, handle)}
    return str(workflow_id)


async def history_of(client: NoetlClient, workflow_id: str) -> WorkflowHistory:
    return await client.temporal.get_workflow_handle(workflow_id).fetch_history()


@pytest.fixture
def keys_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of all values that were read from the payload store."""
    keys: list[str] = []
    retrieve = PayloadStore.retrieve

    async def counted(self: PayloadStore, context: Any, claims: Any) -> Any:
        keys.extend(claim.claim_data["key"] for claim in claims)
        return await retrieve(self, context, claims)

    monkeypatch.setattr(PayloadStore, "retrieve", counted)
    return keys


async def test_a_list_that_nobody_reads_is_never_loaded(servers: Addresses, keys_read: list[str]) -> None:
    async with serving_client(servers) as client:
        handle = await submit(client)
        assert (await handle.result()).result == "done"
        callee = await history_of(client, await callee_of(client, handle))
        read = set(keys_read)
    started = callee.events[0].workflow_execution_started_event_attributes
    converter = await reading_converter(servers.postgres)
    [run_input] = await converter.decode(started.input.payloads[:1], [RunInput])
    assert run_input.payload == {"rows": None, "deep": {"rows": None, "n": 1}, "other": 50}
    assert run_input.stored_payload.keys() == {"/rows", "/deep/rows"}
    pages = {part.key for reference in run_input.stored_payload.values() for part in reference.parts}
    assert len(pages) == 3
    assert pages.isdisjoint(read)


@pytest.mark.parametrize("workload", DEFAULTS.values(), ids=DEFAULTS)
@pytest.mark.parametrize("read", READS)
async def test_the_called_playbook_sees_the_values_and_the_caller_loads_none(
    servers: Addresses, read: str, workload: str
) -> None:
    template, expected = READS[read]
    async with serving_client(servers) as client:
        handle = await submit(client, template, workload)
        report = await handle.result()
        assert (report.status, report.result) == ("completed", expected)
        callee_id = await callee_of(client, handle)
        assert loads_in(await handle.workflow.fetch_history()) == 0
        assert (loads_in(await history_of(client, callee_id)) > 0) == (read != "nothing" or "last" in workload)
        for workflow_id in (handle.workflow_id, callee_id):
            await follow_execution(client.temporal, servers.postgres, workflow_id)
            async for history in histories_of(client.temporal, workflow_id):
                assert (await replay(history, client.temporal.data_converter)).problem is None
    assert await audit_execution(servers.postgres, handle.execution_id) == []


async def test_the_called_run_owns_the_pages(servers: Addresses) -> None:
    """So they outlive a caller that is pruned earlier."""
    async with serving_client(servers) as client:
        handle = await submit(client)
        await handle.result()
        for workflow_id in (await callee_of(client, handle), handle.workflow_id):
            await follow_execution(client.temporal, servers.postgres, workflow_id)
    log = await asyncpg.connect(servers.postgres)
    try:
        owned = await log.fetchval(
            "SELECT count(*) FROM noetl.payload_owner AS callee JOIN noetl.execution AS e USING (execution_id) "
            "WHERE e.parent_execution_id = $1 AND callee.key IN "
            "(SELECT jsonb_array_elements_text(result->'reference'->'keys') FROM noetl.event "
            "WHERE execution_id = $1 AND event_type = 'step.done' AND node_name = 'load')",
            handle.execution_id,
        )
    finally:
        await log.close()
    assert owned == 3


async def test_a_path_that_reads_the_input_loads_it(servers: Addresses) -> None:
    text = CALLER.replace("path: PATH", "path: \"{{ 'tests/callee' if rows[49].n == 49 else 'no' }}\"")
    async with serving_client(servers) as client:
        handle = await submit(client, "{{ rows | length }}", text=text)
        assert (await handle.result()).result == 50
        assert loads_in(await handle.workflow.fetch_history()) == 1


async def test_each_item_of_a_stored_list_is_passed_on_without_loading_the_list(servers: Addresses) -> None:
    loop = """\
  - step: load
    tool: {kind: duckdb, query: SELECT 1}
    next: {arcs: [{step: call}]}
  - step: call
    loop: {in: "{{ load.rows }}", iterator: row, spec: {mode: parallel, max_in_flight: 8}}
    tool: {kind: playbook, path: PATH, input: {row: "{{ row }}"}}
"""
    async with serving_client(servers, ROWS) as client:
        handle = await submit(client, "{{ row.n }}", "{row: null}", loop)
        report = await handle.result()
        assert report.result["results"] == list(range(50))
        assert loads_in(await handle.workflow.fetch_history()) == 0


async def test_a_called_run_that_continues_as_new_keeps_the_references(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 12)
    async with serving_client(servers) as client:
        handle = await submit(client, "{{ workload.rows | length }}", callee=TWO_STEPS)
        assert (await handle.result()).result == 50
        callee_id = await callee_of(client, handle)
        runs = [history async for history in histories_of(client.temporal, callee_id)]
    assert len(runs) > 1


async def test_a_rerun_of_the_caller_passes_the_same_list(servers: Addresses) -> None:
    async with serving_client(servers) as client:
        handle = await submit(client, "{{ rows | length }}")
        await handle.result()
        rerun = await client.rerun(handle.execution_id, "call")
        assert (await rerun.result()).result == 50
        assert loads_in(await rerun.workflow.fetch_history()) == 0


async def test_a_called_run_that_is_cancelled_while_it_loads_ends_as_cancelled(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    retrieve, begun, released = PayloadStore.retrieve, asyncio.Event(), asyncio.Event()

    async def slow(self: PayloadStore, context: Any, claims: Any) -> Any:
        if _is_load():
            begun.set()
            await released.wait()
        return await retrieve(self, context, claims)

    monkeypatch.setattr(PayloadStore, "retrieve", slow)
    async with serving_client(servers) as client:
        handle = await submit(client, workload="{last: '{{ rows[49].n }}', rows: null}")
        async with asyncio.timeout(60):
            await begun.wait()
        await handle.cancel()
        released.set()
        assert (await handle.result()).status == "cancelled"
        callee = client.temporal.get_workflow_handle(await callee_of(client, handle))
        async with asyncio.timeout(60):
            while (status := (await callee.describe()).status) is WorkflowExecutionStatus.RUNNING:
                await asyncio.sleep(0.05)
    assert status is WorkflowExecutionStatus.CANCELED


def _is_load() -> bool:
    return activity.in_activity() and activity.info().activity_type == stored_values.LOAD


async def test_a_list_that_is_gone_fails_the_playbook_that_reads_it_at_its_start(servers: Addresses) -> None:
    mark = secrets.token_hex(8)
    wait = "wait}]}\n  - {step: wait, tool: {kind: wait, signal: go}, next: {arcs: [{step: call}]}}\n"
    text = CALLER.replace("call}]}\n", wait)
    async with serving_client(servers, [{"n": number, "mark": mark} for number in range(50)]) as client:
        handle = await submit(client, workload="{last: '{{ rows[49].n }}'}", text=text)
        await delete_values_with(servers, mark, count=3)
        await handle.signal("go")
        report = await handle.result()
    [failure] = report.failures.detailed
    assert (report.status, failure.kind) == ("failed", "template")
    assert "a stored value cannot be read" in failure.message


async def delete_values_with(servers: Addresses, mark: str, count: int) -> None:
    """Delete this many values that contain the mark, once they are stored."""
    connection = await asyncpg.connect(servers.postgres)
    try:
        async with asyncio.timeout(60):
            while count:
                status = await connection.execute(
                    "DELETE FROM noetl.payload WHERE position($1::bytea in data) > 0", mark.encode()
                )
                count -= int(status.split()[1])
                await asyncio.sleep(0.05)
    finally:
        await connection.close()
