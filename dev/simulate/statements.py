"""Performs a statement of a cursor as its activity does: at some time it takes effect in the database, once.

An attempt may be lost with its worker before or after the statement, and the database may be unavailable. The ledger
has the outcome, so a repeated attempt finds it there and changes nothing (semantics.md 26a).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from dev.simulate.calls import UNREPORTED_LOSS, FaultRates, decision_on, lost_report
from dev.simulate.tables import Tables
from noetl_temporal.calls.run_tool import MAX_LOST
from noetl_temporal.machine.call import AttemptRecord, PlainOutcome, ToolCall, ToolReport
from noetl_temporal.workflows.performer import HEARTBEAT_TIMEOUT

__all__ = ["Statement", "is_statement"]

LABELS = ("claim", "ack", "release")
LONGEST_MS = 60


class World(Protocol):
    """The part of the world that a statement uses."""

    now: int
    rng: random.Random

    def later(self, ms: int, act: Callable[[], None]) -> object: ...


def is_statement(call: ToolCall) -> bool:
    """Whether the call is a statement of a cursor."""
    return call.kind == "postgres" and call.task in LABELS and "query" in call.config


class Statement:
    """Runs until it has called ``on_end`` with a report, or is ``off`` because someone cancelled it."""

    def __init__(
        self,
        world: World,
        tables: Tables,
        fault_rates: FaultRates,
        call: ToolCall,
        on_end: Callable[[ToolReport], None],
    ) -> None:
        self.off = False
        self._world, self._tables, self._fault_rates, self._call, self._on_end = (
            world,
            tables,
            fault_rates,
            call,
            on_end,
        )
        self._records: list[AttemptRecord] = []
        self._used = 0
        self._outcome_in_ledger: PlainOutcome | None = None
        self._later(self._begin)

    def _later(self, act: Callable[[], None], ms: int = 0) -> None:
        longest = self._world.rng.choice((2, LONGEST_MS))
        self._world.later(ms + self._world.rng.randint(1, longest), lambda: None if self.off else act())

    def _begin(self) -> None:
        started = self._world.now
        if self._is_lost():
            self._lose(started)
            return
        self._used += 1
        outcome = self._outcome()
        if self._is_lost():
            self._used -= 1
            self._later(lambda: self._lose(started))
        else:
            self._later(lambda: self._report(started, outcome))

    def _is_lost(self) -> bool:
        return self._world.rng.random() < self._fault_rates.lost / 2

    def _outcome(self) -> PlainOutcome:
        if self._outcome_in_ledger is not None:
            return self._outcome_in_ledger
        if self._world.rng.random() < self._fault_rates.sink_fails:
            is_away = self._world.rng.random() < 0.8
            kind = "connection" if is_away else "sql_integrity"
            return {"status": "error", "error": {"kind": kind, "message": "no", "code": None, "retryable": is_away}}
        config: dict[str, Any] = self._call.config
        result = self._tables.perform(config["query"], config["params"], self._call.iteration)
        self._outcome_in_ledger = {"status": "ok", "result": result}
        return self._outcome_in_ledger

    def _lose(self, started: int) -> None:
        self._record(started, "lost")
        too_often = sum(record.status == "lost" for record in self._records) >= MAX_LOST
        if too_often or self._world.rng.random() < UNREPORTED_LOSS:
            self._on_end(lost_report(tuple(self._records)))
        else:
            self._later(self._begin, int(HEARTBEAT_TIMEOUT.total_seconds() * 1000))

    def _report(self, started: int, outcome: PlainOutcome) -> None:
        decision = decision_on(self._call, outcome, self._used, self._world.rng.random())
        self._record(started, outcome["status"], error=outcome.get("error"), rule=decision.rule, do=decision.do)
        if decision.do == "retry":
            self._later(self._begin, int(decision.delay * 1000))
        else:
            self._on_end(ToolReport(outcome, decision.rule, decision.exhausted, tuple(self._records)))

    def _record(self, started: int, status: Any, **fields: Any) -> None:
        now = self._world.now
        self._records.append(AttemptRecord(len(self._records) + 1, started, status, ended=now, **fields))
