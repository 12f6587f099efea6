"""A workflow task that fails is an incident of the run, logged once until a task completes (semantics.md 47)."""

from __future__ import annotations

import msgspec
import pytest

from noetl_temporal.mirror.event_row import EventRow
from tests.audit import audit
from tests.mirror.built import START, History, begin, loop, payloads, playbook
from tests.mirror.story import Story

EXCEPTION = "WORKFLOW_WORKER_UNHANDLED_FAILURE"
STORE_TRACE = 'File "/x/temporalio/converter/_extstore.py", line 3, in store'


def _started_history() -> History:
    history = playbook(1)
    begin(history, Story(START))
    history.now += 1000
    return history


def _incidents(history: History) -> list[EventRow]:
    return [row for row in history.rows() if row.event_type.startswith("incident.")]


def test_a_task_that_fails_opens_an_incident_and_one_that_completes_resolves_it() -> None:
    history = _started_history()
    history.task_fails(EXCEPTION, "no such key")
    history.task_fails(EXCEPTION, "no such key")
    history.now += 2500
    history.task(attempt=3)
    opened_event, resolved_event = _incidents(history)
    message = {"cause": "exception", "message": "no such key", "attempt": 1, "worker": "7@host"}
    assert opened_event.meta["incident"] == message
    assert (opened_event.event_type, opened_event.node_type, opened_event.node_name) == (
        "incident.opened",
        "playbook",
        "tests/built",
    )
    assert (opened_event.status, opened_event.error) == ("STARTED", "no such key")
    assert (resolved_event.event_type, resolved_event.status, resolved_event.duration) == (
        "incident.resolved",
        "COMPLETED",
        2.499,
    )
    assert resolved_event.meta["ends"] == str(opened_event.event_id)


def test_an_incident_that_the_last_task_resolves_is_logged_before_the_last_rows() -> None:
    history, story = playbook(1), Story(START)
    trail = story.opening()
    history.task()
    history.call(1, trail)
    history.task_fails(EXCEPTION, "no such key")
    history.now = story.now = START + 2000
    scheduled_id = history.add("WORKFLOW_TASK_SCHEDULED", attempt=3)
    started = history.add("WORKFLOW_TASK_STARTED", scheduled_event_id=scheduled_id)
    history.now += 30
    history.add("WORKFLOW_TASK_COMPLETED", scheduled_event_id=scheduled_id, started_event_id=started)
    history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"status": "completed", "trail": story.closing()}))
    rows = sorted(history.rows(), key=lambda row: row.event_id)
    assert [row.event_type for row in rows][-3:] == ["incident.resolved", "workflow.finished", "playbook.completed"]
    assert audit([msgspec.structs.asdict(row) for row in rows], status="COMPLETED", stopped=False) == []


@pytest.mark.parametrize(
    ("cause", "trace", "word"),
    [
        (EXCEPTION, "", "exception"),
        ("NON_DETERMINISTIC_ERROR", "", "nondeterminism"),
        ("EXTERNAL_STORAGE_FAILURE", "", "storage"),
        (EXCEPTION, STORE_TRACE, "storage"),
        ("PENDING_ACTIVITIES_LIMIT_EXCEEDED", "", "pending_activities_limit_exceeded"),
    ],
)
def test_the_cause_is_reported(cause: str, trace: str, word: str) -> None:
    history = _started_history()
    history.task_fails(cause, "away", trace)
    [opened_event] = _incidents(history)
    assert opened_event.meta["incident"]["cause"] == word


def test_a_value_that_the_store_does_not_have_is_another_cause_than_a_store_that_does_not_answer() -> None:
    history = _started_history()
    history.task_fails(EXCEPTION, "noetl.payload has no 7", STORE_TRACE)
    history.events[-1].workflow_task_failed_event_attributes.failure.application_failure_info.type = "LookupError"
    [opened_event] = _incidents(history)
    assert opened_event.meta["incident"]["cause"] == "missing_value"


def test_a_value_that_cannot_be_stored_is_reported_as_one_that_cannot_be_read() -> None:
    history = _started_history()
    history.task_fails(EXCEPTION, "Failed encoding completion: [Errno 111] Connection refused")
    [opened_event] = _incidents(history)
    assert opened_event.meta["incident"]["cause"] == "storage"


@pytest.mark.parametrize("cause", ["RESET_WORKFLOW", "UNHANDLED_COMMAND", "FORCE_CLOSE_COMMAND"])
def test_retries_by_the_server_itself_are_not_incidents(cause: str) -> None:
    history = _started_history()
    history.task_fails(cause)
    assert _incidents(history) == []


def test_one_task_that_times_out_is_not_an_incident_and_two_in_a_row_are() -> None:
    history = _started_history()
    for _ in range(2):
        history.task_times_out()
        history.task()
    assert _incidents(history) == []
    history.task_times_out()
    history.task_times_out()
    [opened_event] = _incidents(history)
    assert opened_event.meta["incident"]["cause"] == "timeout"


def test_a_loop_has_incidents_of_its_own() -> None:
    story = Story(START)
    [request_event, *_] = story.opening()
    history = loop(1, request_event["id"], slot=3)
    history.task_fails(EXCEPTION, "no such key")
    [opened_event] = _incidents(history)
    assert (opened_event.node_type, opened_event.node_name, opened_event.parent_event_id) == (
        "loop",
        "fetch",
        request_event["id"],
    )


def test_a_run_that_is_terminated_in_an_incident_ends_that_too() -> None:
    history = _started_history()
    history.task_fails(EXCEPTION, "no such key")
    history.now += 1000
    history.add("WORKFLOW_EXECUTION_TERMINATED", reason="given up", identity="me")
    rows = history.rows()
    _, resolved_event = _incidents(history)
    assert (resolved_event.event_type, resolved_event.status) == ("incident.resolved", "CANCELLED")
    assert audit([msgspec.structs.asdict(row) for row in rows], status="TERMINATED", stopped=True) == []
