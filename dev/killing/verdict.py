"""Checks a run with kills against the log, the table and the HTTP service: each item must have its row once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import asyncpg

from dev.killing.heartbeat_items import HeartbeatItems, calls_by_item
from noetl_temporal.stack.addresses import Addresses

__all__ = ["NOT_SUPERSEDED", "Verdict", "loop_times", "stored_rows", "verdict_of"]

ENDS = ("loop.done", "loop.failed", "loop.cancelled")
REPORTED = ("ok", "error")
NOT_SUPERSEDED = "AND event_id NOT IN (SELECT event_id FROM noetl.superseded_events($1))"
"""A condition that excludes superseded rows."""


@dataclass
class Verdict:
    """The results of one run. ``ended_items`` counts the items that a heartbeat reported as ended before some kill,
    ``repeated_calls`` the calls of frames that are not in the log, because they began after the last heartbeat. Each of
    ``problems`` names an item.
    """

    execution_id: int
    status: str
    rows: int = 0
    failed: int = 0
    calls: int = 0
    lost_attempts: int = 0
    ended_items: int = 0
    repeated_calls: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])


async def loop_times(dsn: str, execution_id: int) -> tuple[datetime | None, datetime | None]:
    """Return when the run's loop began and ended, in UTC; None if the log does not have it (yet)."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT event_type, created_at FROM noetl.event WHERE execution_id = $1 AND event_type = ANY($2)",
            execution_id,
            ["loop.started", *ENDS],
        )
    finally:
        await connection.close()
    times = {row["event_type"]: row["created_at"].replace(tzinfo=UTC) for row in rows}
    return times.get("loop.started"), next((times[name] for name in ENDS if name in times), None)


async def verdict_of(
    addresses: Addresses,
    execution_id: int,
    items: int,
    calls: dict[str, int],
    heartbeat_items: HeartbeatItems,
    *,
    are_all_logged: bool,
) -> Verdict:
    """``calls``: query string -> how often the service was called. ``are_all_logged``: the log has each of them, which
    it need not have of framed items, nor of calls that were in progress when a reset terminated their workflow.
    """
    rows = await stored_rows(addresses.playbooks, execution_id)
    connection = await asyncpg.connect(addresses.postgres)
    try:
        status = await connection.fetchval("SELECT status FROM noetl.execution WHERE execution_id = $1", execution_id)
        reasons = await _reasons_of_failures(connection, execution_id)
        attempts = await _attempts(connection, execution_id, "")
        effective_attempts = await _attempts(connection, execution_id, NOT_SUPERSEDED)
    finally:
        await connection.close()
    calls_of_item = calls_by_item(calls, execution_id)
    lost_attempts = sum(count for (_, outcome), count in attempts.items() if outcome not in REPORTED)
    verdict = Verdict(
        execution_id,
        str(status),
        rows.total(),
        len(reasons),
        calls_of_item.total(),
        lost_attempts,
        failures=Counter(reasons.values()),
    )
    for item in range(items):
        verdict.problems += _problems_of_item(item, rows, reasons, effective_attempts)
        unknown = calls_of_item[item] - sum(count for (number, _), count in attempts.items() if number == item)
        verdict.repeated_calls += max(0, unknown) * (not are_all_logged)
        if unknown > 0 and are_all_logged:
            verdict.problems.append(
                f"item {item} was called {calls_of_item[item]} times, {unknown} more than the log has attempts"
            )
        if calls_of_item[item] > heartbeat_items.calls.get(item, calls_of_item[item]):
            verdict.problems.append(f"item {item} was called again after a heartbeat had reported its end")
    verdict.ended_items = len(heartbeat_items.calls)
    return verdict


def _problems_of_item(
    item: int, rows: Counter[int], reasons: dict[int, str], effective_attempts: Counter[tuple[int, str]]
) -> list[str]:
    problems: list[str] = []
    if rows[item] > 1:
        problems.append(f"item {item} has {rows[item]} rows")
    if rows[item] == 0 and item not in reasons:
        problems.append(f"item {item} has no row and no recorded failure")
    if effective_attempts[item, "ok"] > 1:
        problems.append(f"item {item} was called again after it had reported")
    return problems


async def stored_rows(dsn: str, execution_id: int) -> Counter[int]:
    """Return the number of rows of each item in the playbooks' database."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT item FROM killed WHERE run = $1", execution_id)
    finally:
        await connection.close()
    return Counter(row["item"] for row in rows)


async def _reasons_of_failures(connection: asyncpg.Connection, execution_id: int) -> dict[int, str]:
    """Return the reason of each failed item."""
    rows = await connection.fetch(
        "SELECT (meta->>'iteration')::int AS item, error FROM noetl.event"
        f" WHERE execution_id = $1 AND event_type = 'loop.iteration.failed' {NOT_SUPERSEDED}",
        execution_id,
    )
    return {row["item"]: str(row["error"]) for row in rows}


async def _attempts(connection: asyncpg.Connection, execution_id: int, condition: str) -> Counter[tuple[int, str]]:
    """Return the number of attempts by item and outcome: ok, or the kind of the error (including worker_lost)."""
    rows = await connection.fetch(
        "SELECT (meta->>'iteration')::int AS item, event_type, COALESCE(meta->'error'->>'kind', error, '') AS kind"
        " FROM noetl.event WHERE execution_id = $1"
        " AND event_type IN ('task.attempt.done', 'task.attempt.failed')"
        f" AND meta->>'iteration' IS NOT NULL {condition}",
        execution_id,
    )
    return Counter(
        (row["item"], "ok" if row["event_type"].endswith("done") else row["kind"] or "error") for row in rows
    )
