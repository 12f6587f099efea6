"""No row of the log is lost, however many there are at once; two rows that disagree are a reported error."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from temporalio.client import Client

from noetl_temporal.mirror.follow import Follower, HistoryPage, Polls
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.read import read_problems
from noetl_temporal.mirror.store import REMOVED, ConflictError, Store
from tests.audit import audit_execution
from tests.mirror.built import START, History, begin, loop, payloads, playbook
from tests.mirror.conftest import Log
from tests.mirror.story import Json, Story

ITEMS = 5_000
CALLS = 2_500


async def _count(log: Log, type_: str) -> int:
    return await log.database.fetchval("SELECT count(*) FROM noetl.event WHERE event_type = $1", type_)  # type: ignore[no-any-return]


def _end_all(history: History, story: Story, task: int) -> None:
    """Add the answer of the last call and the end of task, step and playbook."""
    history.now = story.now = max(story.now, history.now) + 50
    record = {"number": 1, "started": story.now - 10, "ended": story.now - 5, "status": "ok"}
    calls = [event.event_id for event in history.events if event.HasField("activity_task_scheduled_event_attributes")]
    history.answers(calls[-1], {"outcome": {"status": "ok"}, "attempts": [record]})
    story.leave_room(task, 3)
    task_event = {"type": "task.started", "node": "page", "kind": "http", "id": task, "at": START}
    step = {"type": "step.started", "node": "fetch", "kind": "step", "id": task - 1, "at": START}
    trail = [story.ends(task_event), story.ends(step), *story.closing()]
    history.task()
    history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"status": "completed", "trail": trail}))


def _failing_loop(execution_id: int, loop_start: Json) -> tuple[History, Story]:
    """The history of a loop whose items all fail before any call, in one workflow task."""
    history, story = loop(execution_id, loop_start["id"], after=loop_start["at"]), Story(START, 1, loop_start["at"])
    trail: list[Json] = []
    for index in range(ITEMS):
        meta = {"iteration": index}
        item = story.begins("loop.iteration.started", "fetch", "iteration", loop_start["id"], meta=meta)
        trail += [item, story.ends(item, "failed", "FAILED", error="no such name")]
    history.task()
    history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"report": {"status": "error"}, "trail": trail}))
    return history, story


async def test_items_that_fail_at_once_keep_all_their_rows(store: Store, log: Log, dsn: str, execution_id: int) -> None:
    history, story = playbook(execution_id), Story(START)
    task = begin(history, story)
    loop_start = story.begins("loop.started", "fetch", "loop", task - 1)
    child, inner = _failing_loop(execution_id, loop_start)
    history.now = story.now = inner.own.ms + 1
    history.starts_child([loop_start, story.ends(loop_start, "failed", "FAILED")])
    _end_all(history, story, task)
    await store.ingest(history.run, history.events)
    await store.ingest(child.run, child.events)
    assert await _count(log, "loop.iteration.started") == ITEMS
    assert await _count(log, "loop.iteration.failed") == ITEMS
    assert await audit_execution(dsn, execution_id) == []


async def test_calls_that_end_at_once_keep_all_their_rows(store: Store, log: Log, dsn: str, execution_id: int) -> None:
    history, story = playbook(execution_id), Story(START)
    opening = story.opening()
    step = story.begins("step.started", "fetch", "step", story.workflow)
    tasks = [story.begins("task.started", "page", "http", step["id"]) for _ in range(CALLS)]
    history.task()
    calls = [
        history.call(task["id"], [*opening, step, task] if task is tasks[0] else [task], id=f"fetch#1:page:{number}")
        for number, task in enumerate(tasks)
    ]
    history.now = story.now = START + 40
    record = {"number": 1, "started": START + 10, "ended": START + 30, "status": "ok"}
    for scheduled_id in calls:
        history.answers(scheduled_id, {"outcome": {"status": "ok"}, "attempts": [record]})
    ends: list[Json] = []
    for task in tasks:
        story.leave_room(task["id"], 3)
        ends.append(story.ends(task))
    trail = [*ends, story.ends(step), *story.closing()]
    history.task()
    history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"status": "completed", "trail": trail}))
    await store.ingest(history.run, history.events)
    assert await _count(log, "task.attempt.started") == await _count(log, "task.attempt.done") == CALLS
    assert await audit_execution(dsn, execution_id) == []


def _answering(execution_id: int, run_id: str, result: int) -> History:
    history, story = playbook(execution_id, run_id=run_id), Story(START)
    begin(history, story)
    history.now = START + 20
    record = {"number": 1, "started": START, "ended": START + 9, "status": "ok"}
    history.answers(len(history.events), {"outcome": {"status": "ok", "result": {"n": result}}, "attempts": [record]})
    return history


async def test_a_row_that_a_reset_copied_is_stored_once(store: Store, log: Log, execution_id: int) -> None:
    first, copy = _answering(execution_id, "r1", 1), _answering(execution_id, "r2", 1)
    await store.ingest(first.run, first.events)
    rows = await log.everything()
    await store.ingest(copy.run, copy.events)
    assert await log.everything() == rows


async def test_a_row_with_the_same_id_and_other_content_is_an_error(store: Store, log: Log, execution_id: int) -> None:
    first, other = _answering(execution_id, "r1", 1), _answering(execution_id, "r2", 2)
    await store.ingest(first.run, first.events)
    rows = await log.everything()
    with pytest.raises(ConflictError, match=r"task\.attempt\.done of 'page' has the id \d+, under which"):
        await store.ingest(other.run, other.events)
    assert await log.everything() == rows
    assert await log.database.fetchval("SELECT count(*) FROM noetl.history WHERE run_id = 'r2'") == 0


async def test_two_rows_of_one_batch_that_disagree_are_an_error(store: Store, execution_id: int) -> None:
    history, story = playbook(execution_id), Story(START)
    [request_event, *later_events] = story.opening()
    history.call(1, [request_event, {**later_events[0], "id": request_event["id"]}])
    with pytest.raises(ConflictError):
        await store.ingest(history.run, history.events)


async def test_a_history_event_that_gives_another_row_than_before_is_an_error(
    store: Store, log: Log, execution_id: int
) -> None:
    history = _answering(execution_id, "r1", 1)
    await store.ingest(history.run, history.events)
    await log.database.execute("UPDATE noetl.event SET event_id = event_id + 1 WHERE event_type = 'task.attempt.done'")
    await store.rewind(history.run)
    with pytest.raises(ConflictError, match="noetl mirror rebuild"):
        await store.ingest(history.run, history.events)


class _OneHistory(Polls):
    """Polls that return a whole history at once, without a server."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    async def poll(self, client: object, run: WorkflowRun, token: bytes | None) -> HistoryPage:
        del client, run, token
        return HistoryPage(self._history.events, None)


def _follow_nothing(_: WorkflowRun) -> asyncio.Task[None]:
    raise AssertionError


async def test_a_run_that_the_server_removed_before_its_end_is_a_problem(
    store: Store, client: Client, execution_id: int
) -> None:
    history = _answering(execution_id, str(uuid4()), 1)
    await store.ingest(history.run, history.events)
    await Follower(client, store, Polls(), _follow_nothing).follow(history.run)
    assert [(problem.run_id, problem.problem) for problem in await read_problems(store.pool)] == [
        (history.run.run_id, REMOVED)
    ]
    assert await store.open_runs("default") == []


async def test_an_answer_that_ends_before_the_run_is_asked_for_again(
    store: Store, log: Log, caplog: pytest.LogCaptureFixture, execution_id: int
) -> None:
    history = _answering(execution_id, "r1", 1)
    following = asyncio.create_task(
        Follower(None, store, _OneHistory(history), _follow_nothing).follow(history.run)  # type: ignore[arg-type]
    )
    async with asyncio.timeout(20):
        while "history from the server ends before the run does" not in caplog.text:
            await asyncio.sleep(0.02)
        history.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough", identity="me")
        await following
    assert (await log.story(execution_id))[-1] == ("playbook.cancelled", "TERMINATED")


async def test_the_problem_of_an_unreadable_run_is_reported_until_it_is_solved(
    store: Store, log: Log, execution_id: int
) -> None:
    first, other = _answering(execution_id, "r1", 1), _answering(execution_id, "r2", 2)
    await store.ingest(first.run, first.events)

    with pytest.raises(ConflictError):
        await Follower(None, store, _OneHistory(other), _follow_nothing).follow(other.run)  # type: ignore[arg-type]
    [problem] = await read_problems(store.pool)
    assert (problem.run_id, problem.problem.split(":")[0]) == ("r2", "ConflictError")
    await log.database.execute("DELETE FROM noetl.event")
    await store.ingest(other.run, other.events)
    assert await read_problems(store.pool) == []
