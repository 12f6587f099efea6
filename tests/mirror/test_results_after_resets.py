"""Results that rows leave out are filled in from the history of their own run, not from that of another reset."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any, Literal

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from noetl_activities.tool import Request, ToolContext
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.store import Store, open_store
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.stack.addresses import Addresses
from tests.mirror.conftest import Log
from tests.mirror.resets import reset
from tests.shell.conftest import Shell

CALL_ENDED: Literal["activity_task_completed_event_attributes"] = "activity_task_completed_event_attributes"
WORKFLOW = """
  - step: start
    tool: {kind: noop, input: {n: 0}}
    next: {spec: {mode: inclusive}, arcs: [{step: x}, {step: y}]}
  - step: x
    tool: {kind: noop, input: {x: 1}}
    next: {arcs: [{step: w}]}
  - step: y
    tool: {kind: noop, input: {n: 1}}
    next: {arcs: [{step: w}]}
  - step: w
    tool: {kind: noop, input: {n: 2}}
"""


@pytest.fixture(autouse=True)
def _postgres_of_values(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)


async def test_two_resets_of_one_run_have_the_results_of_their_own_histories(
    servers: Addresses, dsn: str, log: Log
) -> None:
    tries = count(1)

    has_y_ended = asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        if "x" in request.input:
            await has_y_ended.wait()  # so that the first reset repeats x and the second does not
            return {"try": next(tries), "text": "x" * 100}
        return request.input["n"]

    shell = Shell(servers.temporal)
    async with shell.client(answer) as client:
        run = await shell.submit(client, WORKFLOW)
        temporal, id_ = client.temporal, run.workflow_id
        first = (await temporal.get_workflow_handle(id_).describe()).run_id
        await _until_calls_have_ended(temporal, id_, first, 2)
        has_y_ended.set()
        await run.result()
        runs = [first]
        for task in await _tasks_after_calls(temporal, id_, first):
            handle = temporal.get_workflow_handle(id_, run_id=first)
            runs.append(await reset(temporal, handle, first, task))
            await temporal.get_workflow_handle(id_, run_id=runs[-1]).result()
        async with open_store(dsn, temporal.data_converter) as store:
            for run_id in runs:
                await _mirror_in_two_batches(store, temporal, id_, run_id)
    rows = await log.everything()
    assert _tries_by_run(rows) == {runs[0]: {1}, runs[1]: {2}, runs[2]: {1}}
    await rebuild(dsn, temporal.data_converter)
    assert await log.everything() == rows


async def _tasks_after_calls(temporal: Client, id_: str, run_id: str) -> list[int]:
    """Return the numbers of the workflow tasks after the second call of the run, and after the third."""
    kinds = [event.WhichOneof("attributes") for event in await _events(temporal, id_, run_id)]
    calls = [index for index, kind in enumerate(kinds) if kind == CALL_ENDED]
    tasks = [index for index, kind in enumerate(kinds) if kind == "workflow_task_completed_event_attributes"]
    return [next(number for number, task in enumerate(tasks) if task > call) for call in calls[1:3]]


async def _until_calls_have_ended(temporal: Client, id_: str, run_id: str, number: int) -> None:
    async with asyncio.timeout(60):
        while [event.HasField(CALL_ENDED) for event in await _events(temporal, id_, run_id)].count(True) < number:
            await asyncio.sleep(0.05)


async def _mirror_in_two_batches(store: Store, temporal: Client, id_: str, run_id: str) -> None:
    events = await _events(temporal, id_, run_id)
    tasks = (event.HasField("workflow_task_completed_event_attributes") for event in events)
    last = max(index for index, is_task in enumerate(tasks) if is_task)
    run = WorkflowRun(temporal.namespace, id_, run_id, PLAYBOOK_WORKFLOW)
    await store.ingest(run, events[:last])
    await store.ingest(run, events[last:])


async def _events(temporal: Client, id_: str, run_id: str) -> list[HistoryEvent]:
    history = await temporal.get_workflow_handle(id_, run_id=run_id).fetch_history()
    return list(history.events)


def _tries_by_run(rows: list[Any]) -> dict[str, set[int]]:
    """Return which tries of x the rows of each run show: its own row, and that of the end."""
    tries: dict[str, set[int]] = {}
    for row in rows:
        if row["event_type"] == "step.done" and row["node_name"] in ("x", "end"):
            context = json.loads(row["result"])["context"]
            result = context if row["node_name"] == "x" else context["results"]["x"]
            tries.setdefault(row["stream_id"].rsplit("/", 1)[1], set()).add(result["try"])
    return tries
