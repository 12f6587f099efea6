"""What one attempt makes of its outcome, its rules and the log of the attempts before."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler.graph import Span, Value
from noetl_compiler.language.defaults import MAX_ATTEMPTS
from noetl_temporal.calls.attempt_end import MAX_DELAY
from noetl_temporal.calls.call_log import MESSAGE_CHARACTERS
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.machine.call import AttemptCounts, AttemptRecord, CallRule, RuleFailure, ToolCall, ToolReport
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

FAILED = AttemptRecord(1, 1000, "error", ended=1001)
BUSY = Outcome("error", error=ErrorInfo("http", "busy" * MESSAGE_CHARACTERS))


async def attempt(rule: CallRule, answer: Any, earlier: int = 0, limit: int | None = None) -> ToolReport:
    call = ToolCall("c", "1/k", "step", "task", "noop", 1, "usual", rules=(rule,))
    last = (msgspec.structs.replace(FAILED, number=earlier),) if earlier else ()
    details = Details(
        last, AttemptCounts(earlier - 1, earlier - 1) if earlier else AttemptCounts(), temporal_attempt=earlier
    )
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, attempt=earlier + 1, heartbeat_details=[msgspec.to_builtins(details)]
    )
    tool = FakeTool("noop", lambda _request, _context: answer)
    values = ValueStore(data_converter(), limit)
    report: ToolReport = await environment.run(tool_activity(tool, CredentialSource(environment={}), values), call)
    return report


async def test_a_delay_beyond_the_last_date_is_capped() -> None:
    with pytest.raises(ApplicationError) as failure:
        await attempt(
            CallRule(0, "retry", "error", attempts=Value(2000), delay=Value(86400), backoff="exponential"),
            BUSY,
            earlier=900,
        )
    assert failure.value.next_retry_delay == timedelta(seconds=MAX_DELAY)


@pytest.mark.parametrize("delay", [0, 1e-9])
async def test_without_a_delay_the_next_attempt_follows_at_once(delay: float) -> None:
    """Temporal would take 0 for no delay given, and wait by a backoff of its own, up to half a minute."""
    with pytest.raises(ApplicationError) as failure:
        await attempt(CallRule(0, "retry", "error", attempts=Value(3), delay=Value(delay)), BUSY)
    assert failure.value.next_retry_delay is not None
    assert timedelta(0) < failure.value.next_retry_delay < timedelta(seconds=0.01)


async def test_a_rule_cannot_fill_the_log_endlessly() -> None:
    report = await attempt(
        CallRule(0, "retry", "error", attempts=Value(10 * MAX_ATTEMPTS)), BUSY, earlier=MAX_ATTEMPTS - 1
    )
    assert report.exhausted
    assert report.attempts[-1].number == MAX_ATTEMPTS
    assert report.counts == AttemptCounts(MAX_ATTEMPTS, MAX_ATTEMPTS)


async def test_the_log_has_an_errors_beginning_and_the_outcome_its_whole_text() -> None:
    report = await attempt(CallRule(0, "retry", "error", attempts=Value(1)), BUSY)
    assert report.outcome["error"]["message"] == "busy" * MESSAGE_CHARACTERS
    logged_error = report.attempts[-1].error
    assert logged_error is not None
    assert len(logged_error["message"]) == MESSAGE_CHARACTERS + len("...")


async def test_a_result_that_is_too_large_for_temporal_is_an_error() -> None:
    report = await attempt(CallRule(0, "continue", "ok"), "x" * 2000, limit=1000)
    assert report.outcome["error"]["kind"] == "too_large"
    assert "2,0" in report.outcome["error"]["message"]


async def test_a_result_with_half_a_character_is_an_error_too() -> None:
    report = await attempt(CallRule(0, "continue", "ok"), "\ud800")
    assert report.outcome["error"]["kind"] == "internal"


async def test_an_attempts_rules_know_the_time() -> None:
    report = await attempt(CallRule(0, "retry", "error", "{{ now().year > 2000 }}", attempts=Value(1)), BUSY)
    assert report.exhausted


async def test_a_rule_that_cannot_be_evaluated_is_reported_with_the_attempts() -> None:
    soon = CallRule(4, "retry", "error", delay=Value("{{ output.error.message[:4] }}", {"": Span(3, 1, 3, 9)}))
    report = await attempt(soon, BUSY, earlier=1)
    assert report.rule_failure == RuleFailure("delay is 'busy', expected seconds or a duration like 30s", 4)
    assert [attempt.status for attempt in report.attempts] == ["error", "error"]


async def test_the_delay_is_what_the_outcome_says() -> None:
    rule = CallRule(0, "retry", "error", delay=Value("{{ output.error.retry_after + 1 }}", {"": Span(3, 1, 3, 9)}))
    with pytest.raises(ApplicationError) as failure:
        await attempt(rule, Outcome("error", error=ErrorInfo("http", "busy", retry_after=7.0)))
    assert failure.value.next_retry_delay == timedelta(seconds=8)


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("levels", [90, 350, 100_000])
async def test_a_result_that_contains_itself_is_an_error_at_once(levels: int) -> None:
    """Masking walks through it; whatever is raised there would be retried without end."""

    async def answer(_request: Request, context: ToolContext) -> Any:
        await context.credential("mine")
        return nest(levels)

    source = CredentialSource(environment={"NOETL_CREDENTIAL_MINE": '{"type": "bearer", "token": "hush-hush"}'})
    report = await execute(FakeTool("noop", answer), source)
    if levels == 90:
        assert report.outcome["result"] == nest(90)
    else:
        assert report.outcome["status"] == "error"
        assert report.outcome["error"]["kind"] == "too_large"
        assert "more than 200 levels of nested lists and mappings" in report.outcome["error"]["message"]
        assert not report.outcome["error"].get("retryable")


async def test_a_fault_of_ours_ends_the_call(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """And the message has nothing of the value."""

    def raise_bug(*_: Any) -> Any:
        raise RuntimeError("hush"[::-1])

    monkeypatch.setattr("noetl_temporal.calls.run_tool.limit_size", raise_bug)
    report = await execute(FakeTool("noop", lambda _request, _context: 1), CredentialSource(environment={}))
    assert report.outcome["error"]["kind"] == "internal"
    assert "RuntimeError" in report.outcome["error"]["message"]
    assert "RuntimeError" in caplog.text
    assert "hush"[::-1] not in f"{report} {caplog.text}"
    assert [attempt.status for attempt in report.attempts] == ["error"]


async def execute(tool: FakeTool, source: CredentialSource) -> ToolReport:
    call = ToolCall("c", "1/k", "step", "task", "noop", 1, "usual")
    activity = tool_activity(tool, source, ValueStore(data_converter()))
    report: ToolReport = await ActivityEnvironment().run(activity, call)
    return report
