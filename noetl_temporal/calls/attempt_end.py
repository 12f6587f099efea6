"""Ends an attempt: evaluates the rules, then returns the report of the call, requests another attempt, or handles an
interruption.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from msgspec.structs import replace
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from noetl_activities.tool import Json
from noetl_compiler.language.defaults import MAX_ATTEMPTS
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.interruptions import MIN_DELAY, interruption_error
from noetl_temporal.calls.tool_outcome import failed_outcome
from noetl_temporal.machine.call import (
    AttemptCounts,
    AttemptRecord,
    PlainOutcome,
    RuleFailure,
    SinkRecord,
    ToolCall,
    ToolReport,
)
from noetl_temporal.machine.policy import Decision, RuleError, decide, failure_of, is_last_page
from noetl_temporal.machine.scope import LazyNames
from noetl_temporal.payloads.encryption_codec import UndecryptableValue, missing_key_failure
from noetl_temporal.payloads.stored_values import store_large_result
from noetl_temporal.payloads.value_store import ValueStore, retry_until_done

__all__ = ["MAX_DELAY", "AttemptEnd", "end_interrupted", "leave_to_another_worker"]

MAX_DELAY = 365 * 86_400.0
"""The maximum delay before an attempt, in seconds: an exponential backoff without ``max_delay`` soon exceeds the range
of dates.
"""

MISSING_KEY_DELAY = timedelta(seconds=5)
"""The delay before another attempt of a call that a worker could not decrypt."""

READ_RECORDS_SECONDS = 5.0
"""How long a cancelled attempt may take to read the records of earlier attempts."""


class AttemptEnd:
    """Ends one attempt. ``scope`` returns the names that rules see when the call has this outcome."""

    def __init__(
        self, call: ToolCall, log: CallLog, values: ValueStore, scope: Callable[[PlainOutcome], Mapping[str, Any]]
    ) -> None:
        self._call = call
        self._log = log
        self._values = values
        self._scope = scope

    async def conclude(
        self, outcome: PlainOutcome, *, may_retry: bool, sinks: tuple[SinkRecord, ...], is_called: bool, is_reused: bool
    ) -> ToolReport:
        """Apply the rules to the outcome, and return the report. Raises ApplicationError if a rule requests another
        attempt.
        """
        decision, rule_failure = self._decide(outcome)
        if decision.do == "retry" and self._log.interruption_reason == "cancelled":
            decision = Decision(indeterminate=decision.indeterminate)
        if decision.do == "retry" and not (may_retry and self._log.attempt_number < MAX_ATTEMPTS):
            decision = replace(decision, do="fail", delay=0.0, exhausted=True)
        self._log.end_attempt(
            status="ok" if outcome["status"] == "ok" else "error",
            error=outcome.get("error"),
            rule=decision.rule,
            do=decision.do,
            delay=decision.delay if decision.do == "retry" else None,
            exhausted=decision.exhausted or self._is_last_page(decision, outcome),
            indeterminate=decision.indeterminate,
            sinks=sinks,
            is_called=is_called,
            is_reused=is_reused,
        )
        if decision.do == "retry":
            await self._log.save()
            raise self._retry_error(outcome, decision)
        rule = None if rule_failure else decision.rule
        attempts, warnings = await self._log.all_records(), decision.warnings
        return await self._store_report(
            ToolReport(outcome, rule, decision.exhausted, attempts, rule_failure=rule_failure, warnings=warnings)
        )

    def _decide(self, outcome: PlainOutcome) -> tuple[Decision, RuleFailure | None]:
        """Return the decision of the rules, and the failure if a rule cannot be evaluated."""
        if not self._call.rules:
            return Decision(), None
        try:
            decision = decide(
                self._call.rules,
                outcome["status"],
                self._scope(outcome),
                self._log.used_attempts,
                retry_after=_error_of(outcome).get("retry_after"),
                jitter=random.random(),  # noqa: S311 - spreads retries, keeps no secret
            )
        except RuleError as error:
            return Decision("fail", error.rule), failure_of(error)
        return decision, None

    def _is_last_page(self, decision: Decision, outcome: PlainOutcome) -> bool:
        call, scope = self._call, LazyNames(lambda: self._scope(outcome))
        return is_last_page(call.rules or (), decision, scope, call.page)

    def _retry_error(self, outcome: PlainOutcome, decision: Decision) -> ApplicationError:
        error = _error_of(outcome)
        return ApplicationError(
            str(error.get("message") or f"{self._call.task} is called again"),
            type=f"{self._call.kind}.{error.get('code') or error.get('kind') or 'retry'}",
            next_retry_delay=max(MIN_DELAY, timedelta(seconds=min(MAX_DELAY, decision.delay))),
            category=ApplicationErrorCategory.BENIGN,
        )

    async def _store_report(self, report: ToolReport) -> ToolReport:
        """Store the result, or the whole report, if it is too large for history. Returns the report for history."""
        compact = _compact_report(report, self._log.counts)
        if self._values.stays_in_history(compact):
            return compact
        compact_report = await retry_until_done(
            "the result cannot be stored", lambda: self._store_large_result(compact)
        )
        await retry_until_done("the report cannot be stored", lambda: self._values.store(compact_report))
        return compact_report

    def _store_large_result(self, report: ToolReport) -> Awaitable[ToolReport]:
        """Return the report for history. The result of an item is not stored page by page, as that of its loop refers
        to it as a whole.
        """
        return store_large_result(report, self._values, is_paged=self._call.iteration is None)


def _compact_report(report: ToolReport, counts: AttemptCounts) -> ToolReport:
    """Return the report without values that history has elsewhere: the last worker, and counts that equal the number of
    records.
    """
    *before, last = report.attempts
    report = replace(report, attempts=(*before, replace(last, worker="")))
    return report if counts.used == counts.total == len(report.attempts) else replace(report, counts=counts)


async def leave_to_another_worker(log: CallLog, undecryptable: UndecryptableValue) -> NoReturn:
    """End an attempt of a call that this worker cannot decrypt, as if the worker had stopped.

    Raises ApplicationError, so that Temporal starts another attempt on any worker.
    """
    log.end_attempt(status="shutdown", is_called=False)
    await log.save()
    raise missing_key_failure(undecryptable, MISSING_KEY_DELAY)


async def end_interrupted(log: CallLog, is_called: bool) -> ToolReport:
    """Return the report of a call that was cancelled. For any other reason, raises ApplicationError, so that Temporal
    starts another attempt; CancelledError without a reason: the attempt is lost.
    """
    reason = log.interruption_reason
    if reason is None:
        raise asyncio.CancelledError
    log.end_attempt(status=reason, is_called=is_called)
    if reason == "cancelled":
        outcome = failed_outcome("cancelled", "the call was cancelled")
        return ToolReport(outcome, attempts=await _attempts_within_timeout(log), counts=log.counts)
    await log.save()
    raise interruption_error(reason)


async def _attempts_within_timeout(log: CallLog) -> tuple[AttemptRecord, ...]:
    try:
        async with asyncio.timeout(READ_RECORDS_SECONDS):
            return await log.all_records()
    except TimeoutError:
        return log.records


def _error_of(outcome: PlainOutcome) -> Mapping[str, Json]:
    return outcome.get("error") or {}
