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
from noetl_temporal.attempt_log import MESSAGE_CHARACTERS
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.call import AttemptRecord, CallRule, ToolCall, ToolReport
from noetl_temporal.run_tool import LONGEST_DELAY, MAX_ATTEMPTS, tool_activity

FAILED = AttemptRecord(1, 1000, "error", ended=1001)
BUSY = Outcome("error", error=ErrorInfo("http", "busy" * MESSAGE_CHARACTERS))


async def attempt(rule: CallRule, answer: Any, earlier: int = 0, limit: int = INLINE_BYTES) -> ToolReport:
    call = ToolCall("c", "k", 1, "step", "task", "noop", 1, "v10", rules=(rule,))
    log = [msgspec.structs.replace(FAILED, number=number) for number in range(1, earlier + 1)]
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info, attempt=earlier + 1, heartbeat_details=[msgspec.to_builtins(log)]
    )
    tool = FakeTool("noop", lambda _request, _context: answer)
    report: ToolReport = await environment.run(tool_activity(tool, CredentialSource(environment={}), limit), call)
    return report


async def test_a_delay_that_no_date_can_say_is_cut() -> None:
    with pytest.raises(ApplicationError) as raised:
        await attempt(CallRule(0, "retry", "error", attempts=2000, delay=1e30), BUSY)
    assert raised.value.next_retry_delay == timedelta(seconds=LONGEST_DELAY)


async def test_a_rule_cannot_fill_the_log_without_end() -> None:
    report = await attempt(CallRule(0, "retry", "error", attempts=10 * MAX_ATTEMPTS), BUSY, earlier=MAX_ATTEMPTS - 1)
    assert report.exhausted
    assert len(report.attempts) == MAX_ATTEMPTS


async def test_the_log_has_an_errors_beginning_and_the_outcome_its_whole_text() -> None:
    report = await attempt(CallRule(0, "retry", "error", attempts=1), BUSY)
    assert report.outcome["error"]["message"] == "busy" * MESSAGE_CHARACTERS
    logged = report.attempts[-1].error
    assert logged is not None
    assert len(logged["message"]) == MESSAGE_CHARACTERS + len("...")


async def test_a_result_that_temporal_cannot_carry_is_an_error_that_says_so() -> None:
    report = await attempt(CallRule(0, "continue", "ok"), "x" * 2000, limit=1000)
    assert report.outcome["error"]["kind"] == "too_large"
    assert "2,0" in report.outcome["error"]["message"]


async def test_a_result_with_half_a_character_is_an_error_too() -> None:
    report = await attempt(CallRule(0, "continue", "ok"), "\ud800")
    assert report.outcome["error"]["kind"] == "internal"


async def test_an_attempts_rules_know_the_time() -> None:
    report = await attempt(CallRule(0, "retry", "error", "{{ now().year > 2000 }}", attempts=1), BUSY)
    assert report.exhausted
