"""Checks a run with kills against the log, the table and the HTTP service: each item must have its row once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import asyncpg

from dev.killing.named import NamedItems, calls_by_item
from noetl_temporal.stack.addresses import Addresses

__all__ = ["NOT_SUPERSEDED", "Verdict", "loop_times", "stored_rows", "verdict_of"]

ENDS = ("loop.done", "loop.failed", "loop.cancelled")
REPORTED = ("ok", "error")
NOT_SUPERSEDED = "AND event_id NOT IN (SELECT event_id FROM noetl.superseded_events($1))"
"""A condition that excludes superseded rows."""


@dataclass
class Verdict:
    """Of one run. ``named`` items had ended by a heartbeat before some kill; ``again`` are calls of frames that the log
    does not know, since they were begun after the last heartbeat. ``wrong`` says what must not be; each entry names an
    item.
    """

    execution_id: int
    status: str
    rows: int = 0
    failed: int = 0
    calls: int = 0
    lost: int = 0
    named: int = 0
    again: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


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
    named: NamedItems,
    *,
    are_all_logged: bool,
) -> Verdict:
    """``calls``: query string -> how often the service was called. ``are_all_logged``: the log has each of them, which
    it need not have of framed items, nor of calls that were in progress when a reset terminated their workflow.
    """
    stored = await stored_rows(addresses.playbooks, execution_id)
    connection = await asyncpg.connect(addresses.postgres)
    try:
        status = await connection.fetchval("SELECT status FROM noetl.execution WHERE execution_id = $1", execution_id)
        failed = await _failed(connection, execution_id)
        attempts = await _attempts(connection, execution_id, "")
        standing = await _attempts(connection, execution_id, NOT_SUPERSEDED)
    finally:
        await connection.close()
    calls_of_item = calls_by_item(calls, execution_id)
    lost = sum(count for (_, how), count in attempts.items() if how not in REPORTED)
    verdict = Verdict(
        execution_id,
        str(status),
        stored.total(),
        len(failed),
        calls_of_item.total(),
        lost,
        failures=Counter(failed.values()),
    )
    for item in range(items):
        verdict.wrong += _problems_of_item(item, stored, failed, standing)
        unknown = calls_of_item[item] - sum(count for (of, _), count in attempts.items() if of == item)
        verdict.again += max(0, unknown) * (not are_all_logged)
        if unknown > 0 and are_all_logged:
            verdict.wrong.append(
                f"item {item} was called {calls_of_item[item]} times, {unknown} more than the log has attempts"
            )
        if calls_of_item[item] > named.calls.get(item, calls_of_item[item]):
            verdict.wrong.append(f"item {item} was called again after a heartbeat had named it")
    verdict.named = len(named.calls)
    return verdict


def _problems_of_item(
    item: int, stored: Counter[int], failed: dict[int, str], standing: Counter[tuple[int, str]]
) -> list[str]:
    problems: list[str] = []
    if stored[item] > 1:
        problems.append(f"item {item} has {stored[item]} rows")
    if stored[item] == 0 and item not in failed:
        problems.append(f"item {item} has no row and no recorded failure")
    if standing[item, "ok"] > 1:
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


async def _failed(connection: asyncpg.Connection, execution_id: int) -> dict[int, str]:
    """Return the reason of each failed item."""
    rows = await connection.fetch(
        "SELECT (meta->>'iteration')::int AS item, error FROM noetl.event"
        f" WHERE execution_id = $1 AND event_type = 'loop.iteration.failed' {NOT_SUPERSEDED}",
        execution_id,
    )
    return {row["item"]: str(row["error"]) for row in rows}


async def _attempts(connection: asyncpg.Connection, execution_id: int, which: str) -> Counter[tuple[int, str]]:
    """(item, how it ended) -> attempts: ok, or the kind of its error (worker_lost among them)."""
    rows = await connection.fetch(
        "SELECT (meta->>'iteration')::int AS item, event_type, COALESCE(meta->'error'->>'kind', error, '') AS kind"
        " FROM noetl.event WHERE execution_id = $1"
        f" AND event_type IN ('task.attempt.done', 'task.attempt.failed') AND meta->>'iteration' IS NOT NULL {which}",
        execution_id,
    )
    return Counter(
        (row["item"], "ok" if row["event_type"].endswith("done") else row["kind"] or "error") for row in rows
    )
