"""Every run reaches a last row, however it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from noetl_temporal.mirror.service import follow_execution
from tests.mirror.conftest import Log, Scripts
from tests.mirror.scripted import call, domain_event

LONG = {"do": "sleep", "seconds": 60}
STARTED = domain_event("playbook.execution.requested", 1, "PENDING")


async def _status(log: Log, execution_id: int) -> tuple[str, str | None]:
    query = "SELECT status, error FROM noetl.execution WHERE execution_id = $1 AND end_time IS NOT NULL"
    record = await log.database.fetchrow(query, execution_id)
    assert record is not None
    return record["status"], record["error"]


async def test_what_the_result_carries_is_told(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    ends = (domain_event("step.done", 1, "COMPLETED"), domain_event("playbook.completed", 2, "COMPLETED"))
    handle = await scripts.start(execution_id, {"do": "sleep", "seconds": 0, "trail": ends})
    await follow_execution(scripts.client, dsn, handle.id)
    assert await log.story(execution_id) == [("step.done", "COMPLETED"), ("playbook.completed", "COMPLETED")]
    assert await _status(log, execution_id) == ("COMPLETED", None)


async def test_what_the_failure_carries_is_told(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    end = domain_event("playbook.failed", 1, "FAILED", error="no luck")
    handle = await scripts.start(execution_id, {"do": "fail", "why": "PlaybookFailed", "trail": (end,)})
    await follow_execution(scripts.client, dsn, handle.id)
    [row] = await log.rows(execution_id)
    assert (row["event_type"], row["error"], row["meta"]["error"]["message"]) == (
        "playbook.failed",
        "no luck",
        "no luck",
    )
    assert await _status(log, execution_id) == ("FAILED", "no luck")


async def test_what_the_memo_carries_is_told(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    memo = {"do": "memo", "trail": (STARTED, domain_event("playbook.cancelled", 2, "CANCELLED"))}
    handle = await scripts.start(execution_id, memo, LONG)
    await handle.cancel()
    await follow_execution(scripts.client, dsn, handle.id)
    assert [event for event, _ in await log.story(execution_id)] == [
        "playbook.execution.requested",
        "playbook.cancelled",
    ]


async def _terminate(handle: WorkflowHandle[Any, Any]) -> None:
    await handle.terminate(reason="enough")


async def _cancel(handle: WorkflowHandle[Any, Any]) -> None:
    await handle.cancel()


async def _wait(_: WorkflowHandle[Any, Any]) -> None:
    """Until its time is up."""


@pytest.mark.parametrize(
    ("stop", "options", "event", "error"),
    [
        (_terminate, {}, "playbook.cancelled", "the workflow was terminated: enough"),
        (_cancel, {}, "playbook.cancelled", "the workflow was cancelled"),
        (_wait, {"execution_timeout": timedelta(seconds=1)}, "playbook.failed", "the workflow did not end in its time"),
    ],
)
async def test_a_run_that_cannot_tell_its_end_has_one(
    stop: Any, options: Any, event: str, error: str, scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    answer = {"report": {"outcome": {"status": "ok"}}}
    handle = await scripts.start(execution_id, call(execution_id, 1, answer, (STARTED,)), LONG, **options)
    await stop(handle)
    await follow_execution(scripts.client, dsn, handle.id)
    last = (await log.rows(execution_id))[-1]
    assert (last["event_type"], last["error"]) == (event, error)
    assert await _status(log, execution_id) == (event.removeprefix("playbook.").upper(), error)


async def test_a_run_whose_workflow_breaks_has_failed(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    handle = await scripts.start(execution_id, {"do": "break", "why": "a bug"})
    await follow_execution(scripts.client, dsn, handle.id)
    assert await _status(log, execution_id) == ("FAILED", "a bug")


async def test_a_run_that_continues_as_new_is_one_story(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    end = {"do": "sleep", "seconds": 0, "trail": (domain_event("playbook.completed", 3, "COMPLETED"),)}
    middle = domain_event("step.started", 2)
    handle = await scripts.start(execution_id, {"do": "continue", "trail": (STARTED, middle), "script": [end]})
    await follow_execution(scripts.client, dsn, handle.id, handle.first_execution_run_id)
    assert [event for event, _ in await log.story(execution_id)] == [
        "playbook.execution.requested",
        "step.started",
        "playbook.completed",
    ]


async def test_a_reset_run_goes_on_and_repeats_nothing(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    first = call(execution_id, 1, {"report": {"outcome": {"status": "ok"}}}, (STARTED,))
    handle = await scripts.start(execution_id, first, {"do": "sleep", "seconds": 1})
    await handle.result()
    await follow_execution(scripts.client, dsn, handle.id)
    run_id = await _reset(scripts.client, handle)
    await scripts.client.get_workflow_handle(handle.id, run_id=run_id).result()
    await follow_execution(scripts.client, dsn, handle.id, run_id)
    assert [event for event, _ in await log.story(execution_id)] == [
        "playbook.execution.requested",
        "task.attempt.started",
        "task.attempt.done",
        "playbook.completed",
        "playbook.resumed",
        "playbook.completed",
    ]


async def test_the_run_that_a_reset_replaces_does_not_end_the_playbook(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    first = call(execution_id, 1, {"report": {"outcome": {"status": "ok"}}}, (STARTED,))
    handle = await scripts.start(execution_id, first, {"do": "sleep", "seconds": 2})
    await _until_event(handle, "EVENT_TYPE_TIMER_STARTED")
    run_id = await _reset(scripts.client, handle)
    await follow_execution(scripts.client, dsn, handle.id, handle.first_execution_run_id)
    assert "playbook.cancelled" not in dict(await log.story(execution_id))
    await follow_execution(scripts.client, dsn, handle.id, run_id)
    assert (await log.story(execution_id))[-2:] == [
        ("playbook.resumed", "RUNNING"),
        ("playbook.completed", "COMPLETED"),
    ]


async def _until_event(handle: WorkflowHandle[Any, Any], name: str) -> None:
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.Value(name):
            return


async def _reset(client: Client, handle: WorkflowHandle[Any, Any]) -> str:
    """Reset to where the first call had ended; the new run's id."""
    history = await handle.fetch_history()
    done = [event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")]
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or ""),
            reason="once more",
            workflow_task_finish_event_id=done[1],
            request_id=handle.id,
        )
    )
    return answer.run_id
