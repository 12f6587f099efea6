"""Reads runs from the event log alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

import asyncpg

from noetl_temporal.cli.event_log import EventLog
from noetl_temporal.mirror.read import (
    EventWidths,
    Execution,
    LoggedEvent,
    LogPosition,
    event_counts,
    event_widths,
    events_after,
    find_execution,
    latest_execution,
    position_before_last,
)

__all__ = ["PAGE_ROWS", "EventPage", "logged_events", "logged_run"]

PAGE_ROWS = 1000
"""The number of rows that are in memory at once."""


class EventPage(NamedTuple):
    """A page of the events of a run, in the order they happened.

    ``widths`` are the column widths of all pages; None if there is only one.
    """

    rows: list[LoggedEvent]
    widths: EventWidths | None


async def logged_events(dsn: str, execution_id: int | None, last: int | None = None) -> AsyncGenerator[EventPage]:
    """Yield the events of a run, or of the latest run, page by page; with ``last`` only that many.

    Only events that exist at the start are read, because a running playbook may write faster than a reader reads. No
    query runs between two pages, however long the reader takes. Raises DeploymentError.
    """
    log = EventLog(dsn)
    try:
        async with log.connection() as connection:
            run = await logged_run(connection, execution_id)
            if run is None:
                return
            run_id, position = run.execution_id, LogPosition()
            remaining = (await event_counts(connection, run_id)).events
            if last is not None:
                position, remaining = await position_before_last(connection, run_id, last), min(last, remaining)
            rows = await events_after(connection, run_id, position, min(PAGE_ROWS, remaining))
            widths = await event_widths(connection, run_id, position) if len(rows) == PAGE_ROWS else None
        while rows:
            yield EventPage(rows, widths)
            remaining -= len(rows)
            async with log.connection() as connection:
                rows = await events_after(
                    connection, run_id, LogPosition.after(rows[-1].event), min(PAGE_ROWS, remaining)
                )
    finally:
        await log.close()


async def logged_run(log: asyncpg.Connection, execution_id: int | None) -> Execution | None:
    """Return the run with that id, or the latest run that no other has called; None if the log does not have it."""
    return await latest_execution(log) if execution_id is None else await find_execution(log, execution_id)
