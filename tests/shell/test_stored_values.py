"""Large values on the real stack: a run copies none of them, loads what a template reads, and waits while it cannot."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import HEAD, history_of
from .servers import proxy_to

LARGE = 200_000

ROUNDS = """
  - step: start
    tool: {kind: noop, message: large}
    next: {arcs: [{step: again, set: {ctx.n: 0}}]}
  - step: again
    tool: {kind: noop, message: "{{ ctx.n }}"}
    set: {ctx.n: "{{ ctx.n + 1 }}"}
    next: {arcs: [{step: again, when: "{{ ctx.n < 30 }}"}, {step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ start | length }}"}
"""
REQUEST_STEPS = """
  - step: start
    tool: {kind: noop, message: 0}
    next: {arcs: [{step: again, set: {ctx.n: 0, ctx.copy: "{{ workload.text }}!"}}]}
  - step: again
    tool: {kind: noop, message: "{{ ctx.n }}"}
    set: {ctx.n: "{{ ctx.n + 1 }}"}
    next: {arcs: [{step: again, when: "{{ ctx.n < 30 }}"}, {step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ workload.text | length }} {{ ctx.copy | length }}"}
"""
LOOP = """
  - step: start
    loop: {in: "{{ range(900) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 50}FRAME}
    tool: {kind: noop, message: "{{ iter.item }} {{ workload.text }}"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, message: "{{ start.results | map('length') | sum }} of {{ start.stats.success }}"}
"""


def answer(request: Request, _context: ToolContext) -> Any:
    return "x" * LARGE if request.config["message"] == "large" else request.config["message"]


async def submit(client: NoetlClient, workflow: str, **payload: Any) -> RunHandle:
    return await client.submit(compile_or_raise(f"{HEAD}workload: {{text: ''}}\nworkflow:\n{workflow}"), payload)


def has_small_input(history: WorkflowHistory) -> bool:
    """Whether what the run began with, its state above all, is small enough to stand in history itself."""
    run_input, _graph = history.events[0].workflow_execution_started_event_attributes.input.payloads
    return "messageType" not in run_input.metadata and run_input.ByteSize() < 10_000


async def histories_of_all(client: NoetlClient, handle: RunHandle) -> list[WorkflowHistory]:
    """Of the run and of those that it continued as, in order."""
    histories: list[WorkflowHistory] = []
    run_id: str | None = None
    while run_id != "":
        workflow = client.temporal.get_workflow_handle(handle.workflow_id, run_id=run_id)
        histories.insert(0, await workflow.fetch_history())
        run_id = histories[0].events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return histories


def markers(history: WorkflowHistory) -> list[str]:
    """The local activities of the run."""
    details = [event.marker_recorded_event_attributes.details for event in history.events]
    return [json.loads(entry["data"].payloads[0].data)["activity_type"] for entry in details if "data" in entry]


async def test_no_continued_run_has_a_large_result_in_its_state(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await submit(client, ROUNDS)
        result = await handle.result()
        last = await client.temporal.get_workflow_handle(handle.workflow_id).fetch_history()
    assert result.result == LARGE
    assert last.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    assert has_small_input(last)
    assert markers(last) == ["noetl.load"]


async def test_continued_runs_copy_no_large_value_of_the_request_or_of_set(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored before the first run continues as new, and loaded where a template reads it."""
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await submit(client, REQUEST_STEPS, text="t" * LARGE)
        result = await handle.result()
        runs = await histories_of_all(client, handle)
    assert result.result == f"{LARGE} {LARGE + 1}"
    assert len(runs) > 2
    assert all(map(has_small_input, runs[1:]))
    assert [markers(history_run) for history_run in runs] == [
        ["noetl.store"],
        *([[]] * (len(runs) - 2)),
        ["noetl.load"] * 2,
    ]


async def test_a_run_that_writes_and_reads_large_values_all_the_time_continues_as_new_in_time(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being stored or loaded is waited for, however often it comes."""
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    workflow = REQUEST_STEPS.replace(
        '{ctx.n: "{{ ctx.n + 1 }}"}', '{ctx.n: "{{ ctx.n + 1 }}", ctx.copy: "{{ workload.text }}!"}'
    )
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await submit(client, workflow, text="t" * LARGE)
        result = await handle.result()
        runs = await histories_of_all(client, handle)
    assert result.result == f"{LARGE} {LARGE + 1}"
    assert len(runs) > 2
    assert all(len(event.events) < 120 and has_small_input(event) for event in runs[1:])


@pytest.mark.parametrize("frame", ["", ", frame: {max_rows: 300}"])
async def test_the_playbook_s_run_of_a_long_loop_has_neither_items_nor_results(servers: Addresses, frame: str) -> None:
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    text = "t" * 200
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await submit(client, LOOP.replace("FRAME", frame), text=text)
        result = await handle.result()
        history = await history_of(handle)
    digits = 10 + 90 * 2 + 800 * 3
    assert result.result == f"{900 * 201 + digits} of 900"
    assert markers(history) == ["noetl.store", "noetl.load"]
    assert sum(len(event.SerializeToString()) for event in history.events) < 40_000


async def test_a_run_waits_for_a_store_that_is_unavailable_and_calls_nothing_again(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is where another process stored the value: this one has not cached it."""
    monkeypatch.setattr("noetl_temporal.payloads.payload_store.CACHE_BYTES", 0)
    calls: list[Any] = []
    is_answered, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(request: Request, context: ToolContext) -> Any:
        calls.append(request.config["message"])
        if calls[-1] == 0:
            is_answered.set()
            await may_answer.wait()
        return answer(request, context)

    tools = {"noop": FakeTool("noop", slow)}
    workflow = ROUNDS.replace("ctx.n < 30", "ctx.n < 1")
    async with proxy_to(servers.postgres) as proxy:
        client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
        distant = await NoetlClient.connect(servers.temporal, dsn=proxy.dsn, tools=tools)
        async with serving(distant.temporal, tools, CredentialSource(environment={})):
            handle = await submit(client, workflow)
            await is_answered.wait()
            await proxy.disconnect()
            may_answer.set()
            await asyncio.sleep(3)
            assert calls == ["large", 0]
            await proxy.restore()
            result = await handle.result()
    assert result.result == LARGE
    assert calls == ["large", 0, LARGE]
