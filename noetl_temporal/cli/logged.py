"""Runs as the event log alone has them."""

from __future__ import annotations

from typing import NamedTuple

import asyncpg

from noetl_temporal.cli.event_log import log_connection
from noetl_temporal.mirror.read import Event, Execution, events_of, execution, executions, superseded_events

__all__ = ["LoggedEvents", "logged_events", "logged_run"]


class LoggedEvents(NamedTuple):
    """The rows of a run in the order of their ids, and the ids of those that resets superseded."""

    rows: list[Event]
    superseded: frozenset[int]


async def logged_events(dsn: str, execution_id: int | None) -> LoggedEvents:
    """Those of a run, or of the latest; none where the log has none. Raises DeploymentError."""
    async with log_connection(dsn) as log:
        found = await logged_run(log, execution_id)
        if found is None:
            return LoggedEvents([], frozenset())
        rows = await events_of(log, found.execution_id)
        return LoggedEvents(rows, await superseded_events(log, found.execution_id))


async def logged_run(log: asyncpg.Connection, execution_id: int | None) -> Execution | None:
    """The run of that id, or the latest that no other has called; None where the log has none."""
    if execution_id is not None:
        return await execution(log, execution_id)
    latest = [one for one in await executions(log) if one.parent_execution_id is None]
    return latest[0] if latest else None
