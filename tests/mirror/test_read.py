"""Questions that readers ask the log."""

from __future__ import annotations

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution, WorkflowType

from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.read import EventTail, events_of, find_execution, latest_execution, read_progress, steps_of
from noetl_temporal.mirror.store import Store
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW
from tests.mirror.built import START, begin, child, payloads, playbook, reset
from tests.mirror.recorded import RecordedRun, read, rows_of
from tests.mirror.story import Json, Story


async def _ingest(store: Store, runs: list[RecordedRun]) -> int:
    for history in runs:
        await store.ingest(history.run, history.events())
    return rows_of(runs[0])[0].execution_id


async def test_the_status_of_an_execution(store: Store) -> None:
    id_ = await _ingest(store, read("failed"))
    stored_execution = await find_execution(store.pool, id_)
    assert stored_execution is not None
    assert (stored_execution.path, stored_execution.version, stored_execution.status) == ("tests/failed", 1, "FAILED")
    assert stored_execution.error == "ValueError: no such city (line 1 of the code)"
    assert stored_execution.last_event_type == "playbook.failed"
    assert stored_execution.end_time is not None
    assert await find_execution(store.pool, 1) is None


async def test_the_latest_execution_is_one_that_no_other_called(store: Store) -> None:
    """However many it has called since."""
    assert await latest_execution(store.pool) is None
    ids = [await _ingest(store, read(name)) for name in ("flaky", "failed", "pages")]
    await store.pool.execute(
        """
        INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
        SELECT n, catalog_id, $1, 'COMPLETED', now() + n * interval '1 day'
        FROM generate_series(1, 30) n, (SELECT catalog_id FROM noetl.catalog LIMIT 1) c
        """,
        ids[0],
    )
    latest = await latest_execution(store.pool)
    assert latest is not None
    assert latest.execution_id == max(ids)


async def test_the_events_of_an_execution(store: Store) -> None:
    id_ = await _ingest(store, read("flaky"))
    events = await events_of(store.pool, id_)
    assert [event.event_id for event in events] == sorted(event.event_id for event in events)
    assert events[0].context is not None
    assert events[0].context["workload"] == {"api_url": "http://127.0.0.1:5555"}
    assert await events_of(store.pool, id_, after=events[2].event_id) == events[3:]
    [failed] = await events_of(store.pool, id_, types=["task.attempt.failed"])
    assert failed.meta["retry"]["will_retry"] is True


async def test_the_steps_of_an_execution(store: Store) -> None:
    id_ = await _ingest(store, read("pages"))
    start, fetch, *others = await steps_of(store.pool, id_)
    assert (start.step, start.status, start.attempts) == ("start", "COMPLETED", 1)
    assert (fetch.iterations_total, fetch.iterations_ended, fetch.iterations_failed) == (2, 2, 0)
    assert (fetch.attempts, fetch.pages, fetch.retries) == (3, 3, 0)
    assert all(step.duration_seconds is not None for step in (start, fetch, *others))
    [flaky, *_] = await steps_of(store.pool, await _ingest(store, read("flaky")))
    assert (flaky.attempts, flaky.retries) == (2, 1)
    failed = {step.step: step for step in await steps_of(store.pool, await _ingest(store, read("failed")))}
    assert (failed["broken"].status, failed["broken"].error) == (
        "FAILED",
        "ValueError: no such city (line 1 of the code)",
    )


async def test_steps_that_a_reset_superseded_are_not_reported(store: Store) -> None:
    base, story = playbook(1), Story(START)
    opening = story.opening()
    first = story.begins("step.started", "first", "step", story.workflow, meta={"step_run_id": "first#1"})
    base.task()
    base.call(first["id"], [*opening, first])
    at = len(base.events) + 3
    wrong = story.begins("step.started", "wrong", "step", story.workflow, meta={"step_run_id": "wrong#1"})
    task = story.begins("task.started", "page", "http", wrong["id"], meta={"step": "wrong", "step_run_id": "wrong#1"})
    base.task()
    base.call(task["id"], [story.ends(first), wrong, task])
    base.add("WORKFLOW_EXECUTION_TERMINATED", reason="once more", identity="history-resetter")
    story.now = first["at"] + 7_000
    reset_history = reset(base, at=at, run_id="r2", now=story.now)
    right = story.begins("step.started", "right", "step", story.workflow, meta={"step_run_id": "right#1"})
    reset_history.task()
    reset_history.call(right["id"], [story.ends(first), right])
    await store.ingest(base.run, base.events)
    assert [step.step for step in await steps_of(store.pool, 1)] == ["first", "wrong"]
    await store.ingest(reset_history.run, reset_history.events)
    by_name = {step.step: step for step in await steps_of(store.pool, 1)}
    assert {name: (attempt.status, attempt.attempts) for name, attempt in by_name.items()} == {
        "first": ("COMPLETED", 0),
        "right": ("STARTED", 0),
    }
    assert by_name["first"].duration_seconds == 7.0


async def test_the_time_of_a_step_in_parallel_iterations_is_not_added_up(store: Store) -> None:
    history, story = playbook(1), Story(START)
    opening = story.opening()
    runs: list[Json] = []
    for index in range(3):
        runs.append(story.begins("step.started", "load", "step", story.workflow, meta={"iteration": index}))
        story.now += 1_000
    ends = [story.ends(run, "cancelled", "CANCELLED") for run in runs]
    history.task()
    history.call(runs[0]["id"], [*opening, *runs, *ends])
    await store.ingest(history.run, history.events)
    [load] = await steps_of(store.pool, 1)
    assert load.duration_seconds == 3.0


async def test_a_step_is_held_or_running_while_one_of_its_iterations_is(store: Store) -> None:
    one, story = playbook(1), Story(START)
    opening = story.opening()
    held, running, done = (
        story.begins("step.started", "load", "step", story.workflow, meta={"iteration": index}) for index in range(3)
    )
    hold = story.event("step.held", "load", "step", "PAUSED", held["id"])
    one.task()
    one.call(held["id"], [*opening, held, running, done, hold, story.ends(done)])
    await store.ingest(one.run, one.events)
    [load] = await steps_of(store.pool, 1)
    assert load.status == "PAUSED"
    released = story.event("step.released", "load", "step", "COMPLETED", held["id"])
    failure = story.ends(held, "failed", "FAILED")
    one.task()
    one.call(running["id"], [released, failure])
    await store.ingest(one.run, one.events)
    [load] = await steps_of(store.pool, 1)
    assert load.status == "STARTED"
    one.task()
    one.call(done["id"], [story.ends(running)])
    await store.ingest(one.run, one.events)
    [load] = await steps_of(store.pool, 1)
    assert load.status == "COMPLETED"


async def test_the_cursor_of_a_run(store: Store) -> None:
    page, loop = read("pages")
    workflow = page.run.namespace, page.run.workflow_id
    assert not (await read_progress(store.pool, *workflow, page.run.run_id)).is_complete
    await store.ingest(page.run, page.events()[:-1])
    assert not (await read_progress(store.pool, *workflow, page.run.run_id)).is_complete
    await store.ingest(page.run, page.events()[-1:])
    assert not (await read_progress(store.pool, *workflow, page.run.run_id)).is_complete
    await store.ingest(loop.run, loop.events())
    assert (await read_progress(store.pool, *workflow, page.run.run_id)).is_complete
    assert not (await read_progress(store.pool, *workflow, "a run after it")).is_complete
    await store.note_problem(page.run, "no such thing")
    progress = await read_progress(store.pool, *workflow, page.run.run_id)
    assert (progress.is_complete, [problem.problem for problem in progress.problems]) == (False, ["no such thing"])


@pytest.mark.parametrize("is_listed", [False, True], ids=["found by its parent", "found in the list"])
async def test_a_loop_whose_id_was_cut_has_to_be_read_too(store: Store, is_listed: bool) -> None:
    """Then it does not begin with that of its playbook."""
    history = playbook(1)
    history.run = WorkflowRun("default", "x" * 190 + "/1", "r1", PLAYBOOK_WORKFLOW)
    started = history.starts_child([])
    chunk = child(history, 1, started, slot=1)
    chunk.run = chunk.run._replace(workflow_id="x" * 180 + "...a1b2")
    named = WorkflowExecution(workflow_id=chunk.run.workflow_id, run_id=chunk.run.run_id)
    history.add(
        "CHILD_WORKFLOW_EXECUTION_STARTED", workflow_execution=named, workflow_type=WorkflowType(name=LOOP_WORKFLOW)
    )
    history.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough")
    if is_listed:
        await store.add_runs([chunk.run])
    await store.ingest(history.run, history.events)
    workflow = "default", history.run.workflow_id, "r1"
    assert not (await read_progress(store.pool, *workflow)).is_complete
    await store.ingest(chunk.run, chunk.events)
    assert not (await read_progress(store.pool, *workflow)).is_complete
    chunk.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough")
    await store.ingest(chunk.run, chunk.events)
    assert (await read_progress(store.pool, *workflow)).is_complete


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_a_tail_gives_every_event_once(store: Store, size: int) -> None:
    runs = read("pages")
    id_ = rows_of(runs[0])[0].execution_id
    tail, event_ids = EventTail(id_), list[int]()
    for history in runs:
        events = history.events()
        for start in range(0, len(events), size):
            await store.ingest(history.run, events[start : start + size])
            event_ids += [event.event_id for event in await tail.read(store.pool)]
    assert sorted(event_ids) == [event.event_id for event in await events_of(store.pool, id_)]
    assert await tail.read(store.pool) == []


async def test_a_tail_does_not_end_with_what_a_reset_superseded(store: Store) -> None:
    base, story = playbook(1), Story(START)
    base.task()
    base.call(1, story.opening())
    at = len(base.events) + 3
    base.task()
    base.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"trail": story.closing()}))
    reset_history = reset(base, at=at, run_id="r2", now=START + 1000)
    tail = EventTail(1)
    await store.ingest(base.run, base.events)
    await store.ingest(reset_history.run, reset_history.events)
    await tail.read(store.pool)
    assert not tail.has_ended
    story.now = reset_history.now = START + 2000
    reset_history.task()
    reset_history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"trail": story.closing()}))
    await store.ingest(reset_history.run, reset_history.events)
    await tail.read(store.pool)
    assert tail.has_ended


async def test_the_log_in_the_words_of_december_2025(store: Store) -> None:
    id_ = await _ingest(store, read("pages"))
    query = "SELECT event_type FROM noetl.event_legacy WHERE execution_id = $1 ORDER BY event_id"
    assert await _column(store.pool, query, id_) == [
        "playbook_started",
        "workflow_initialized",
        "step_started",
        "action_started",
        "action_completed",
        "step_completed",
        "step_started",
        "iterator_started",
        "iteration_started",
        "action_started",
        "action_completed",
        "retry_scheduled",
        "action_started",
        "action_completed",
        "retry_sequence_completed",
        "iteration_completed",
        "iteration_started",
        "action_started",
        "action_completed",
        "retry_sequence_completed",
        "iteration_completed",
        "iterator_completed",
        "step_completed",
        "step_started",
        "step_completed",
        "workflow_completed",
        "playbook_completed",
    ]


async def test_the_log_in_the_words_of_the_whitepaper(store: Store) -> None:
    id_ = await _ingest(store, read("flaky"))
    query = "SELECT event_type FROM noetl.event_domain WHERE execution_id = $1 ORDER BY event_id, ordinal"
    assert await _column(store.pool, query, id_) == [
        "PlaybookExecutionRequested",
        "PlaybookRequestEvaluated",
        "WorkflowStarted",
        "StepStarted",
        "ToolStarted",
        "ToolFinished",
        "RetryStarted",
        "ToolStarted",
        "ToolFinished",
        "RetryProcessed",
        "CaseStarted",
        "CaseEvaluated",
        "NextEvaluated",
        "StepStarted",
        "WorkflowFinished",
        "PlaybookProcessed",
    ]


VOCABULARY = """
playbook.execution.requested playbook.request.evaluated playbook.started playbook.paused playbook.resumed
playbook.completed playbook.failed playbook.cancelled workflow.started workflow.finished policy.admit.evaluated
step.started step.done step.failed step.skipped step.cancelled task.started task.done task.failed task.cancelled
task.attempt.started task.attempt.done task.attempt.failed policy.task.evaluated sink.started sink.done sink.failed
loop.started loop.done loop.failed loop.cancelled loop.iteration.started loop.iteration.done loop.iteration.failed
loop.iteration.cancelled next.evaluated ctx.updated warning incident.opened incident.resolved
wait.started wait.done wait.timed_out wait.cancelled signal.received approval.requested approval.decided
circuit.opened circuit.probed circuit.closed
"""
"""All that machine and mirror write today."""


async def test_every_event_has_a_name_in_the_older_words_or_none_on_purpose(store: Store) -> None:
    event_types = {record[0] for record in await store.pool.fetch("SELECT event_type FROM noetl.event_name")}
    assert set(VOCABULARY.split()) <= event_types


async def test_stopped_steps_in_the_older_vocabulary(store: Store, execution_id: int) -> None:
    history = playbook(execution_id)
    begin(history, Story(START))
    history.now += 10
    history.task_fails("NON_DETERMINISTIC_ERROR", "another build")
    history.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough")
    await store.ingest(history.run, history.events)
    query = "SELECT event_type FROM noetl.event_legacy WHERE execution_id = $1 ORDER BY event_id"
    assert await _column(store.pool, query, execution_id) == [
        "playbook_started",
        "workflow_initialized",
        "step_started",
        "error",
        "info",
        "step_cancelled",
        "workflow_terminated",
        "playbook_cancelled",
    ]
    query = "SELECT status FROM noetl.event_domain WHERE execution_id = $1 ORDER BY event_id DESC, ordinal LIMIT 2"
    assert await _column(store.pool, query, execution_id) == ["cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("success", "failed", "skipped", "word"),
    [
        (1, 2, 0, "iterator_completed"),
        (1, 1, 1, "iterator_failed"),
        (3, 0, 0, "iterator_failed"),
        (1, 0, 2, "iterator_failed"),
    ],
    ids=["items failed", "fail_fast left one out", "its results were too large", "a timeout cut it off"],
)
async def test_a_loop_is_failed_in_the_older_words_when_it_did_not_run_to_its_end(
    store: Store, execution_id: int, success: int, failed: int, skipped: int, word: str
) -> None:
    history, story = playbook(execution_id), Story(START)
    step = [*story.opening(), story.begins("step.started", "fetch", "step", story.workflow)][-1]
    loop = story.begins("loop.started", "fetch", "loop", step["id"])
    end_event = story.ends(loop, "failed", "FAILED")
    end_event["meta"] = {"stats": {"total": 3, "success": success, "failed": failed, "skipped": skipped}}
    history.task()
    history.call(step["id"], [loop, end_event])
    await store.ingest(history.run, history.events)
    query = "SELECT event_type FROM noetl.event_legacy WHERE execution_id = $1 AND node_type = 'loop' ORDER BY event_id"
    assert await _column(store.pool, query, execution_id) == ["iterator_started", word]


async def _column(pool: asyncpg.Pool, query: str, id_: int) -> list[str]:
    return [record[0] for record in await pool.fetch(query, id_)]
