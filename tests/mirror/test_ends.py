"""Every run reaches a last row, however it ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.service import follow_execution
from tests.audit import audit_execution
from tests.mirror.conftest import Log, Scripts
from tests.mirror.resets import reset
from tests.mirror.scripted import OPENING, Json, call, closing, domain_event, loop_run, stamped_event

OK = {"report": {"outcome": {"status": "ok"}, "attempts": [{"number": 1, "started": 0, "ended": 40, "status": "ok"}]}}
LATE_REASON = "the workflow timed out"
LONG: Json = {"do": "sleep", "seconds": 60}
STARTED = domain_event("playbook.execution.requested", 1, "PENDING")
TASK = stamped_event("task", "task.started", "page", "http", parent="step", meta={"task_run_id": "fetch#1:page:1"})
TASK_ENDS = stamped_event("", "task.done", "page", "http", "COMPLETED", parent="task", ends="task")
START_EVENTS: tuple[Json, ...] = (
    {
        "do": "memo",
        "trail": (
            TASK_ENDS,
            stamped_event("loop", "loop.started", "fetch", "loop", parent="step"),
            stamped_event("task2", "task.started", "page", "http", parent="step"),
        ),
    },
    LONG,
)
"""A call has ended; a loop and a task of the step are open."""


def _call(execution_id: int) -> Json:
    """The line with which a playbook begins that calls a tool."""
    step = stamped_event("step", "step.started", "fetch", "step", parent="workflow", meta={"step_run_id": "fetch#1"})
    return call(execution_id, "task", OK, (*OPENING, step, TASK), id="fetch#1:page:1")


def _loop(execution_id: int) -> Json:
    """A loop of which an iteration has called a tool, and another has begun a task."""
    start_events = (
        stamped_event("one", "loop.iteration.started", "fetch", "iteration", parent="loop", meta={"iteration": 0}),
        stamped_event("task", "task.started", "page", "http", parent="one"),
    )
    more = (
        stamped_event("two", "loop.iteration.started", "fetch", "iteration", parent="loop", meta={"iteration": 1}),
        stamped_event("task2", "task.started", "page", "http", parent="two"),
    )
    call_history = call(execution_id, "task", OK, start_events, id="fetch/1:0:page:1")
    run = loop_run(execution_id, [call_history, {"do": "memo", "trail": (TASK_ENDS, *more)}, LONG], event_id="loop")
    return {
        "do": "loop",
        "run": run,
        "trail": (TASK_ENDS, stamped_event("loop", "loop.started", "fetch", "loop", parent="step")),
    }


async def _status(log: Log, execution_id: int) -> tuple[str, str | None]:
    query = "SELECT status, error FROM noetl.execution WHERE execution_id = $1 AND end_time IS NOT NULL"
    record = await log.database.fetchrow(query, execution_id)
    assert record is not None
    return record["status"], record["error"]


async def test_events_in_the_result_are_logged(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    ends = (domain_event("step.done", 1, "COMPLETED"), domain_event("playbook.completed", 2, "COMPLETED"))
    handle = await scripts.start(execution_id, {"do": "sleep", "seconds": 0, "trail": ends})
    await follow_execution(scripts.client, dsn, handle.id)
    assert await log.story(execution_id) == [("step.done", "COMPLETED"), ("playbook.completed", "COMPLETED")]
    assert await _status(log, execution_id) == ("COMPLETED", None)


async def test_events_in_the_failure_are_logged(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
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


async def test_events_in_the_memo_are_logged(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
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
        (_terminate, {}, "cancelled TERMINATED", "the workflow was terminated: enough"),
        (_cancel, {}, "cancelled CANCELLED", "the workflow was cancelled"),
        (
            _wait,
            {"execution_timeout": timedelta(seconds=5)},
            "failed TIMED_OUT",
            "the workflow timed out",
        ),
    ],
)
async def test_a_run_that_cannot_report_its_end_ends_all_that_it_had_begun(
    stop: Any, options: Any, event: str, error: str, scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, _call(execution_id), *START_EVENTS, **options)
    await _until_event(handle, "EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED")
    await stop(handle)
    await follow_execution(scripts.client, dsn, handle.id)
    word, status = event.split()
    story = await log.story(execution_id)
    assert story[-5:] == [
        ("task.cancelled", "CANCELLED"),
        ("loop.cancelled", "CANCELLED"),
        ("step.cancelled", "CANCELLED"),
        ("workflow.finished", status),
        (f"playbook.{word}", status),
    ]
    assert await _status(log, execution_id) == (status, error)
    assert await audit_execution(dsn, execution_id) == []


async def test_a_run_whose_workflow_breaks_has_failed(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    handle = await scripts.start(execution_id, _call(execution_id), *START_EVENTS[:-1], {"do": "break", "why": "a bug"})
    await follow_execution(scripts.client, dsn, handle.id)
    assert await _status(log, execution_id) == ("FAILED", "a bug")
    assert await audit_execution(dsn, execution_id) == []


async def test_a_run_that_is_stopped_after_it_continued_ends_what_the_run_before_began(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    lines = {"do": "continue", "trail": START_EVENTS[0]["trail"], "script": [LONG]}
    handle = await scripts.start(execution_id, _call(execution_id), lines)
    latest = scripts.client.get_workflow_handle(handle.id)
    await _until_continued(latest, handle.first_execution_run_id)
    await latest.terminate(reason="enough")
    await follow_execution(scripts.client, dsn, handle.id)
    assert await audit_execution(dsn, execution_id) == []
    assert (await _status(log, execution_id))[0] == "TERMINATED"
    before = await log.everything()
    await rebuild(dsn)
    assert await log.everything() == before


async def test_a_loop_of_a_stopped_run_ends_its_iterations(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, _call(execution_id), _loop(execution_id))
    child = scripts.client.get_workflow_handle(f"{handle.id}/fetch/1")
    await _until_started(child)
    await _until_event(child, "EVENT_TYPE_TIMER_STARTED")
    await handle.terminate()
    await follow_execution(scripts.client, dsn, handle.id)
    types = [event for event, _ in await log.story(execution_id)]
    assert {"loop.iteration.cancelled", "task.cancelled", "loop.cancelled"} <= set(types)
    assert await audit_execution(dsn, execution_id) == []


async def test_a_cancelled_run_that_reported_its_end_has_it_once(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    step = stamped_event("", "step.cancelled", "fetch", "step", "CANCELLED", parent="step", ends="step")
    memo = {"do": "memo", "trail": (TASK_ENDS, step, *closing("cancelled"))}
    handle = await scripts.start(execution_id, _call(execution_id), memo, LONG)
    await _until_event(handle, "EVENT_TYPE_TIMER_STARTED")
    await handle.cancel()
    await follow_execution(scripts.client, dsn, handle.id)
    assert (await log.story(execution_id))[-1] == ("playbook.cancelled", "CANCELLED")
    assert await audit_execution(dsn, execution_id) == []


async def test_events_in_a_marker_are_logged(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    """It may be in history after the command that carries later events."""
    many_calls = [
        stamped_event(f"warning{n}", "warning", "fetch", "step", "RUNNING", context={"text": "x" * 9000})
        for n in range(25)
    ]
    step = stamped_event("step", "step.started", "fetch", "step", parent="workflow", meta={"step_run_id": "fetch#1"})
    ends = stamped_event("", "step.done", "fetch", "step", "COMPLETED", parent="step", ends="step")
    carrier = call(execution_id, "task", OK, (*OPENING, step, TASK, *many_calls), id="fetch#1:page:1")
    handle = await scripts.start(execution_id, carrier, {"do": "memo", "trail": (TASK_ENDS, ends)}, LONG)
    await _until_event(handle, "EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED")
    assert any(event.HasField("marker_recorded_event_attributes") for event in (await handle.fetch_history()).events)
    await handle.terminate()
    await follow_execution(scripts.client, dsn, handle.id)
    types = [event for event, _ in await log.story(execution_id)]
    assert types.count("warning") == len(many_calls)
    assert types[-2:] == ["workflow.finished", "playbook.cancelled"]
    assert await audit_execution(dsn, execution_id) == []


async def test_a_run_that_continues_as_new_has_one_log(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    end = {"do": "sleep", "seconds": 0, "trail": (domain_event("playbook.completed", 3, "COMPLETED"),)}
    middle = domain_event("step.started", 2)
    handle = await scripts.start(execution_id, {"do": "continue", "trail": (STARTED, middle), "script": [end]})
    await follow_execution(scripts.client, dsn, handle.id, handle.first_execution_run_id)
    assert [event for event, _ in await log.story(execution_id)] == [
        "playbook.execution.requested",
        "step.started",
        "playbook.completed",
    ]


async def test_a_reset_run_continues_and_repeats_nothing(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    first = call(execution_id, 1, {"report": {"outcome": {"status": "ok"}}}, (STARTED,))
    handle = await scripts.start(execution_id, first, {"do": "sleep", "seconds": 1})
    await handle.result()
    await follow_execution(scripts.client, dsn, handle.id)
    run_id = await reset(scripts.client, handle, handle.first_execution_run_id or "")
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


async def test_a_reset_takes_back_what_came_after_it(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    step = stamped_event("", "step.done", "fetch", "step", "COMPLETED", parent="step", ends="step")
    end = {"do": "sleep", "seconds": 0, "trail": (TASK_ENDS, step, *closing())}
    handle = await scripts.start(execution_id, _call(execution_id), end)
    await handle.result()
    await follow_execution(scripts.client, dsn, handle.id)
    run_id = await reset(scripts.client, handle, handle.first_execution_run_id or "")
    await scripts.client.get_workflow_handle(handle.id, run_id=run_id).result()
    await follow_execution(scripts.client, dsn, handle.id, run_id)
    assert [event for event, _ in await log.story(execution_id)].count("step.done") == 2
    assert await _status(log, execution_id) == ("COMPLETED", None)
    assert await audit_execution(dsn, execution_id) == []


async def test_the_run_that_a_reset_replaces_does_not_end_the_playbook(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    first = call(execution_id, 1, {"report": {"outcome": {"status": "ok"}}}, (STARTED,))
    handle = await scripts.start(execution_id, first, {"do": "sleep", "seconds": 2})
    await _until_event(handle, "EVENT_TYPE_TIMER_STARTED")
    run_id = await reset(scripts.client, handle, handle.first_execution_run_id or "")
    await follow_execution(scripts.client, dsn, handle.id, handle.first_execution_run_id)
    assert "playbook.cancelled" not in dict(await log.story(execution_id))
    await follow_execution(scripts.client, dsn, handle.id, run_id)
    assert (await log.story(execution_id))[-2:] == [
        ("playbook.resumed", "RUNNING"),
        ("playbook.completed", "COMPLETED"),
    ]


async def _until_started(handle: WorkflowHandle[Any, Any]) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await handle.describe()
            except RPCError:
                await asyncio.sleep(0.02)
            else:
                return


async def _until_continued(handle: WorkflowHandle[Any, Any], first: str | None) -> None:
    async with asyncio.timeout(60):
        while (await handle.describe()).run_id == first:
            await asyncio.sleep(0.02)


async def _until_event(handle: WorkflowHandle[Any, Any], name: str) -> None:
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.Value(name):
            return
