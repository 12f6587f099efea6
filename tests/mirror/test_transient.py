"""A workflow task that is retried: the server shows events that history lacks, under ids that are used again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from noetl_temporal.mirror.service import follow_execution, mirroring
from tests.audit import audit_execution
from tests.mirror.conftest import Log, Scripts
from tests.mirror.scripted import IS_MENDED, OPENING, Json, call, closing, stamped_event

OK = {"report": {"outcome": {"status": "ok"}, "attempts": [{"number": 1, "started": 0, "ended": 40, "status": "ok"}]}}
STEP = stamped_event("step", "step.started", "fetch", "step", parent="workflow", meta={"step_run_id": "fetch#1"})
TASK = stamped_event("task", "task.started", "page", "http", parent="step", meta={"task_run_id": "fetch#1:page:1"})
ENDS = (
    stamped_event("", "task.done", "page", "http", "COMPLETED", parent="task", ends="task"),
    stamped_event("", "step.done", "fetch", "step", "COMPLETED", parent="step", ends="step"),
)
CRASH: Json = {"do": "crash", "why": "a bug"}


def _script(execution_id: int) -> list[Json]:
    """A call, then a task that fails until it is mended, then the end."""
    begins = call(execution_id, "task", OK, (*OPENING, STEP, TASK), id="fetch#1:page:1")
    return [begins, CRASH, {"do": "memo", "trail": (*ENDS, *closing())}]


@pytest.fixture(autouse=True)
def _break_store() -> Iterator[None]:
    IS_MENDED.clear()
    yield
    IS_MENDED.set()


async def _eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.02)


async def _until_tried_again(handle: WorkflowHandle[Any, Any]) -> None:
    """Until the server's answer ends with a task that is not in history."""

    async def has_retried() -> bool:
        last = (await handle.fetch_history()).events[-2:]
        return any(event.workflow_task_scheduled_event_attributes.attempt > 1 for event in last)

    await _eventually(has_retried)


async def _stored_events(log: Log, handle: WorkflowHandle[Any, Any]) -> list[bytes]:
    query = "SELECT proto FROM noetl.history WHERE workflow_id = $1 ORDER BY event_id"
    return [record["proto"] for record in await log.database.fetch(query, handle.id)]


async def test_a_run_that_is_terminated_while_its_task_is_tried_again_is_reported_to_its_end(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, *_script(execution_id))
    await _until_tried_again(handle)

    async def incident_is_open() -> bool:
        return ("incident.opened", "STARTED") in await log.story(execution_id)

    async def is_terminated() -> bool:
        return (await log.story(execution_id))[-1] == ("playbook.cancelled", "TERMINATED")

    async with mirroring(scripts.client, dsn):
        await _eventually(incident_is_open)
        await handle.terminate(reason="enough")
        await _eventually(is_terminated)
    query = "SELECT status FROM noetl.execution WHERE execution_id = $1"
    assert await log.database.fetchval(query, execution_id) == "TERMINATED"
    assert await _stored_events(log, handle) == [
        event.SerializeToString(deterministic=True) for event in (await handle.fetch_history()).events
    ]
    assert await audit_execution(dsn, execution_id) == []


async def test_a_task_that_is_tried_again_until_it_completes_is_stored_as_history_has_it(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, *_script(execution_id))
    await _until_tried_again(handle)
    following = asyncio.create_task(follow_execution(scripts.client, dsn, handle.id))

    async def incident_is_open() -> bool:
        return ("incident.opened", "STARTED") in await log.story(execution_id)

    await _eventually(incident_is_open)
    IS_MENDED.set()
    await following
    assert await _stored_events(log, handle) == [
        event.SerializeToString(deterministic=True) for event in (await handle.fetch_history()).events
    ]
    assert (await log.story(execution_id))[-1] == ("playbook.completed", "COMPLETED")
    assert await audit_execution(dsn, execution_id) == []
