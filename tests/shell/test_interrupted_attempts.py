"""Attempts that Temporal interrupts: distinguished, never counted, and completed where the tool has answered."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_activities.tool_spec import ToolSpec
from noetl_compiler.graph import Value
from noetl_temporal.calls.interruptions import FINISH_SECONDS
from noetl_temporal.calls.run_tool import MAX_LOST, tool_activity
from noetl_temporal.machine.call import AttemptRecord, CallRule, SinkCall, ToolCall, ToolReport
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.playbook_tests.virtual_time import VirtualTimeLoop

RULES = (CallRule(0, "retry", "error", attempts=Value(2)),)
CALL = ToolCall("c", "1/k", "step", "task", "noop", 1, "usual", rules=RULES)
ONCE = msgspec.structs.replace(CALL, idempotent=False)
BUSY = Outcome("error", error=ErrorInfo("http", "busy"))


class Running:
    """One attempt of a call; ``heartbeats`` are the details of the last one."""

    def __init__(self, call: ToolCall, tool: FakeTool, heartbeats: list[Any], attempt: int = 1) -> None:
        self.heartbeats = heartbeats
        self._environment = ActivityEnvironment()
        self._environment.info = dataclasses.replace(
            self._environment.info, attempt=attempt, heartbeat_details=list(heartbeats)
        )
        self._environment.on_heartbeat = self._beat
        self._call = call
        self._activity = tool_activity(tool, CredentialSource(environment={}), ValueStore(data_converter()))

    def _beat(self, *details: Any) -> None:
        self.heartbeats[:] = [msgspec.to_builtins(detail) for detail in details]

    def start(self) -> asyncio.Task[ToolReport]:
        return asyncio.ensure_future(self._environment.run(self._activity, self._call))

    def interrupt(self, why: str) -> None:
        self._environment.cancel(ActivityCancellationDetails(**{why: True}))

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        return msgspec.convert(self.heartbeats[0], Details).records


def waiting() -> tuple[FakeTool, asyncio.Event]:
    """A tool that never answers, and an event that is set when it is called."""
    is_called = asyncio.Event()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        is_called.set()
        await asyncio.Event().wait()

    return FakeTool("noop", answer), is_called


async def interrupt_call(
    why: str, call: ToolCall = CALL, heartbeats: list[Any] | None = None, attempt: int = 1
) -> list[Any]:
    """The heartbeat details after an attempt that was interrupted while its tool ran."""
    tool, is_called = waiting()
    running = Running(call, tool, [] if heartbeats is None else heartbeats, attempt)
    task = running.start()
    await is_called.wait()
    running.interrupt(why)
    with pytest.raises(ApplicationError) as failure:
        await task
    assert not failure.value.non_retryable
    assert failure.value.next_retry_delay is not None
    assert failure.value.next_retry_delay.total_seconds() < 0.01
    assert failure.value.type == {"worker_shutdown": "worker_shutdown", "paused": "paused", "reset": "reset"}[why]
    return running.heartbeats


@pytest.mark.parametrize(("why", "status"), [("worker_shutdown", "shutdown"), ("paused", "paused"), ("reset", "reset")])
async def test_an_interrupted_attempt_has_a_reason(why: str, status: str) -> None:
    details = await interrupt_call(why)
    [record] = msgspec.convert(details[0], Details).records
    assert (record.status, record.is_called) == (status, True)
    assert record.ended is not None


async def test_stopping_count_neither_as_used_nor_as_lost() -> None:
    heartbeats: list[Any] = []
    for attempt in range(1, MAX_LOST + 3):
        await interrupt_call("worker_shutdown", heartbeats=heartbeats, attempt=attempt)
    running = Running(CALL, FakeTool("noop", lambda _request, _context: BUSY), heartbeats, MAX_LOST + 3)
    with pytest.raises(ApplicationError, match="busy"):
        await running.start()
    assert running.records[-1].do == "retry"


async def test_a_call_that_may_not_be_repeated_ends_as_unknown() -> None:
    message = await interrupt_call("worker_shutdown", ONCE)
    tool = FakeTool("noop", lambda _request, _context: 1)
    report = await Running(ONCE, tool, message, 2).start()
    assert report.outcome["error"]["kind"] == "unknown_outcome"
    assert report.exhausted
    assert tool.requests == []


async def test_a_call_that_had_not_begun_its_tool_is_repeated() -> None:
    record = AttemptRecord(1, 1000, "shutdown", ended=1001, is_called=False)
    details = [msgspec.to_builtins(Details((record,), temporal_attempt=1))]
    tool = FakeTool("noop", lambda _request, _context: 1)
    report = await Running(ONCE, tool, details, 2).start()
    assert report.outcome["status"] == "ok"


async def test_a_cancelled_call_whose_tool_has_not_returned_ends_at_once() -> None:
    tool, is_called = waiting()
    running = Running(CALL, tool, [])
    task = running.start()
    await is_called.wait()
    running.interrupt("cancel_requested")
    report = await asyncio.wait_for(task, FINISH_SECONDS / 2)
    assert report.outcome["error"]["kind"] == "cancelled"
    assert [attempt.status for attempt in report.attempts] == ["cancelled"]
    assert report.counts.used == 0


async def test_an_attempt_whose_process_goes_down_is_not_distinguished() -> None:
    tool, is_called = waiting()
    running = Running(ONCE, tool, [])
    task = running.start()
    await is_called.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running.records[-1].status == "lost"


# ---- what an attempt reports before it ends --------------------------------------------------------------------------


async def heartbeats_when_called(call: ToolCall, heartbeats: list[Any], attempt: int = 1) -> list[Any]:
    """The heartbeat details at the moment when the tool is called."""
    observed: list[Any] = []
    tool = FakeTool("noop", lambda _request, _context: observed.extend(heartbeats))
    await Running(call, tool, heartbeats, attempt).start()
    return observed


async def test_a_call_that_may_be_repeated_begins_without_a_heartbeat() -> None:
    assert await heartbeats_when_called(CALL, []) == []


async def test_a_call_that_must_not_be_repeated_is_recorded_before_its_tool_is_called() -> None:
    [details] = await heartbeats_when_called(ONCE, [])
    assert [record.status for record in msgspec.convert(details, Details).records] == ["lost"]


async def test_attempts_before_are_reported_at_once() -> None:
    [details] = await heartbeats_when_called(CALL, [], attempt=3)
    assert [record.status for record in msgspec.convert(details, Details).records] == ["lost", "lost", "lost"]


async def test_a_call_that_lasts_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.calls.heartbeats.HEARTBEAT_INTERVAL", timedelta(seconds=0.01))
    tool, is_called = waiting()
    running = Running(CALL, tool, [])
    task = running.start()
    await is_called.wait()
    while not running.heartbeats:
        await asyncio.sleep(0.01)
    assert running.records[-1].status == "lost"
    running.interrupt("cancel_requested")
    await task


# ---- the tool has answered ------------------------------------------------------------------------------------------


class SlowSink:
    """Holds the sink of a call until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun, self.go_on = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr("noetl_activities.sinks.store", self._store)
        monkeypatch.setattr("noetl_activities.sinks.find_outcome", self._find)

    async def _find(self, *_: Any) -> None:
        return None

    async def _store(self, *_: Any) -> Any:
        from noetl_activities.sinks import StoreResult

        self.has_begun.set()
        await self.go_on.wait()
        return StoreResult(1, "t", is_in_ledger=True)


STORING = msgspec.structs.replace(CALL, sinks=(SinkCall("postgres", Value({"table": "t"}), "k/sink0"),))


@pytest.mark.parametrize("why", ["cancel_requested", "worker_shutdown", "paused"])
async def test_an_attempt_whose_tool_has_returned_completes_its_sinks(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = SlowSink(monkeypatch)
    running = Running(STORING, FakeTool("noop", lambda _request, _context: 1), [])
    task = running.start()
    await sink.has_begun.wait()
    running.interrupt(why)
    await asyncio.sleep(0.05)
    sink.go_on.set()
    report = await task
    assert report.outcome["status"] == "ok"
    assert [attempt.status for attempt in report.attempts] == ["ok"]
    assert [attempt.rows for attempt in report.attempts[-1].sinks] == [1]


async def test_an_interrupted_call_has_limited_time_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.calls.interruptions.FINISH_SECONDS", 0.1)
    sink = SlowSink(monkeypatch)
    running = Running(STORING, FakeTool("noop", lambda _request, _context: 1), [])
    task = running.start()
    await sink.has_begun.wait()
    running.interrupt("cancel_requested")
    report = await asyncio.wait_for(task, 5)
    assert [attempt.status for attempt in report.attempts] == ["cancelled"]
    assert report.attempts[-1].is_called


async def test_a_cancelled_call_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = SlowSink(monkeypatch)
    call = msgspec.structs.replace(STORING, rules=(CallRule(0, "retry", attempts=Value(9)),))
    running = Running(call, FakeTool("noop", lambda _request, _context: 1), [])
    task = running.start()
    await sink.has_begun.wait()
    running.interrupt("cancel_requested")
    sink.go_on.set()
    report = await task
    assert (report.outcome["status"], report.rule) == ("ok", None)


# ---- one deadline ---------------------------------------------------------------------------------------------------


async def test_a_call_without_a_timeout_has_that_of_its_tool() -> None:
    tool, _ = waiting()
    tool.spec = ToolSpec("noop", "never answers", timeout=0.05)
    report = await Running(msgspec.structs.replace(CALL, rules=None), tool, []).start()
    assert report.outcome["error"]["message"] == "timed out after 0.05 s"
    assert report.outcome["error"]["kind"] == "timeout"


async def test_the_calls_own_timeout_wins_and_reaches_the_tool() -> None:
    observed: list[float | None] = []
    tool = FakeTool("noop", lambda request, _context: observed.append(request.timeout))
    tool.spec = ToolSpec("noop", "answers", timeout=60)
    await Running(msgspec.structs.replace(CALL, timeout=7.0), tool, []).start()
    await Running(CALL, tool, []).start()
    assert observed == [7.0, 60]


def test_tool_and_sinks_share_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_request: Request, _context: ToolContext) -> Any:
        await asyncio.sleep(20)
        return 1

    async def report_and_seconds() -> tuple[ToolReport, float]:
        SlowSink(monkeypatch)
        call = msgspec.structs.replace(STORING, timeout=40.0, rules=None)
        report = await Running(call, FakeTool("noop", answer), []).start()
        return report, asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        report, seconds = runner.run(report_and_seconds())
    assert report.outcome["error"]["message"] == "sink postgres: timed out after 40 s"
    assert seconds == pytest.approx(40)
