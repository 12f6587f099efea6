"""Large lists of a request: stored by the client, looped over by reference, loaded only where a template reads them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import reading_converter
from noetl_temporal.messages.run_input import RunInput
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads import stored_lists
from noetl_temporal.playbook_tests.recorded_runs import recorded_run
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_execution
from tests.shell.conftest import HEAD

ITEMS = [f"item {number}" for number in range(50)]
LOOP = """\
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 8}FRAME}
    tool: {kind: noop, input: {n: "{{ item }}"}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, input: {n: "{{ start.results | length }} {{ workload.items | length }} {{ payload.items[49] }}"}}
"""
CASES = {"chunks": "", "frames": ", frame: {max_rows: 9}"}
PLACES: dict[str, dict[str, Any]] = {
    "/items": {"items": ITEMS},
    "/a~1b/deep/items": {"a/b": {"deep": {"items": ITEMS, "n": 1}, "m": 2}},
}
"""Places of the list, with the request."""
AFTER = "50 50 item 49"


def answer(request: Request, _context: ToolContext) -> Any:
    return request.input["n"]


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of this size are large."""
    monkeypatch.setattr(stored_lists, "LARGE_BYTES", 100)
    monkeypatch.setattr(stored_lists, "PAGE_ITEMS", 20)
    monkeypatch.setattr("noetl_temporal.machine.loops.chunks.CHUNK_ITEMS", 8)


@asynccontextmanager
async def serving_client(servers: Addresses) -> AsyncGenerator[NoetlClient]:
    await migrate(servers.postgres)
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        yield client


async def submit(client: NoetlClient, frame: str = "", head: str = "", place: str = "/items", **more: Any) -> RunHandle:
    loop = LOOP if place == "/items" else re.sub(r"(workload|payload)\.items", r"\1['a/b'].deep.items", LOOP)
    text = f"{HEAD}{head}workflow:\n{loop.replace('FRAME', frame)}"
    return await client.submit(compile_or_raise(text), {**PLACES[place], "name": "x"}, content=text, **more)


async def input_of(servers: Addresses, handle: RunHandle) -> RunInput:
    started = (await handle.workflow.fetch_history()).events[0].workflow_execution_started_event_attributes
    converter = await reading_converter(servers.postgres)
    inputs: list[RunInput] = await converter.decode(started.input.payloads[:1], [RunInput])
    return inputs[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("frame", CASES.values(), ids=CASES)
async def test_a_loop_runs_over_the_list_and_templates_read_it(servers: Addresses, frame: str, place: str) -> None:
    async with serving_client(servers) as client:
        handle = await submit(client, frame, place=place)
        report = await handle.result()
        assert (report.status, report.result) == ("completed", AFTER)
        run_input = await input_of(servers, handle)
        assert run_input.payload == {**with_values_at(PLACES[place], {place: None}), "name": "x"}
        assert [(part.start, part.count) for part in run_input.stored_payload[place].parts] == [
            (0, 20),
            (0, 20),
            (0, 10),
        ]
        await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
        assert await audit_execution(servers.postgres, handle.execution_id) == []
        recorded_execution = await recorded_run(
            client.temporal, await reading_converter(servers.postgres), handle.workflow_id
        )
        assert recorded_execution.payload == {**PLACES[place], "name": "x"}


@pytest.mark.parametrize("place", PLACES)
async def test_the_event_log_owns_the_pages_and_has_their_size(servers: Addresses, place: str) -> None:
    async with serving_client(servers) as client:
        handle = await submit(client, place=place)
        await handle.result()
        await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
        reference = (await input_of(servers, handle)).stored_payload[place]
    log = await asyncpg.connect(servers.postgres)
    try:
        owned_keys = await log.fetch("SELECT key FROM noetl.payload_owner WHERE execution_id = $1", handle.execution_id)
        query = (
            "SELECT context FROM noetl.event WHERE execution_id = $1 AND event_type = 'playbook.execution.requested'"
        )
        context = msgspec.json.decode(await log.fetchval(query, handle.execution_id))
    finally:
        await log.close()
    assert {part.key for part in reference.parts} <= {row["key"] for row in owned_keys}
    size = {"_truncated": True, "_size": reference.bytes}
    assert context["workload"] == {**with_values_at(PLACES[place], {place: size}), "name": "x"}


@pytest.mark.parametrize("place", PLACES)
async def test_a_rerun_has_the_same_list(servers: Addresses, place: str) -> None:
    async with serving_client(servers) as client:
        handle = await submit(client, place=place)
        await handle.result()
        for step in ("after", "start"):
            report = await (await client.rerun(handle.execution_id, step)).result()
            assert (report.status, report.result) == ("completed", AFTER)


@pytest.mark.parametrize("place", PLACES)
async def test_a_run_that_continues_as_new_keeps_the_references(
    servers: Addresses, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 15)
    async with serving_client(servers) as client:
        handle = await submit(client, place=place)
        assert (await handle.result()).result == AFTER
        last = await input_of(servers, handle)
    reference = last.state["machine"]["stored_values"]
    assert len(reference["workload"][place]["parts"]) == 3
    assert reference["payload"] == reference["workload"]


async def test_a_key_means_the_whole_list(servers: Addresses) -> None:
    async with serving_client(servers) as client:
        first = await submit(client, key="stored request")
        same_run = await submit(client, key="stored request")
        assert (same_run.execution_id, same_run.is_new) == (first.execution_id, False)
        await first.result()


async def test_values_that_the_start_of_a_run_may_read_are_not_stored(servers: Addresses) -> None:
    head = "workload: {size: '{{ payload.items | length }}'}\n"
    async with serving_client(servers) as client:
        handle = await submit(client, head=head)
        assert (await handle.result()).result == AFTER
        run_input = await input_of(servers, handle)
    assert (run_input.payload["items"], run_input.stored_payload) == (ITEMS, {})


def test_a_page_has_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [["x" * size] for size in (1, 400, 3, 900, 900, 2, 1)]
    monkeypatch.setattr(stored_lists, "PAGE_BYTES", 1_000)
    pages = list(stored_lists.pages_of(items))
    assert [msgspec.json.decode(page.json) for page in pages] == [items[:3], items[3:4], items[4:]]
    assert [page.item_count for page in pages] == [3, 1, 3]
