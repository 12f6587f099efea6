"""Renews the lease of a claimed row while a call works on the row, on a worker that may be frozen meanwhile.

A worker that was frozen past its lease learns so from its next renewal, or reports the outcome of its call; then the
database refuses the acknowledgement, if another has claimed the row.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from dev.simulate.calls import Performed, broken_report, decision_on
from dev.simulate.tables import Tables
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import AttemptRecord, LeaseRenewal, PlainOutcome, ToolCall, ToolReport

__all__ = ["Renewals", "freeze_worker", "leases_of"]

FROZEN = 0.1
"""The probability that a worker is frozen during a call."""

LAST = 1_000_000
"""A number of attempts after which no rule retries: a lost lease is lost for all further attempts."""


class World(Protocol):
    """The part of the world that renewals use."""

    now: int
    rng: random.Random

    def later(self, ms: int, act: Callable[[], None]) -> object: ...


def leases_of(call: ToolCall) -> list[LeaseRenewal]:
    """Return the leases that a call renews: of its row, and of the rows that the loops around it process."""
    renewals: list[LeaseRenewal] = []
    lease = call.lease
    while lease is not None:
        renewals.append(lease)
        lease = lease.outer
    return renewals


def freeze_worker(world: World, lease: LeaseRenewal, done: Performed) -> tuple[Performed, bool]:
    """Return the call, and whether its worker is frozen during it for longer than the lease, which delays its end."""
    if world.rng.random() >= FROZEN:
        return done, False
    return done._replace(ms=done.ms + int(lease.seconds * world.rng.choice((1100, 1500, 4000)))), True


class Renewals:
    """Renews the lease while ``is_running``; ``on_lost`` receives the report of a call that finds its lease lost."""

    def __init__(
        self,
        world: World,
        tables: Tables,
        call: ToolCall,
        lease: LeaseRenewal,
        is_running: Callable[[], bool],
        on_lost: Callable[[ToolReport], None],
    ) -> None:
        self._world, self._tables, self._call, self._lease = world, tables, call, lease
        self._is_running, self._on_lost = is_running, on_lost
        is_due = world.now - lease.since >= lease.interval * 1000
        world.later(1 if is_due else self._interval, self._renew)

    @property
    def _interval(self) -> int:
        return max(1, int(self._lease.interval * 1000))

    def _renew(self) -> None:
        if not self._is_running():
            return
        config = self._lease.config
        result = self._tables.perform(str(config["query"]), list(config["params"]), self._call.iteration)
        if result["row_count"]:
            self._world.later(self._interval, self._renew)
        else:
            self._on_lost(self._report())

    def _report(self) -> ToolReport:
        error = {"kind": "lease_lost", "message": "the lease has expired", "code": None, "retryable": False}
        outcome: PlainOutcome = {"status": "error", "error": error}
        attempts = (AttemptRecord(1, self._world.now, "error", ended=self._world.now, error=error),)
        try:
            decision = decision_on(self._call, outcome, LAST, 0.0)
        except TemplateFailure as failure:
            return broken_report(outcome, attempts, failure)
        return ToolReport(outcome, decision.rule, decision.exhausted, attempts, warnings=decision.warnings)
