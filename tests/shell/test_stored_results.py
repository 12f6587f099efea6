"""Large lists in the results of calls: a loop over one loads only the items that run."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from temporalio.client import WorkflowHistory

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads import stored_lists, stored_values
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_execution
from tests.shell.conftest import HEAD

ROWS = [{"n": number, "text": "x" * 20} for number in range(50)]
RESPONSE = {"status_code": 200, "headers": {"etag": "e"}, "url": "http://x", "elapsed": 0.1}
RESULTS: dict[str, tuple[str, Any, str, str]] = {
    "a list": ("noop", ROWS, "fetch", ""),
    "rows": ("duckdb", {"rows": ROWS, "columns": ["n", "text"], "row_count": 50}, "fetch.rows", "/rows"),
    "rows of a statement": ("duckdb", {"rows": ROWS, "row_count": 50}, "fetch.command_0.rows", "/rows"),
    "a list as a response": ("http", {**RESPONSE, "data": ROWS}, "fetch.data", "/data"),
    "a list in a response": ("http", {**RESPONSE, "data": {"found": ROWS, "n": 1}}, "fetch.data.found", "/data/found"),
    "a list in a body": ("http", {**RESPONSE, "data": {"found": ROWS, "n": 1}}, "fetch.found", "/data/found"),
}
"""The kind of the tool, its result, how a template reads the list, and its place in the result."""

LOOP = """\
workflow:
  - step: fetch
    tool: {kind: KIND, TASK}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ PATH }}", iterator: row, spec: {mode: parallel, max_in_flight: 8}FRAME}
    tool: {kind: noop, input: {n: "{{ row.n }}"}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, input: {n: "AFTER"}}
"""
TASKS = {"noop": "noop", "duckdb": "duckdb, query: SELECT 1", "http": "http, url: http://x"}
FRAMES = {"chunks": "", "frames": ", frame: {max_rows: 9}"}


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and lists of this size are large."""
    monkeypatch.setattr(stored_lists, "LARGE_BYTES", 1_000)
    monkeypatch.setattr(stored_lists, "PAGE_ITEMS", 20)
    monkeypatch.setattr(stored_values, "STORE_FROM_BYTES", 1_000)
    monkeypatch.setattr("noetl_temporal.payloads.value_store.STORE_FROM_BYTES", 1_100)
    monkeypatch.setattr("noetl_temporal.machine.loops.chunks.CHUNK_ITEMS", 8)


@asynccontextmanager
async def serving_client(servers: Addresses, kind: str, result: Any) -> AsyncGenerator[NoetlClient]:
    def answer(request: Request, _context: ToolContext) -> Any:
        return request.input.get("n", result)

    await migrate(servers.postgres)
    tools = {name: FakeTool(name, answer) for name in {"noop", kind}}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        yield client


def loads_in(history: WorkflowHistory) -> int:
    """How many stored values the workflow has loaded."""
    markers = [event.marker_recorded_event_attributes.details for event in history.events]
    data = [json.loads(one["data"].payloads[0].data) for one in markers if "data" in one]
    return [one["activity_type"] for one in data].count("noetl.load")


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("name", RESULTS)
async def test_a_loop_over_the_list_loads_nothing(servers: Addresses, name: str, frame: str) -> None:
    kind, result, path, place = RESULTS[name]
    text = HEAD + LOOP.replace("KIND, TASK", TASKS[kind]).replace("PATH", path).replace("FRAME", frame)
    text = text.replace("AFTER", "{{ each.stats.success }}")
    async with serving_client(servers, kind, result) as client:
        handle = await client.submit(compile_or_raise(text), {}, content=text)
        report = await handle.result()
        assert (report.status, report.result) == ("completed", 50)
        assert loads_in(await handle.workflow.fetch_history()) == 0
        await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
    assert await audit_execution(servers.postgres, handle.execution_id) == []
    log = await asyncpg.connect(servers.postgres)
    try:
        row = await log.fetchval(
            "SELECT result FROM noetl.event WHERE execution_id = $1 AND event_type = 'step.done' "
            "AND node_name = 'fetch'",
            handle.execution_id,
        )
        owned = await log.fetch("SELECT key FROM noetl.payload_owner WHERE execution_id = $1", handle.execution_id)
    finally:
        await log.close()
    reference = json.loads(row)["reference"]
    assert (reference["type"], reference.get("pointer", "")) == ("payload", place)
    assert json.dumps(result, separators=(",", ":")).startswith(reference["preview"])
    assert len(reference["keys"]) == 3
    assert set(reference["keys"]) <= {one["key"] for one in owned}


READS = {
    "a list": "{{ fetch | length }} {{ fetch[49].n }}",
    "rows": "{{ fetch.rows | length }} {{ fetch[49].n }}",
    "rows of a statement": "{{ fetch.data.command_0.rows | length }} {{ fetch.rows[49].n }}",
    "a list as a response": "{{ fetch.data | length }} {{ fetch.body[49].n }}",
    "a list in a response": "{{ fetch.data['found'] | length }} {{ fetch.data.found[49].n }}",
    "a list in a body": "{{ fetch.data.found | length }} {{ fetch.body.found[49].n }}",
}


@pytest.mark.parametrize("after", ["whole", "parts"])
@pytest.mark.parametrize("name", RESULTS)
async def test_templates_read_the_result_as_any_other(servers: Addresses, name: str, after: str) -> None:
    kind, result, path, _ = RESULTS[name]
    text = HEAD + LOOP.replace("KIND, TASK", TASKS[kind]).replace("PATH", path).replace("FRAME", "")
    text = text.replace("AFTER", READS[name] if after == "parts" else "{{ fetch }}")
    async with serving_client(servers, kind, result) as client:
        report = await (await client.submit(compile_or_raise(text), {}, content=text)).result()
    if after == "parts":
        assert report.result == "50 49"
    elif kind == "noop":
        assert report.result == result
    else:
        assert {key: report.result[key] for key in result} == result


@pytest.mark.parametrize(
    "result", [{"a": ROWS, "b": ROWS}, {"rows": ROWS, "text": "x" * 5_000}, {"parts": [ROWS, ROWS]}]
)
async def test_a_result_with_several_large_parts_is_one_value(servers: Addresses, result: Any) -> None:
    path = next(iter(result))
    text = HEAD + LOOP.replace("KIND, TASK", TASKS["duckdb"]).replace("PATH", f"fetch.{path}").replace("FRAME", "")
    text = text.replace("AFTER", "{{ fetch }}").replace("row.n", "row | length")
    async with serving_client(servers, "duckdb", result) as client:
        report = await (await client.submit(compile_or_raise(text), {}, content=text)).result()
    assert {key: report.result[key] for key in result} == result
