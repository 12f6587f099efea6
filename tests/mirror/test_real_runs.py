"""Runs of the real workflows, stopped in every way while calls are in flight: each log is consistent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import RunHandle
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rows import fold, initial_state
from noetl_temporal.mirror.service import follow_execution, mirroring
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.stack.addresses import Addresses
from tests.audit import audit_execution
from tests.mirror.conftest import Log
from tests.mirror.resets import reset, superseded_events
from tests.shell.conftest import Shell

BRANCHES = """
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: many}]}
  - step: one
    tool: {kind: noop, input: {wait: true}}
  - step: many
    loop: {in: "{{ [0, 1, 2, 3] }}", iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: noop, input: {wait: "{{ iter.item > 0 }}"}}
"""
"""A call, and a loop of which an item is done, others have calls and one has not begun."""

Stop = Callable[[RunHandle], Awaitable[None]]


async def _cancel(run: RunHandle) -> None:
    await run.workflow.cancel()


async def _terminate(run: RunHandle) -> None:
    await run.workflow.terminate(reason="enough")


class _Tool:
    """Answers at once, or waits until it is cancelled or let go. ``waiting`` is set when as many calls wait."""

    def __init__(self, count: int) -> None:
        self.waiting, self.let_go = asyncio.Event(), asyncio.Event()
        self._left = count

    async def __call__(self, request: Request, context: ToolContext) -> Outcome:
        del context
        if not request.input.get("wait"):
            return Outcome("ok", {"n": 1})
        self._left -= 1
        if self._left == 0:
            self.waiting.set()
        await self.let_go.wait()
        return Outcome("error", error=ErrorInfo("exception", "no luck"))


@pytest.mark.parametrize(("stop", "status"), [(_cancel, "CANCELLED"), (_terminate, "TERMINATED"), (None, "FAILED")])
async def test_a_run_with_calls_in_flight_is_reported_to_its_end(
    stop: Stop | None, status: str, servers: Addresses, dsn: str, log: Log
) -> None:
    shell, tool = Shell(servers.temporal), _Tool(4)
    async with asyncio.timeout(90), shell.client(tool) as client:
        run = await shell.submit(client, BRANCHES)
        await tool.waiting.wait()
        if stop is None:
            tool.let_go.set()
        else:
            await stop(run)
        await follow_execution(client.temporal, dsn, run.workflow.id)
        tool.let_go.set()
    message = await log.database.fetchrow(
        "SELECT status FROM noetl.execution WHERE execution_id = $1", run.execution_id
    )
    assert message is not None
    assert message["status"] == status
    rows: list[dict[str, Any]] = await log.rows(run.execution_id)
    assert sum(row["event_type"].startswith("loop.iteration.") for row in rows) >= 6
    assert await audit_execution(dsn, run.execution_id) == []


async def test_a_run_that_is_reset_with_a_loop_in_flight_is_reported_to_its_end(
    servers: Addresses, dsn: str, log: Log
) -> None:
    shell, tool = Shell(servers.temporal), _Tool(4)
    async with asyncio.timeout(120), shell.client(tool) as client:
        run = await shell.submit(client, BRANCHES)
        await tool.waiting.wait()
        first = (await run.workflow.describe()).run_id
        reset_run = await reset(
            client.temporal, client.temporal.get_workflow_handle(run.workflow.id, run_id=first), first
        )
        tool.let_go.set()
        await follow_execution(client.temporal, dsn, run.workflow.id, first)
        await follow_execution(client.temporal, dsn, run.workflow.id, reset_run)
    message = await log.database.fetchrow(
        "SELECT status FROM noetl.execution WHERE execution_id = $1", run.execution_id
    )
    assert message is not None
    assert message["status"] == "FAILED"
    assert await audit_execution(dsn, run.execution_id) == []
    types = [event for event, _ in await log.story(run.execution_id)]
    assert types.count("loop.started") == 2
    assert types.count("playbook.resumed") == 1


FOUR = """
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: two}]}
  - step: two
    tool: {kind: noop}
    next: {arcs: [{step: three}]}
  - step: three
    tool: {kind: noop}
    next: {arcs: [{step: four}]}
  - step: four
    tool: {kind: noop}
"""


@pytest.mark.parametrize(
    ("first", "of_the_first_run", "then"),
    [(3, False, 1), (1, False, 3), (1, True, 3)],
    ids=["further back", "further on", "further on, of the first run"],
)
async def test_after_two_resets_the_rows_of_the_last_run_are_valid(
    first: int, of_the_first_run: bool, then: int, servers: Addresses, dsn: str, log: Log
) -> None:
    shell = Shell(servers.temporal)
    async with asyncio.timeout(120), shell.client(lambda _request, _context: 1) as client:
        run = await shell.submit(client, FOUR)
        await run.result()
        runs = [(await run.workflow.describe()).run_id]
        for task, base in ((first, 0), (then, 0 if of_the_first_run else 1)):
            handle = client.temporal.get_workflow_handle(run.workflow.id, run_id=runs[base])
            runs.append(await reset(client.temporal, handle, runs[base], task))
            await client.temporal.get_workflow_handle(run.workflow.id, run_id=runs[-1]).result()
        for workflow_run in runs:
            await follow_execution(client.temporal, dsn, run.workflow.id, workflow_run)
        last = client.temporal.get_workflow_handle(run.workflow.id, run_id=runs[-1])
        history = await last.fetch_history()
    events = {event.event_id: event for event in history.events}
    name = WorkflowRun("default", run.workflow.id, runs[-1], PLAYBOOK_WORKFLOW)
    ids = {row.event_id for row in fold(initial_state(name, events[1]), list(events.values()), events)}
    superseded_ids = await superseded_events(log.database, run.execution_id)
    assert superseded_ids
    assert {row["event_id"] for row in await log.rows(run.execution_id)} - superseded_ids == ids
    assert await audit_execution(dsn, run.execution_id) == []


async def test_a_loop_that_is_reset_by_hand_is_reported_to_its_end(servers: Addresses, dsn: str, log: Log) -> None:
    shell, tool = Shell(servers.temporal), _Tool(4)
    async with asyncio.timeout(120), shell.client(tool) as client, mirroring(client.temporal, dsn):
        run = await shell.submit(client, BRANCHES)
        await tool.waiting.wait()
        [child] = (await run.workflow.describe()).raw_description.pending_children
        handle = client.temporal.get_workflow_handle(child.workflow_id, run_id=child.run_id)
        await reset(client.temporal, handle, child.run_id)
        while ("loop.resumed", "RUNNING") not in await log.story(run.execution_id):
            await asyncio.sleep(0.05)
        tool.let_go.set()
        while (await log.story(run.execution_id))[-1] != ("playbook.failed", "FAILED"):
            await asyncio.sleep(0.05)
        while await audit_execution(dsn, run.execution_id):
            await asyncio.sleep(0.5)
    [resumed_row] = [row for row in await log.rows(run.execution_id) if row["event_type"] == "loop.resumed"]
    assert (resumed_row["node_name"], resumed_row["meta"]["reset"]["base_run_id"]) == ("many", child.run_id)
    assert resumed_row["meta"]["reset"]["reason"] == "once more"
