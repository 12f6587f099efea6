"""The records of attempts on their way: never over 4 KB a heartbeat, never wrong about how many there were."""

from __future__ import annotations

import dataclasses
import os
import socket
from typing import Any

import msgspec
import pytest
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_compiler.graph import Value
from noetl_temporal.calls import call_log
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.machine.call import AttemptCounts, CallRule, ToolCall, ToolReport
from noetl_temporal.messages.attempt_details import attempt_counts
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.stack.addresses import Addresses

from .servers import proxy_to

LIMIT = 4096
RULE = CallRule(0, "retry", "error", attempts=Value(500))
CALL = ToolCall("c", "1/k", "step", "task", "noop", 1, "usual", rules=(RULE,))


class Attempts:
    """The attempts of a call, each with what the one before it left in its last heartbeat."""

    def __init__(self, values: ValueStore) -> None:
        self._values = values
        self._details: list[Any] = []
        self.number = 0
        self.largest = 0

    async def run(self, answer: Any, beats: int | None = None) -> ToolReport | None:
        """One attempt: its report, or None when it is to be followed by another. ``beats`` is how many of its
        heartbeats reach the server: none for an attempt that is lost at once.
        """
        self.number += 1
        environment = ActivityEnvironment()
        environment.info = dataclasses.replace(
            environment.info, attempt=self.number, heartbeat_details=list(self._details)
        )
        heartbeats: list[list[Any]] = []
        environment.on_heartbeat = lambda *details: heartbeats.append(
            [msgspec.to_builtins(detail) for detail in details]
        )
        tool = FakeTool("noop", lambda _request, _context: answer)
        try:
            return await environment.run(tool_activity(tool, CredentialSource(environment={}), self._values), CALL)
        except ApplicationError:
            return None
        finally:
            self.largest = max([self.largest, *(len(msgspec.json.encode(details)) for details in heartbeats)])
            last_beats = heartbeats if beats is None else heartbeats[:beats]
            self._details = last_beats[-1] if last_beats else self._details


def busy(number: int) -> Outcome:
    return Outcome("error", error=ErrorInfo("http", f"busy {number} " + "\N{SNOWMAN}" * 600))


def counts_of(report: ToolReport) -> AttemptCounts:
    """Left out where the attempts have them."""
    return report.counts if report.counts.total else attempt_counts(report.attempts)


async def failed(attempts: Attempts, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert await attempts.run(busy(number)) is None


async def test_many_attempts_are_all_in_the_report(servers: Addresses) -> None:
    attempts = Attempts(ValueStore(data_converter(servers.postgres)))
    await failed(attempts, 1, 60)
    report = await attempts.run(1)
    assert report is not None
    assert [attempt.number for attempt in report.attempts] == list(range(1, 62))
    assert all(
        (attempt.error or {})["message"].startswith(f"busy {attempt.number} ") for attempt in report.attempts[:-1]
    )
    assert counts_of(report) == AttemptCounts(total=61, used=61, ok=1)
    assert attempts.largest < LIMIT


async def test_without_a_store_the_first_and_the_last_are_reported_and_all_are_counted() -> None:
    attempts = Attempts(ValueStore(data_converter()))
    await failed(attempts, 1, 40)
    await attempts.run(busy(0), beats=0)
    await attempts.run(busy(0), beats=1)
    report = await attempts.run(1)
    assert report is not None
    assert report.counts == AttemptCounts(total=43, used=41, ok=1, lost=2)
    numbers = [attempt.number for attempt in report.attempts]
    assert numbers[0] == 1
    assert numbers[-3:] == [41, 42, 43]
    assert [attempt.status for attempt in report.attempts[-3:]] == ["lost", "lost", "ok"]
    assert attempts.largest < LIMIT


async def test_a_store_that_is_unavailable_costs_records_and_no_attempt(servers: Addresses) -> None:
    async with proxy_to(servers.postgres) as proxy:
        attempts = Attempts(ValueStore(data_converter(proxy.dsn)))
        await failed(attempts, 1, 10)
        await proxy.disconnect()
        await failed(attempts, 11, 20)
        await proxy.restore()
        await failed(attempts, 21, 25)
        report = await attempts.run(1)
    assert report is not None
    assert report.counts == AttemptCounts(total=26, used=26, ok=1)
    numbers = [attempt.number for attempt in report.attempts]
    assert numbers == sorted(set(numbers))
    assert {1, 2, 3, 25, 26} <= set(numbers)
    assert attempts.largest < LIMIT


@pytest.mark.parametrize("number", [1, 7])
async def test_a_reset_activity_counts_on(number: int) -> None:
    attempts = Attempts(ValueStore(data_converter()))
    await failed(attempts, 1, number)
    attempts.number = 0
    await failed(attempts, number + 1, number + 1)
    report = await attempts.run(1)
    assert report is not None
    assert counts_of(report) == AttemptCounts(total=number + 2, used=number + 2, ok=1)


def test_the_name_of_the_host_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def gethostname() -> str:
        requests.append("name")
        return "here"

    monkeypatch.setattr(socket, "gethostname", gethostname)
    call_log.worker_name.cache_clear()
    try:
        assert [call_log.worker_name() for _ in range(3)] == [f"{os.getpid()}@here"] * 3
        assert requests == ["name"]
    finally:
        call_log.worker_name.cache_clear()


def test_the_converter_is_the_same_for_every_value() -> None:
    """The SDK asks at every payload of an activation, three times."""
    converter = data_converter()
    assert converter.with_context(WorkflowSerializationContext(namespace="n", workflow_id="w")) is converter
