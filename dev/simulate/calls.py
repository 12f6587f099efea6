"""Performs a call as its activity does, in simulated time: attempts, losses, sinks, rules and the report."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from dev.simulate.sub_playbooks import outcome_of
from dev.simulate.tool_outcomes import ToolOutcomes
from noetl_compiler.language.tools import PLAYBOOK
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.calls.run_tool import MAX_LOST
from noetl_temporal.machine.call import AttemptRecord, PlainOutcome, SinkRecord, ToolCall, ToolReport
from noetl_temporal.machine.policy import Decision, allows, decide, failure_of
from noetl_temporal.machine.scope import Chain, call_names, sink_config
from noetl_temporal.workflows.performer import HEARTBEAT_TIMEOUT

__all__ = [
    "NO_FAULTS",
    "UNREPORTED_LOSS",
    "FaultRates",
    "Performed",
    "broken_report",
    "cancelled_report",
    "decision_on",
    "lost_report",
    "perform",
]

UNREPORTED_LOSS = 0.3
"""The probability that the shell learns of a lost attempt only that the call has ended."""


class Performed(NamedTuple):
    """The report of a call that takes ``ms`` until it ends, and what its sinks stored: a table and a row each."""

    ms: int
    report: ToolReport
    stored: list[str]


class FaultRates(NamedTuple):
    """How likely an attempt is lost with its worker, or meets a shutdown, and the longest a tool takes."""

    lost: float
    shutdown: float
    longest_ms: int
    sink_fails: float = 0.0
    outage: float = 0.0


NO_FAULTS = FaultRates(lost=0.0, shutdown=0.0, longest_ms=20)


def perform(
    call: ToolCall, at: int, tool_outcomes: ToolOutcomes, rng: random.Random, fault_rates: FaultRates
) -> Performed:
    """Return how a call that begins now ends, if nobody cancels it."""
    if call.kind == PLAYBOOK:
        return _call_playbook(call, tool_outcomes, rng, fault_rates)
    return _Activity(call, at, tool_outcomes, rng, fault_rates).run()


def _call_playbook(
    call: ToolCall, tool_outcomes: ToolOutcomes, rng: random.Random, fault_rates: FaultRates
) -> Performed:
    """Perform the call of a playbook: no worker loses it, and the machine evaluates its rules."""
    ms = max(1, int(fault_rates.longest_ms * rng.random() ** 3))
    outcome, is_waited = outcome_of(call, tool_outcomes)
    return Performed(ms if is_waited else 1, ToolReport(outcome, is_decided=False), [])


def cancelled_report() -> ToolReport:
    """Return the report of a call that was cancelled before it reported."""
    return ToolReport({"status": "error", "error": {"kind": "cancelled", "message": "cancelled", "retryable": False}})


def lost_report(attempts: tuple[AttemptRecord, ...]) -> ToolReport:
    """Return the report that the shell makes for a call that no worker finished."""
    error = {"kind": "worker_lost", "message": "no worker finished the call", "retryable": True}
    return ToolReport({"status": "error", "error": error}, attempts=attempts, is_decided=False)


def decision_on(call: ToolCall, outcome: PlainOutcome, used_attempts: int, jitter: float) -> Decision:
    """Evaluate the rules of the call for the outcome of its last counted attempt. Raises TemplateFailure."""
    return decide(
        call.rules or (),
        outcome["status"],
        _scope_of(call, outcome, used_attempts),
        max(1, used_attempts),
        jitter=jitter,
    )


def _scope_of(call: ToolCall, outcome: PlainOutcome, used_attempts: int) -> Chain:
    names = call_names(call.names, call.step, call.kind, outcome, max(1, used_attempts), call.page or 1)
    return Chain(call.scope, names) if call.is_guarded else Chain(names, call.scope)


def broken_report(outcome: PlainOutcome, attempts: tuple[AttemptRecord, ...], failure: TemplateFailure) -> ToolReport:
    """Return the report of a call whose rules could not be evaluated."""
    return ToolReport(outcome, attempts=attempts, rule_failure=failure_of(failure))


class _Activity:
    def __init__(
        self, call: ToolCall, at: int, tool_outcomes: ToolOutcomes, rng: random.Random, fault_rates: FaultRates
    ) -> None:
        self.call, self.at, self.now = call, at, at
        self.tool_outcomes, self.rng, self.fault_rates = tool_outcomes, rng, fault_rates
        self.records: list[AttemptRecord] = []
        self.used_attempts = 0
        self.stored: list[str] = []

    def run(self) -> Performed:
        while True:
            report = self._attempt()
            if report is not None:
                if self.rng.random() < self.fault_rates.outage:
                    self.now += 60_000
                return Performed(
                    self.now - self.at, msgspec.convert(msgspec.to_builtins(report), ToolReport), self.stored
                )

    def _attempt(self) -> ToolReport | None:
        started, fate = self.now, self.rng.random()
        self.now += max(1, int(self.fault_rates.longest_ms * self.rng.random() ** 3))
        if fate < self.fault_rates.lost:
            return self._lose(started)
        if fate < self.fault_rates.lost + self.fault_rates.shutdown:
            self._record(started, "shutdown")
            return None
        self.used_attempts += 1
        call = self.call
        outcome = (
            call.outcome_to_store
            if call.outcome_to_store is not None
            else self.tool_outcomes.outcome(call.kind, call.key, self.used_attempts)
        )
        return self._report(started, outcome)

    def _lose(self, started: int) -> ToolReport | None:
        self.now += int(HEARTBEAT_TIMEOUT.total_seconds() * 1000)
        self._record(started, "lost")
        if not self.call.idempotent:
            error = {"kind": "unknown_outcome", "message": "the call may have been made", "retryable": False}
            outcome: PlainOutcome = {"status": "error", "error": error}
            try:
                return self._decided_report(outcome, self._decide(outcome))
            except TemplateFailure as failure:
                return self._broken_report(outcome, failure)
        too_often = sum(record.status == "lost" for record in self.records) >= MAX_LOST
        return lost_report(tuple(self.records)) if too_often or self.rng.random() < UNREPORTED_LOSS else None

    def _report(self, started: int, outcome: PlainOutcome) -> ToolReport | None:
        sinks, outcome = self._sinks(outcome)
        error = outcome.get("error")
        try:
            decision = self._decide(outcome)
        except TemplateFailure as failure:
            self._record(started, outcome["status"], error=error, sinks=sinks)
            return self._broken_report(outcome, failure)
        do, delay = decision.do, decision.delay
        self._record(started, outcome["status"], error=error, rule=decision.rule, do=do, sinks=sinks)
        if do != "retry":
            return self._decided_report(outcome, decision)
        self.now += int(min(max(delay, 0.0) if delay == delay else 0.0, 1e6) * 1000)
        return None

    def _sinks(self, outcome: PlainOutcome) -> tuple[tuple[SinkRecord, ...], PlainOutcome]:
        """Return what the sinks stored, and the outcome: if one of them fails, an error, and nothing is stored."""
        records: list[SinkRecord] = []
        rows: list[str] = []
        scope = self._scope(outcome)
        for sink in self.call.sinks if outcome["status"] == "ok" else ():
            try:
                if not allows(sink.guard, "ok", scope):
                    continue
                config = sink_config(sink.config, scope)
                error = {"kind": "sql_integrity", "message": "the sink failed", "retryable": False}
                bad = self.rng.random() < self.fault_rates.sink_fails
            except TemplateFailure as failure:
                error, bad, config = {"kind": "template", "message": failure.message, "retryable": False}, True, {}
            records.append(SinkRecord(sink.kind, sink.key, "error" if bad else "ok", self.now, self.now))
            if bad:
                return tuple(records), {"status": "error", "error": error}
            rows.append(f"{config.get('table')} {config.get('data')}")
        self.stored += rows
        return tuple(records), outcome

    def _scope(self, outcome: PlainOutcome) -> Chain:
        return _scope_of(self.call, outcome, self.used_attempts)

    def _decide(self, outcome: PlainOutcome) -> Decision:
        return decision_on(self.call, outcome, self.used_attempts, self.rng.random())

    def _record(self, started: int, status: Any, **fields: Any) -> None:
        self.records.append(AttemptRecord(len(self.records) + 1, started, status, ended=self.now, **fields))

    def _decided_report(self, outcome: PlainOutcome, decision: Decision) -> ToolReport:
        attempts, warnings = tuple(self.records), decision.warnings
        return ToolReport(outcome, decision.rule, decision.exhausted, attempts, warnings=warnings)

    def _broken_report(self, outcome: PlainOutcome, failure: TemplateFailure) -> ToolReport:
        return broken_report(outcome, tuple(self.records), failure)
