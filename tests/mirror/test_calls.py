"""The rows of tool calls: attempts, sinks, decisions, and calls that ended without a report."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure

from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.service import follow_execution
from tests.mirror.built import START, begin
from tests.mirror.built import playbook as built
from tests.mirror.conftest import Log, Scripts
from tests.mirror.scripted import call, domain_event, playbook
from tests.mirror.story import Story

PARENT = domain_event("task.started", 7)
RETRY = {"index": 0, "do": "retry", "on": "error", "attempts": 3, "delay": 0.2, "when": "{{ error.retryable }}"}


def _record(number: int, status: str = "ok", **fields: Any) -> dict[str, Any]:
    started = (number - 1) * 60
    return {"number": number, "started": started, "ended": started + 40, "status": status, "worker": "w1", **fields}


async def _rows(scripts: Scripts, dsn: str, log: Log, execution_id: int, *script: Any) -> list[dict[str, Any]]:
    handle = await scripts.start(execution_id, *script)
    await follow_execution(scripts.client, dsn, handle.id)
    return [row for row in await log.rows(execution_id) if not row["event_type"].startswith("playbook.")]


async def test_every_attempt_of_a_retried_call_is_logged(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    failed = _record(
        1, "error", error={"kind": "http", "code": 500, "message": "m" * 600}, rule=0, do="retry", delay=0.2
    )
    report = {"outcome": {"status": "ok", "result": [1, 2]}, "attempts": [failed, _record(2)]}
    line = call(execution_id, PARENT["id"], {"report": report}, (PARENT,), rules=[RETRY])
    rows = await _rows(scripts, dsn, log, execution_id, line)
    assert [row["event_type"] for row in rows] == [
        "task.started",
        "task.attempt.started",
        "task.attempt.failed",
        "policy.task.evaluated",
        "task.attempt.started",
        "task.attempt.done",
        "policy.task.evaluated",
    ]
    assert {row["parent_event_id"] for row in rows[1:]} == {PARENT["id"]}
    assert [row["event_id"] for row in rows] == sorted(row["event_id"] for row in rows)
    _, first, failure, decision, _, done, unmatched_rule = rows
    assert (unmatched_rule["meta"]["do"], unmatched_rule["meta"].get("rule")) == ("continue", None)
    assert failure["meta"]["retry"]["will_retry"] is True
    assert failure["meta"]["retry"]["backoff_seconds"] == 0.2
    assert len(failure["meta"]["error"]["message"]) == 500
    assert (decision["meta"]["rule"], decision["meta"]["do"], decision["meta"]["delay"]) == (0, "retry", 0.2)
    assert done["meta"]["retry"]["parent_event_id"] == str(first["event_id"])
    assert (done["result"], done["duration"], done["worker_id"]) == (
        {"status": "COMPLETED", "context": {"value": [1, 2]}},
        0.04,
        "w1",
    )
    legacy = [row for row in await log.rows(execution_id, "event_legacy") if row["node_name"] == "page"]
    assert [row["event_type"] for row in legacy] == [
        "action_started",
        "action_failed",
        "retry_scheduled",
        "action_started",
        "action_completed",
    ]
    assert [row["parent_event_id"] for row in legacy[2:]] == [first["event_id"]] * 3
    assert legacy[2]["data"]["attempt_number"] == 2
    assert legacy[0]["data"]["retry_config"][0]["then"]["max_attempts"] == 3


async def test_no_secret_and_no_large_value_is_in_a_row(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    report = {"outcome": {"status": "ok", "result": {"text": "x" * 11_000}}, "attempts": [_record(1)]}
    config = {"headers": {"Authorization": "hush"}, "api_key": "hush", "params": {"page_token": "p2"}, "_cache": 1}
    _, started, done = await _rows(
        scripts, dsn, log, execution_id, call(execution_id, 1, {"report": report}, (PARENT,), config=config)
    )
    assert started["context"]["config"] == {"headers": {}, "params": {"page_token": "p2"}}
    reference = done["result"]["reference"]
    assert reference == {
        "type": "history",
        "event_id": str(done["event_id"]),
        "size": 11_011,
        "preview": '{"text":"' + "x" * 491,
    }
    [legacy] = [row for row in await log.rows(execution_id, "event_legacy") if row["event_type"] == "action_completed"]
    assert legacy["data"]["result"] == {"reference": reference}


async def test_a_character_that_postgres_has_not_is_replaced(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    report = {"outcome": {"status": "ok", "result": {"a": "\0", "b": "\\u0000"}}, "attempts": [_record(1)]}
    *_, done = await _rows(scripts, dsn, log, execution_id, call(execution_id, 1, {"report": report}, task="fe\0tch"))
    assert done["result"]["context"] == {"a": "\ufffd", "b": "\\u0000"}
    assert done["node_name"] == "fe\ufffdtch"


async def test_sinks_are_logged_between_the_start_and_the_end_of_their_attempt(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    stored_sink = {"kind": "postgres", "key": "k1", "status": "ok", "started": 10, "ended": 20, "rows": 2, "table": "t"}
    refused_sink = {
        "kind": "duckdb",
        "key": "k2",
        "status": "error",
        "started": 22,
        "ended": 30,
        "error": "disk is full",
    }
    report = {"outcome": {"status": "error"}, "attempts": [_record(1, "error", sinks=[stored_sink, refused_sink])]}
    rows = await _rows(scripts, dsn, log, execution_id, call(execution_id, 1, {"report": report}))
    logged_rows = [(row["event_type"], row["node_type"]) for row in rows if "sink" in row["event_type"]]
    assert logged_rows == [
        ("sink.started", "postgres"),
        ("sink.done", "postgres"),
        ("sink.started", "duckdb"),
        ("sink.failed", "duckdb"),
    ]
    done = next(row for row in rows if row["event_type"] == "sink.done")
    assert done["meta"]["sink"] == {"kind": "postgres", "key": "k1", "table": "t", "rows": 2, "attempt": 1}
    assert rows[0]["event_type"] == "task.attempt.started"
    assert rows[-1]["event_type"] == "task.attempt.failed"


async def test_a_call_that_only_stores_is_not_an_attempt(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    sink = {"kind": "postgres", "key": "k1", "status": "ok", "started": 10, "ended": 20, "rows": 2}
    report = {"outcome": {"status": "ok"}, "attempts": [_record(1, sinks=[sink])]}
    line = call(execution_id, 1, {"report": report}, outcome_to_store={"status": "ok", "result": [1, 2]})
    rows = await _rows(scripts, dsn, log, execution_id, line)
    assert [row["event_type"] for row in rows] == ["sink.started", "sink.done"]


async def test_pages_name_the_page_before(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    again_rule = {"index": 0, "do": "again", "on": "ok", "attempts": 10}
    lines = [
        call(
            execution_id,
            100 + page,
            {"report": {"outcome": {"status": "ok"}, "attempts": [_record(1, rule=rule, do=do)]}},
            rules=[again_rule],
            page=page,
            id=f"fetch/1:page:{page}",
        )
        for page, rule, do in ((1, 0, "again"), (2, 0, "again"), (3, None, None))
    ]
    rows = await _rows(scripts, dsn, log, execution_id, *lines)
    done = [row for row in rows if row["event_type"] == "task.attempt.done"]
    started = [row for row in rows if row["event_type"] == "task.attempt.started"]
    assert [row["meta"]["page"] for row in started] == [1, 2, 3]
    parents = [row["meta"]["retry"].get("parent_event_id") for row in started]
    assert parents == [None, str(done[0]["event_id"]), str(done[1]["event_id"])]
    retry_rows = [row for row in await log.rows(execution_id, "event_legacy") if row["event_type"] == "retry_scheduled"]
    assert [row["data"]["attempt_number"] for row in retry_rows] == [2, 3]
    assert {row["data"]["continuation"] for row in retry_rows} == {"pagination"}


async def test_a_call_that_breaks_is_an_attempt_that_failed(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    rows = await _rows(scripts, dsn, log, execution_id, call(execution_id, 1, {"raise": "no such tool"}))
    assert [(row["event_type"], row["error"]) for row in rows] == [
        ("task.attempt.started", None),
        ("task.attempt.failed", "no such tool"),
    ]
    assert rows[1]["meta"]["error"]["kind"] == "broken"
    assert rows[1]["meta"]["error"]["has_stack_trace"] is True


async def test_a_call_whose_workers_are_lost_logs_the_attempts_they_had_reported(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    first = _record(1, "error", error={"kind": "http", "message": "500"})
    beaten = [first, {"number": 2, "started": 60, "status": "lost"}]
    rows = await _rows(scripts, dsn, log, execution_id, call(execution_id, 1, {"beat": beaten}))
    failed = [row for row in rows if row["event_type"] == "task.attempt.failed"]
    assert [(row["meta"]["retry"]["attempt_number"], row["meta"]["error"]["kind"]) for row in failed][:2] == [
        (1, "http"),
        (2, "worker_lost"),
    ]


@pytest.mark.parametrize(
    ("status", "kind", "words", "row_status"),
    [
        ("lost", "worker_lost", "the attempt was lost with its worker", "FAILED"),
        ("shutdown", "shutdown", "the worker was stopped", "CANCELLED"),
        ("paused", "paused", "the call was paused", "CANCELLED"),
        ("reset", "reset", "the call was reset", "CANCELLED"),
        ("cancelled", "cancelled", "the call was cancelled", "CANCELLED"),
    ],
)
def test_an_attempt_that_its_tool_did_not_end_has_a_reason(status: str, kind: str, words: str, row_status: str) -> None:
    rows = _fold_call({"outcome": {"status": "ok"}, "attempts": [_at(1, status), _at(2)]})
    assert [row.event_type for row in rows] == [
        "task.attempt.started",
        "task.attempt.failed",
        "task.attempt.started",
        "task.attempt.done",
    ]
    end_row = rows[1]
    assert (end_row.error, end_row.meta["error"]["kind"], end_row.status) == (words, kind, row_status)
    assert end_row.meta["retry"]["will_retry"] is True
    assert end_row.meta["ends"] == str(rows[0].event_id)


def _at(number: int, status: str = "ok") -> dict[str, Any]:
    return {"number": number, "started": START + number * 10, "ended": START + number * 10 + 5, "status": status}


def _fold_call(report: Any) -> list[EventRow]:
    """The rows of a call that ends with a report."""
    history = built(1)
    begin(history, Story(START))
    history.now += 100
    history.answers(len(history.events), report)
    return [row for row in history.rows() if row.event_type.startswith("task.attempt.")]


def test_an_attempt_without_any_record_is_counted() -> None:
    rows = _fold_call({"outcome": {"status": "ok"}, "attempts": [_at(3)]})
    assert [row.meta["retry"]["attempt_number"] for row in rows] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("cause", ["CANCELED", "TIMED_OUT"])
def test_a_call_that_no_worker_took_has_no_attempts(cause: str) -> None:
    history = built(1)
    begin(history, Story(START))
    history.add(f"ACTIVITY_TASK_{cause}", scheduled_event_id=len(history.events))
    assert [row for row in history.rows() if row.event_type.startswith("task.attempt.")] == []


@pytest.mark.parametrize(("type_", "kind"), [("ActivityPause", "paused"), ("ActivityReset", "reset")])
def test_a_call_that_temporal_itself_ended_is_logged_as_such(type_: str, kind: str) -> None:
    history = built(1)
    begin(history, Story(START))
    scheduled_id = len(history.events)
    failure = Failure(message="Unhandled activity cancel error")
    failure.application_failure_info.type = type_
    started = history.start_activity(scheduled_id)
    history.add("ACTIVITY_TASK_FAILED", scheduled_event_id=scheduled_id, started_event_id=started, failure=failure)
    assert history.rows()[-1].meta["error"]["kind"] == kind


async def test_a_clock_that_is_wrong_puts_no_attempt_outside_its_task(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    record = {"number": 1, "started": -3_600_000, "ended": 3_600_000, "status": "ok"}
    report = {"outcome": {"status": "ok"}, "attempts": [record]}
    before, started, done, after = await _rows(
        scripts,
        dsn,
        log,
        execution_id,
        call(execution_id, PARENT["id"], {"report": report}, (PARENT,)),
        {"do": "sleep", "seconds": 0.01, "trail": (domain_event("step.done", 1, at=2_999_999_999_999, id=1 << 62),)},
    )
    assert before["event_time"] <= started["event_time"] <= done["event_time"] <= after["event_time"]


async def test_rows_of_a_loop_have_the_execution_of_its_playbook(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    source = playbook(execution_id)["graph"]["source"]
    body = {"source": source, "step": {"name": "fetch"}}
    input_ = {"execution_id": execution_id, "slot": 3, "loop_id": "fetch/1"}
    report = {"outcome": {"status": "ok"}, "attempts": [_record(1)]}
    iteration = domain_event("loop.iteration.started", 1, meta={"loop_id": "fetch/1", "iteration": 4})
    line = call(execution_id, iteration["id"], {"report": report}, (iteration,), iteration=4)
    loop: dict[str, Any] = {"do": "loop", "run": {"input": input_, **body, "script": [line]}}
    loop["trail"] = (domain_event("loop.started", 2),)
    rows = await _rows(scripts, dsn, log, execution_id, loop)
    assert sorted(row["event_type"] for row in rows) == [
        "loop.iteration.started",
        "loop.started",
        "task.attempt.done",
        "task.attempt.started",
    ]
    attempt = rows[-1]
    assert (attempt["event_id"] >> 13) & 0x3FF == 3
    assert attempt["meta"]["iteration_id"] == "fetch/1/4"
    assert attempt["meta"]["temporal"]["workflow_id"].endswith("/fetch/1")


async def test_a_call_in_an_inner_loop_has_the_ids_of_its_task(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    """Both loops run in one workflow, which is that of the outer one."""
    source = playbook(execution_id)["graph"]["source"]
    body = {"source": source, "step": {"name": "outer"}}
    input_ = {"execution_id": execution_id, "slot": 3, "loop_id": "outer/1"}
    ids = {"loop_id": "outer/1/2/inner/1", "iteration": 0, "iteration_id": "outer/1/2/inner/1/0", "step_run_id": "w#1"}
    task = domain_event("task.started", 1, meta=ids)
    line = call(execution_id, task["id"], {"report": {"outcome": {"status": "ok"}, "attempts": [_record(1)]}}, (task,))
    line["call"]["iteration"] = 0
    loop: dict[str, Any] = {"do": "loop", "run": {"input": input_, **body, "script": [line]}}
    rows = await _rows(scripts, dsn, log, execution_id, loop)
    logged_rows = [row["meta"] for row in rows if row["event_type"].startswith("task.attempt")]
    assert [{name: meta[name] for name in ids} for meta in logged_rows] == [ids, ids]


@pytest.mark.parametrize(
    ("auth", "recorded_keys"),
    [
        ("web", ["web"]),
        ({"type": "postgres", "credential": "pg_local"}, ["pg_local"]),
        ({"a": {"type": "s3", "key": "one"}, "b": {"key": "two"}}, ["one", "two"]),
        ({"type": "bearer", "token": "hush"}, None),
        ("Bearer hush", None),
    ],
)
async def test_an_attempt_names_the_credentials_it_refers_to(
    scripts: Scripts, dsn: str, log: Log, execution_id: int, auth: Any, recorded_keys: list[str] | None
) -> None:
    report = {"outcome": {"status": "ok"}, "attempts": [_record(1)]}
    line = call(execution_id, PARENT["id"], {"report": report}, (PARENT,), auth=auth)
    rows = await _rows(scripts, dsn, log, execution_id, line)
    started = next(row for row in rows if row["event_type"] == "task.attempt.started")
    assert started["meta"].get("credentials") == recorded_keys
    assert "hush" not in str(rows)


async def test_a_retry_of_a_success_is_one_that_polls(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    record = _record(1, rule=0, do="retry", delay=0.2)
    report = {"outcome": {"status": "ok"}, "attempts": [record, _record(2)]}
    line = call(execution_id, PARENT["id"], {"report": report}, (PARENT,), rules=[RETRY])
    rows = await _rows(scripts, dsn, log, execution_id, line)
    [decision, _] = [row["meta"] for row in rows if row["event_type"] == "policy.task.evaluated"]
    assert (decision["retry"]["type"], decision["retry"]["attempt_number"]) == ("on_success", 2)
