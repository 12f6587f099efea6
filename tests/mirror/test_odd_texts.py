"""Whatever stands in a name, a message or a value: the log of the run can be stored and read."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure

from noetl_temporal.mirror.payloads import payload_value
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.storable import storable
from noetl_temporal.mirror.store import open_store
from tests.audit import audit_execution
from tests.mirror.built import SOURCE, History, payloads, playbook
from tests.mirror.story import Story

EXECUTION = 700
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\0\\u0000"\ufffd'), max_size=8)


def _history(name: str, label: str, message: str) -> History:
    """A run in which every text is odd; it fails."""
    source = {**SOURCE, "path": f"tests/{name}", "name": name}
    graph = {"version": 1, "digest": "d", "source": source, "workload": {"data": {label: message}}}
    history = playbook(EXECUTION, graph=graph, payload={name: {label: message}})
    story = Story(history.now)
    opening = story.opening()
    run = {"step_run_id": f"{name}#1", "step": name}
    step = story.begins("step.started", name, "step", story.workflow, meta=run)
    task = story.begins("task.started", label, label, step["id"], meta={**run, "task_run_id": f"{name}#1:{label}"})
    history.task()
    scheduled_id = history.call(task["id"], [*opening, step, task], step=name, task=label)
    error = {"kind": "http", "message": message}
    attempt = {"number": 1, "started": history.now, "ended": history.now + 5, "status": "error", "error": error}
    story.leave_room(task["id"], 3)
    history.answers(scheduled_id, {"outcome": {"status": "error", "error": error}, "attempts": [attempt]})
    history.task_fails("WORKFLOW_WORKER_UNHANDLED_FAILURE", message, message)
    history.task()
    failed = story.ends(task, "failed", "FAILED", error=message, result={label: message})
    end_event = story.ends(step, "failed", "FAILED", error=message)
    trail = [failed, end_event, *story.closing("failed", error=message)]
    failure = Failure(message=message)
    failure.application_failure_info.details.CopyFrom(payloads({"status": "failed", "trail": trail}))
    history.add("WORKFLOW_EXECUTION_FAILED", failure=failure)
    return history


async def _stored_events(dsn: str, history: History, cut: int) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "TRUNCATE noetl.event, noetl.execution, noetl.cursor, noetl.history, noetl.catalog CASCADE"
    )
    async with open_store(dsn) as store:
        for events in (history.events[:cut], history.events[cut:]):
            await store.ingest(history.run, events)
    columns = "event_id, event_type, node_name, status, error, meta, result, context, envelope_checksum"
    records = await connection.fetch(f"SELECT {columns} FROM noetl.event ORDER BY event_id")
    await connection.close()
    return [dict(record) for record in records]


@given(name=TEXTS, label=TEXTS, message=TEXTS, cut=st.integers(1, 10))
@example(name="s\0t", label="\0", message="no \0 here", cut=5)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_in_any_batches_gives_one_log(dsn: str, name: str, label: str, message: str, cut: int) -> None:
    history = _history(name, label, message)
    report = asyncio.run(_stored_events(dsn, history, cut))
    assert report == asyncio.run(_stored_events(dsn, history, len(history.events) - 1))
    assert [row["node_name"] for row in report if row["event_type"] == "step.failed"] == [name.replace("\0", "\ufffd")]
    assert asyncio.run(audit_execution(dsn, EXECUTION)) == []
    assert asyncio.run(rebuild(dsn)).rows == len(report)


@given(text=TEXTS)
def test_only_what_postgres_refuses_is_changed(text: str) -> None:
    stored_value = msgspec.json.decode(storable(msgspec.json.encode({text: [text]})))
    clean = text.replace("\0", "\ufffd")
    assert stored_value == {clean: [clean]}


def test_half_of_a_surrogate_pair_is_not_a_text() -> None:
    halves = rb'["\ud83d\ude00 \ud83d \ude00", "\\ud83d", "a\u0000"]'
    payload = Payload(metadata={"encoding": b"json/plain"}, data=halves)
    assert payload_value(payload) == ["\U0001f600 \ufffd \ufffd", "\\ud83d", "a\ufffd"]
