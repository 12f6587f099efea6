"""Attempts that vanished with their worker: run again, not counted, and never repeated where that would be wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_compiler.graph import Value
from noetl_temporal.calls.run_tool import MAX_LOST, tool_activity
from noetl_temporal.machine.call import AttemptRecord, CallRule, ToolCall, ToolReport
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

CALL = ToolCall(
    "c", "1/k", "step", "task", "noop", 1, "usual", rules=(CallRule(0, "retry", "error", attempts=Value(2)),)
)
LOST_ATTEMPT = AttemptRecord(1, 1000, "lost")
FAILED = AttemptRecord(1, 1000, "error", ended=1001)


def environment(log: list[AttemptRecord]) -> ActivityEnvironment:
    env = ActivityEnvironment()
    numbered_log = tuple(msgspec.structs.replace(record, number=index) for index, record in enumerate(log, 1))
    details = [msgspec.to_builtins(Details(numbered_log, temporal_attempt=len(log)))] if log else []
    env.info = dataclasses.replace(env.info, attempt=len(log) + 1, heartbeat_details=details)
    return env


async def run(call: ToolCall, log: list[AttemptRecord], answer: Any = 1) -> tuple[ToolReport, FakeTool]:
    tool = FakeTool("noop", lambda _request, _context: answer)
    activity = tool_activity(tool, CredentialSource(environment={}), ValueStore(data_converter()))
    report: Any = await environment(log).run(activity, call)
    return report, tool


async def test_a_lost_attempt_is_run_again_and_stays_in_the_record() -> None:
    report, tool = await run(CALL, [LOST_ATTEMPT])
    assert report.outcome["status"] == "ok"
    assert [attempt.status for attempt in report.attempts] == ["lost", "ok"]
    assert len(tool.requests) == 1


async def test_it_does_not_count_against_the_rule() -> None:
    busy = Outcome("error", error=ErrorInfo("http", "busy"))
    with pytest.raises(ApplicationError, match="busy") as failure:
        await run(CALL, [LOST_ATTEMPT, LOST_ATTEMPT], busy)
    assert not failure.value.non_retryable
    report, _ = await run(CALL, [LOST_ATTEMPT, FAILED], busy)
    assert report.exhausted


async def test_a_call_that_must_not_be_repeated_is_not_repeated() -> None:
    report, tool = await run(msgspec.structs.replace(CALL, idempotent=False), [LOST_ATTEMPT])
    assert report.outcome["error"]["kind"] == "unknown_outcome"
    assert tool.requests == []


async def test_a_failure_that_was_reported_may_be_repeated() -> None:
    report, tool = await run(msgspec.structs.replace(CALL, idempotent=False), [FAILED])
    assert report.outcome["status"] == "ok"
    assert len(tool.requests) == 1


async def test_a_call_that_kills_its_workers_fails() -> None:
    report, tool = await run(CALL, [LOST_ATTEMPT] * (MAX_LOST + 1))
    assert report.outcome["error"]["kind"] == "worker_lost"
    assert tool.requests == []


async def test_an_attempt_that_died_before_its_first_heartbeat_is_lost_as_well() -> None:
    silent = ActivityEnvironment()
    silent.info = dataclasses.replace(silent.info, attempt=3)
    tool = FakeTool("noop", lambda _request, _context: 1)
    activity = tool_activity(tool, CredentialSource(environment={}), ValueStore(data_converter()))
    report: Any = await silent.run(activity, CALL)
    assert [(attempt.number, attempt.status) for attempt in report.attempts] == [(1, "lost"), (2, "lost"), (3, "ok")]
