"""A run that is reset in the middle of a chunked loop: every item once, and no call again that the ledger knows."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus, WorkflowHandle

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.inspection.replay import replay
from noetl_temporal.machine.loops import chunks
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.naming import LOOP_WORKFLOW
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_execution
from tests.shell.conftest import HEAD
from tests.shell.table import Base

CHUNK, ITEMS = 10, 60
HELD = (35, 36, 45, 46)
"""Items whose calls wait: two in each of the two chunks that are in flight, which are all that may run there."""

LOOP = """\
  - step: start
    loop: {in: "{{ range(ITEMS) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 4}}
    tool:
      - call:
          kind: noop
          input: {n: "{{ item }}"}
          sink: {tool: {kind: postgres, auth: pg_local, table: TABLE, data: {n: "{{ item }}"}}}
"""

FIRST_TASK_COMPLETED = 4
"""The id of the event with which the first workflow task of a workflow is completed."""

BEFORE = -1
"""Stands for the item in the calls of the two steps before a loop."""

STEPS_BEFORE = """\
  - step: start
    tool: {kind: noop, input: {n: -1}}
    next: {arcs: [{step: between}]}
  - step: between
    tool: {kind: noop, input: {n: -1}}
    next: {arcs: [{step: each}]}
"""


CALLS = f"""\
workflow:
  - step: start
    loop: {{in: [{BEFORE}, {BEFORE}, {HELD[0]}], iterator: item, spec: {{mode: sequential}}}}
    tool: {{kind: playbook, path: called/tests/shell, input: {{n: "{{{{ item }}}}"}}}}
"""
CALLED = """\
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: noop, input: {n: "{{ workload.n }}"}}
"""


class Tool:
    """Counts its calls. Those of HELD, and of BEFORE after the second, wait until they are let go or cancelled;
    ``waiting`` are those that do now.
    """

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.waiting: Counter[int] = Counter()
        self.let_go = asyncio.Event()

    async def __call__(self, request: Request, context: ToolContext) -> Any:
        del context
        n = request.input["n"]
        self.calls[n] += 1
        if n in HELD or (n == BEFORE and self.calls[n] > 2):
            self.waiting[n] += 1
            try:
                await self.let_go.wait()
            finally:
                self.waiting[n] -= 1
        return {"n": n}


async def test_a_run_reset_in_a_chunked_loop_runs_every_item_once(
    servers: Addresses, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three chunks are done and two in flight. Of these two the new run keeps what began before the point of the
    reset, and replaces the other.
    """
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", CHUNK)
    tool = Tool()
    tools = {"noop": FakeTool("noop", tool)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    text = f"{HEAD}workflow:\n{LOOP.replace('ITEMS', str(ITEMS)).replace('TABLE', base.table)}"
    source = CredentialSource(environment=servers.environment())
    async with asyncio.timeout(240), serving(client.temporal, tools, source):
        run = await client.submit(compile_or_raise(text), content=text)
        await all_wait(tool)
        assert len(tool.calls) == 3 * CHUNK + 2 * 7
        handle = await reset(client, run, await after_three_chunks(run))
        in_flight = await children_of(handle, 5)
        await until_only(client, run, in_flight)
        await all_wait(tool)
        tool.let_go.set()
        report = await handle.result()
        assert (report["status"], len(await children_of(handle, 6))) == ("completed", 6)
        loops = [loop async for loop in loops_of(client, run)]
        for case in (run.run_id, handle.run_id):
            await follow_execution(client.temporal, servers.postgres, run.workflow_id, case)
    assert await base.rows() == list(range(ITEMS))
    assert {n for n, count in tool.calls.items() if count > 1} <= set(HELD)
    assert max(tool.calls.values()) <= 2
    completed_ids = [run.run_id for run in loops if run.status == WorkflowExecutionStatus.COMPLETED]
    assert sorted(completed_ids) == sorted(await children_of(handle, 6))
    assert {run.status for run in loops if run.run_id not in completed_ids} == {WorkflowExecutionStatus.TERMINATED}
    assert await audit_execution(servers.postgres, run.execution_id) == []


@pytest.mark.parametrize("task", [0, 1], ids=["the first task", "a later task"])
async def test_chunks_that_began_after_the_point_of_a_reset_end(
    servers: Addresses, base: Base, monkeypatch: pytest.MonkeyPatch, task: int
) -> None:
    """Also while the new run has not come to the loop again."""
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", CHUNK)
    tool = Tool()
    tools = {"noop": FakeTool("noop", tool)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    loop = LOOP.replace("start", "each").replace("ITEMS", str(ITEMS)).replace("TABLE", base.table)
    text = f"{HEAD}workflow:\n{STEPS_BEFORE}{loop}"
    source = CredentialSource(environment=servers.environment())
    async with asyncio.timeout(240), serving(client.temporal, tools, source):
        run = await client.submit(compile_or_raise(text), content=text)
        await all_wait(tool)
        handle = await reset(client, run, task)
        await until_only(client, run, [])
        while tool.waiting != Counter({BEFORE: 1}):
            await asyncio.sleep(0.02)
        status_counts = Counter([loop.status async for loop in loops_of(client, run)])
        assert status_counts == {WorkflowExecutionStatus.COMPLETED: 3, WorkflowExecutionStatus.TERMINATED: 2}
        tool.let_go.set()
        assert (await handle.result())["status"] == "completed"
        assert len(await children_of(handle, 6)) == 6
        for case in (run.run_id, handle.run_id):
            await follow_execution(client.temporal, servers.postgres, run.workflow_id, case)
        assert (await replay(await handle.fetch_history(), client.temporal.data_converter)).problem is None
    assert await base.rows() == list(range(ITEMS))
    assert await audit_execution(servers.postgres, run.execution_id) == []


async def test_a_reset_of_an_ended_chunk_alone_has_no_effect(
    servers: Addresses, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its playbook has its report, so the new run would make calls that are in no result."""
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", CHUNK)
    tool = Tool()
    tools = {"noop": FakeTool("noop", tool)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    text = f"{HEAD}workflow:\n{LOOP.replace('ITEMS', str(ITEMS)).replace('TABLE', base.table)}"
    source = CredentialSource(environment=servers.environment())
    async with asyncio.timeout(240), serving(client.temporal, tools, source):
        run = await client.submit(compile_or_raise(text), content=text)
        await all_wait(tool)
        completed = WorkflowExecutionStatus.COMPLETED
        ended = await anext(loop async for loop in loops_of(client, run) if loop.status == completed)
        new = await reset_chunk(client, ended)
        while (description := await new.describe()).close_time is None:
            await asyncio.sleep(0.05)
        assert description.status == WorkflowExecutionStatus.TERMINATED
        tool.let_go.set()
        report = await run.result()
        assert (report.status, report.result["stats"]["success"]) == ("completed", ITEMS)
        await follow_execution(client.temporal, servers.postgres, run.workflow_id, run.run_id)
        await follow_execution(client.temporal, servers.postgres, new.id, new.run_id)
    assert await base.rows() == list(range(ITEMS))
    assert await audit_execution(servers.postgres, run.execution_id) == []


async def test_a_playbook_that_a_chunk_called_after_the_point_of_its_reset_ends(servers: Addresses) -> None:
    """Also while the new run of the chunk has not come to the item again."""
    tool = Tool()
    tools = {"noop": FakeTool("noop", tool)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    called = compile_or_raise(HEAD.replace("path: ", "path: called/") + CALLED)
    source = CredentialSource(environment=servers.environment())
    async with asyncio.timeout(240), serving(client.temporal, tools, source):
        run = await client.submit(compile_or_raise(HEAD + CALLS), playbooks={called.source.path: called})
        while tool.waiting != Counter({HELD[0]: 1}):
            await asyncio.sleep(0.02)
        chunk = await anext(loops_of(client, run))
        await reset_chunk(client, chunk)
        while tool.waiting != Counter({BEFORE: 1}):
            await asyncio.sleep(0.02)
        tool.let_go.set()
        assert (await run.result()).result["stats"]["success"] == 3
        assert tool.calls == Counter({BEFORE: 4, HELD[0]: 2})
        loops = {loop.run_id: loop.status async for loop in loops_of(client, run)}
        await follow_execution(client.temporal, servers.postgres, run.workflow_id, run.run_id)
        for run_id in loops:
            await follow_execution(client.temporal, servers.postgres, chunk.id, run_id)
    assert await audit_execution(servers.postgres, run.execution_id) == []


async def all_wait(tool: Tool) -> None:
    """Return once exactly the calls of the two chunks in flight wait."""
    while tool.waiting != dict.fromkeys(HELD, 1):
        await asyncio.sleep(0.02)


async def after_three_chunks(run: RunHandle) -> int:
    """The place among the workflow tasks of that which was told that the third chunk had ended."""
    history = await run.workflow.fetch_history()
    ends = [event for event in history.events if event.HasField("child_workflow_execution_completed_event_attributes")]
    return next(place for place, event_id in enumerate(await tasks_of(run)) if event_id > ends[2].event_id)


async def tasks_of(run: RunHandle) -> list[int]:
    """The ids of the events with which the workflow tasks of a run were completed."""
    history = await run.workflow.fetch_history()
    return [event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")]


async def reset(client: NoetlClient, run: RunHandle, task: int) -> WorkflowHandle[Any, Any]:
    """To this workflow task; the new run."""
    return await _reset(client, run.workflow_id, "", (await tasks_of(run))[task])


async def reset_chunk(client: NoetlClient, chunk: WorkflowExecution) -> WorkflowHandle[Any, Any]:
    """To its first workflow task; the new run."""
    return await _reset(client, chunk.id, chunk.run_id, FIRST_TASK_COMPLETED)


async def _reset(client: NoetlClient, workflow_id: str, run_id: str, event_id: int) -> WorkflowHandle[Any, Any]:
    request = ResetWorkflowExecutionRequest(
        namespace=client.temporal.namespace,
        workflow_execution=ExecutionName(workflow_id=workflow_id, run_id=run_id),
        reason="a test",
        request_id=uuid.uuid4().hex,
        workflow_task_finish_event_id=event_id,
    )
    answer = await client.temporal.workflow_service.reset_workflow_execution(request)
    return client.temporal.get_workflow_handle(workflow_id, run_id=answer.run_id)


async def children_of(handle: WorkflowHandle[Any, Any], count: int) -> list[str]:
    """The run ids of the children in the history of a run, once there are so many."""
    while True:
        history = await handle.fetch_history()
        matches = [
            event.child_workflow_execution_started_event_attributes.workflow_execution.run_id
            for event in history.events
            if event.HasField("child_workflow_execution_started_event_attributes")
        ]
        if len(matches) >= count:
            return matches
        await asyncio.sleep(0.05)


def loops_of(client: NoetlClient, run: RunHandle) -> AsyncIterator[WorkflowExecution]:
    """All runs of chunks, those of the run that was reset among them."""
    query = f"WorkflowType = '{LOOP_WORKFLOW}' AND WorkflowId STARTS_WITH '{run.workflow_id}/'"
    return client.temporal.list_workflows(query)


async def until_only(client: NoetlClient, run: RunHandle, run_ids: list[str]) -> None:
    """Return once no other chunk than these runs."""
    running = WorkflowExecutionStatus.RUNNING
    while {loop.run_id async for loop in loops_of(client, run) if loop.status == running}.difference(run_ids):
        await asyncio.sleep(0.05)
