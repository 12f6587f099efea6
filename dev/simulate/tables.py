"""Simulated tables whose rows are claimed, and other runs that claim rows of the same tables.

Only the database decides who holds a row: a statement names the token of a claim, and changes no row that has another
token. Each statement that took effect, or was refused, is a `RowChange`: the invariants of claims
(claims.py) are checked on these, not on what the machine reports.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

__all__ = ["RowChange", "Tables"]

NEW, RIVAL = "new", "rival"
MOST_ROWS = 12
NEVER_EXPIRES = 10**9
"""The lease in seconds of a row that nobody acknowledges."""


class RowChange(NamedTuple):
    """A statement that reached the database: ``rows`` are the ids of those that it changed, ``ack_status``
    is the status in an acknowledgement, ``attempts`` the number of claims of each claimed row so far. ``iteration`` is
    that of the call, if it has one.
    """

    at: int
    action: str
    table: str
    token: str
    rows: tuple[int, ...]
    ack_status: str = ""
    iteration: int | None = None
    attempts: tuple[int, ...] = ()


@dataclass
class Row:
    """One row: whoever has the ``token`` holds it, ``until`` another may claim it."""

    id: int
    status: str = NEW
    token: str = ""
    until: int = 0
    attempts: int = 0


class Clock(Protocol):
    """The part of the world that the tables use."""

    now: int

    def later(self, ms: int, act: Callable[[], None]) -> object: ...


class Tables:
    """All tables. Each is created at its first claim, with a random number of rows."""

    def __init__(self, clock: Clock, seed: int, rivals: str) -> None:
        """``rivals`` draws what other runs do; none when empty."""
        self.row_changes: list[RowChange] = []
        self._clock = clock
        self._seed = seed
        self._rng = random.Random(rivals) if rivals else None
        self._tables: dict[str, list[Row]] = {}

    def perform(self, query: str, params: list[Any], iteration: int | None) -> dict[str, Any]:
        """Perform a statement and return its result in the format of the postgres tool."""
        action, table = query.split()[:2]
        match action:
            case "CLAIM":
                return self._claim(table, *params)
            case "TAKE":
                return self._claim(table, params[0], NEVER_EXPIRES, params[2])
            case "RENEW":
                return self._change("renew", table, *params, iteration=iteration)
            case "ACK":
                return self._change("ack", table, *params, iteration=iteration)
            case _:
                return self._change("release", table, *params, iteration=iteration)

    def _rows(self, table: str) -> list[Row]:
        if table not in self._tables:
            count = random.Random(f"{self._seed}/{table}").choice((0, 1, 3, 6, MOST_ROWS))
            self._tables[table] = [Row(number) for number in range(count)]
            for _ in range(0 if self._rng is None else self._rng.choice((0, 0, 1, 4))):
                self._clock.later(self._random_delay(), partial(self._claim_as_rival, table))
        return self._tables[table]

    def _claim(self, table: str, token: str, seconds: float, max_rows: int) -> dict[str, Any]:
        now = self._clock.now
        rows = [row for row in self._rows(table) if row.status == NEW and row.until <= now][:max_rows]
        for row in rows:
            row.token, row.until, row.attempts = token, now + int(seconds * 1000), row.attempts + 1
        attempts = tuple(row.attempts for row in rows)
        self.row_changes.append(RowChange(now, "claim", table, token, tuple(row.id for row in rows), attempts=attempts))
        return _result([{"id": row.id, "attempts": row.attempts} for row in rows], len(rows))

    def _change(
        self, action: str, table: str, row_or_rows: Any, token: str, argument: Any = None, *, iteration: int | None
    ) -> dict[str, Any]:
        """``row_or_rows`` is a row, or all rows of a claim; ``argument`` is the status of an acknowledgement or the
        seconds of a renewal.
        """
        rows_given: list[dict[str, Any]] = [row_or_rows] if isinstance(row_or_rows, dict) else row_or_rows
        ids = {row["id"] for row in rows_given}
        held = [row for row in self._rows(table) if row.id in ids and row.token == token and row.status == NEW]
        now = self._clock.now
        for row in held:
            match action:
                case "ack":
                    row.status = str(argument)
                case "release":
                    row.token, row.until = "", 0
                case _:
                    row.until = now + int(argument * 1000)
        rows = tuple(row.id for row in held)
        self.row_changes.append(RowChange(now, action, table, token, rows, str(argument or ""), iteration))
        return _result([], len(held))

    # ---- other runs -------------------------------------------------------------------------------------------------

    def _random_delay(self) -> int:
        assert self._rng is not None
        return self._rng.randint(0, self._rng.choice((300, 5_000, 60_000)))

    def _claim_as_rival(self, table: str) -> None:
        assert self._rng is not None
        token = f"{RIVAL}/{len(self.row_changes)}"
        rows = self._claim(table, token, self._rng.choice((1, 60)), self._rng.randint(1, 3))["rows"]
        if rows:
            self._clock.later(self._random_delay(), partial(self._settle_as_rival, table, rows, token))

    def _settle_as_rival(self, table: str, rows: list[Any], token: str) -> None:
        assert self._rng is not None
        if self._rng.random() < 0.6:
            self._change("ack", table, rows, token, "ok", iteration=None)
        else:
            self._change("release", table, rows, token, iteration=None)


def _result(rows: list[dict[str, Any]], count: int) -> dict[str, Any]:
    return {"rows": rows, "columns": ["id", "attempts"] if rows else [], "row_count": count}
