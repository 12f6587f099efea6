"""Safeguards of loops over cursors, disabled one at a time (mutations.py)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dev.simulate.mutation import Mutation, replaced_by, wrapped_by
from noetl_temporal.machine.loops import cursor
from noetl_temporal.machine.loops.cursor import CursorMachine
from noetl_temporal.machine.state import state_snapshot

__all__ = ["CLAIM_MUTATIONS"]


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


def _as_many_as_a_claim_may(self: Any) -> int:
    return int(self._limits.max_rows)


def _any_claimer(self: Any) -> int | None:
    return next((number for number, claimer in self._progress.claimers.items() if claimer.waiting), None)


def _whatever_runs(self: Any) -> bool:
    return bool(self._may_claim() and self._rows_to_claim() > 0)


def _stays_drained(row_over: Any, self: Any, run: Any, end: Any, cause: Any) -> None:
    was_drained = self._progress.is_drained
    row_over(self, run, end, cause)
    self._progress.is_drained = was_drained


def _acknowledges_what_was_cut_off(action: Any, self: Any, run: Any, end: Any) -> Any:
    cut_off = action(self, run, end)
    return "ack" if cut_off == "release" and self._cursor.ack is not None else cut_off


def _snapshot_without_claimers(self: Any) -> Any:
    return state_snapshot(replace(self.state, cursor=None))


def _nothing(*_: Any) -> None:
    pass


CLAIM_MUTATIONS = (
    Mutation("24: a refused acknowledgement fails the row", cursor, "has_changed_rows", replaced_by(_yes)),
    Mutation("24: an acknowledgement that held is one", cursor, "has_changed_rows", replaced_by(_no)),
    Mutation("24: a stop gives rows back", CursorMachine, "_is_exempt", replaced_by(_no)),
    Mutation("24: rows of a claim that is stored", CursorMachine, "_claims", replaced_by(_no)),
    Mutation("24: every row is settled", CursorMachine, "_action", replaced_by(_nothing)),
    Mutation("24: what was cut off is released", CursorMachine, "_action", wrapped_by(_acknowledges_what_was_cut_off)),
    Mutation("24: limit counts claimed rows", CursorMachine, "_rows_to_claim", replaced_by(_as_many_as_a_claim_may)),
    Mutation("24: row_concurrency", CursorMachine, "_next_claimer", replaced_by(_any_claimer)),
    Mutation("24: max_in_flight claimers", CursorMachine, "_can_claim", replaced_by(_whatever_runs)),
    Mutation("24: until no row is left", CursorMachine, "_row_over", wrapped_by(_stays_drained)),
    Mutation("24: at most max_attempts", cursor, "may_be_released", replaced_by(_yes)),
    Mutation("24: a failed row is given back", cursor, "may_be_released", replaced_by(_no)),
    Mutation("24: claimers outlive a snapshot", CursorMachine, "snapshot", replaced_by(_snapshot_without_claimers)),
)
"""Each must be detected."""
