"""Ends an attempt: evaluates the rules, then reports, requests another attempt, or handles an interruption."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from msgspec.structs import replace
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from noetl_activities.tool import Json
from noetl_compiler.language.defaults import MOST_ATTEMPTS
from noetl_temporal.call_log import CallLog
from noetl_temporal.encryption_codec import Locked, locked_error
from noetl_temporal.interruptions import INTERRUPTED
from noetl_temporal.machine.call import (
    AttemptCounts,
    AttemptRecord,
    PlainOutcome,
    RuleFailure,
    SinkRecord,
    ToolCall,
    ToolReport,
)
from noetl_temporal.machine.policy import Decision, RuleError, decide, is_last_page
from noetl_temporal.machine.scope import LazyNames
from noetl_temporal.stored_values import with_stored_result
from noetl_temporal.tool_outcome import refusal
from noetl_temporal.value_store import ValueStore, until_done

__all__ = ["AT_ONCE", "LONGEST_DELAY", "AttemptEnd", "handed_on", "interrupted"]

LONGEST_DELAY = 365 * 86_400.0
"""Seconds. An exponential backoff without ``max_delay`` soon exceeds the range of dates."""

AT_ONCE = timedelta(milliseconds=1)
"""The shortest delay that Temporal accepts: it treats zero as not set, and uses its own backoff."""

LOCKED_DELAY = timedelta(seconds=5)
"""Before another worker may take a call that one could not decrypt."""

LAST_WORDS_SECONDS = 5.0
"""How long a cancelled attempt may take to read the records of those before it."""


class AttemptEnd:
    """Ends one attempt. ``scope`` returns the names that rules see with an outcome."""

    def __init__(
        self, call: ToolCall, log: CallLog, values: ValueStore, scope: Callable[[PlainOutcome], Mapping[str, Any]]
    ) -> None:
        self._call = call
        self._log = log
        self._values = values
        self._scope = scope

    async def concluded(
        self, outcome: PlainOutcome, *, may_retry: bool, sinks: tuple[SinkRecord, ...], is_called: bool, is_taken: bool
    ) -> ToolReport:
        """Return the report with this outcome. Raises the error that asks Temporal for the next attempt."""
        decision, failed = self._decide(outcome)
        if decision.do == "retry" and self._log.stop_reason == "cancelled":
            decision = Decision(indeterminate=decision.indeterminate)
        if decision.do == "retry" and not (may_retry and self._log.number < MOST_ATTEMPTS):
            decision = replace(decision, do="fail", delay=0.0, exhausted=True)
        self._log.end(
            status="ok" if outcome["status"] == "ok" else "error",
            error=outcome.get("error"),
            rule=decision.rule,
            do=decision.do,
            delay=decision.delay if decision.do == "retry" else None,
            exhausted=decision.exhausted or self._is_last_page(decision, outcome),
            indeterminate=decision.indeterminate,
            sinks=sinks,
            is_called=is_called,
            is_taken=is_taken,
        )
        if decision.do == "retry":
            await self._log.hand_on()
            raise self._retry_error(outcome, decision)
        rule = None if failed else decision.rule
        attempts, mistakes = await self._log.known(), decision.mistakes
        return await self._store_report(
            ToolReport(outcome, rule, decision.exhausted, attempts, failed=failed, mistakes=mistakes)
        )

    def _decide(self, outcome: PlainOutcome) -> tuple[Decision, RuleFailure | None]:
        if not self._call.rules:
            return Decision(), None
        try:
            decision = decide(
                self._call.rules,
                outcome["status"],
                self._scope(outcome),
                self._log.used,
                retry_after=_error_of(outcome).get("retry_after"),
                jitter=random.random(),  # noqa: S311 - spreads retries, keeps no secret
            )
        except RuleError as error:
            return Decision("fail", error.rule), RuleFailure(error.message, error.rule)
        return decision, None

    def _is_last_page(self, decision: Decision, outcome: PlainOutcome) -> bool:
        call, scope = self._call, LazyNames(lambda: self._scope(outcome))
        return is_last_page(call.rules or (), decision, scope, call.page)

    def _retry_error(self, outcome: PlainOutcome, decision: Decision) -> ApplicationError:
        error = _error_of(outcome)
        return ApplicationError(
            str(error.get("message") or f"{self._call.task} is called again"),
            type=f"{self._call.kind}.{error.get('code') or error.get('kind') or 'retry'}",
            next_retry_delay=max(AT_ONCE, timedelta(seconds=min(LONGEST_DELAY, decision.delay))),
            category=ApplicationErrorCategory.BENIGN,
        )

    async def _store_report(self, report: ToolReport) -> ToolReport:
        """Store the report where Temporal looks for it. Returns the report for history."""
        short = _abridged(report, self._log.counts)
        if self._values.leaves_in_history(short):
            return short
        kept = await until_done("the result cannot be stored", lambda: self._with_stored_result(short))
        await until_done("the report cannot be stored", lambda: self._values.store(kept))
        return kept

    def _with_stored_result(self, report: ToolReport) -> Awaitable[ToolReport]:
        """A result of an item stays in one piece: that of the loop refers to it."""
        return with_stored_result(report, self._values, is_paged=self._call.iteration is None)


def _abridged(report: ToolReport, counts: AttemptCounts) -> ToolReport:
    """Return the report, with the counts that its attempts do not contain."""
    *before, last = report.attempts
    report = replace(report, attempts=(*before, replace(last, worker="")))
    return report if counts.used == counts.total == len(report.attempts) else replace(report, counts=counts)


async def handed_on(log: CallLog, locked: Locked) -> NoReturn:
    """End an attempt of a call that cannot be decrypted here, as one of a worker that stops.

    Raises the error with which Temporal runs the call again, on any worker.
    """
    log.end(status="shutdown", is_called=False)
    await log.hand_on()
    raise locked_error(locked, LOCKED_DELAY)


async def interrupted(log: CallLog, is_called: bool) -> ToolReport:
    """Return the report of a call that was cancelled. Raises the error that makes Temporal run another attempt, or
    CancelledError if no reason is known: the attempt is lost.
    """
    reason = log.stop_reason
    if reason is None:
        raise asyncio.CancelledError
    log.end(status=reason, is_called=is_called)
    if reason == "cancelled":
        outcome = refusal("cancelled", "the call was cancelled")
        return ToolReport(outcome, attempts=await _attempts_within_timeout(log), counts=log.counts)
    await log.hand_on()
    kind, message = INTERRUPTED[reason]
    raise ApplicationError(message, type=kind, next_retry_delay=AT_ONCE, category=ApplicationErrorCategory.BENIGN)


async def _attempts_within_timeout(log: CallLog) -> tuple[AttemptRecord, ...]:
    try:
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            return await log.known()
    except TimeoutError:
        return log.latest


def _error_of(outcome: PlainOutcome) -> Mapping[str, Json]:
    return outcome.get("error") or {}
