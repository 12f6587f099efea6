"""Runs as the event log alone has them."""

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
    execution,
    latest_execution,
    position_before_last,
)

__all__ = ["PAGE_ROWS", "EventPage", "logged_events", "logged_run"]

PAGE_ROWS = 1000
"""Rows of a run that are in memory at once."""


class EventPage(NamedTuple):
    """A page of rows of a run, in the order they happened. ``widths`` are those of all its pages, None if it is the
    only one.
    """

    rows: list[LoggedEvent]
    widths: EventWidths | None


async def logged_events(dsn: str, execution_id: int | None, last: int | None = None) -> AsyncGenerator[EventPage]:
    """Yield the rows of a run, or of the latest, page by page; only the ``last``. No page where the log has none.

    Only the rows that exist at the start: a running playbook may write faster than a reader reads. Raises
    DeploymentError. Between two pages no query runs, however long the reader takes.
    """
    log = EventLog(dsn)
    try:
        async with log.connection() as connection:
            run = await logged_run(connection, execution_id)
            if run is None:
                return
            id_, place = run.execution_id, LogPosition()
            left = (await event_counts(connection, id_)).events
            if last is not None:
                place, left = await position_before_last(connection, id_, last), min(last, left)
            rows = await events_after(connection, id_, place, min(PAGE_ROWS, left))
            widths = await event_widths(connection, id_, place) if len(rows) == PAGE_ROWS else None
        while rows:
            yield EventPage(rows, widths)
            left -= len(rows)
            async with log.connection() as connection:
                rows = await events_after(connection, id_, LogPosition.after(rows[-1].event), min(PAGE_ROWS, left))
    finally:
        await log.close()


async def logged_run(log: asyncpg.Connection, execution_id: int | None) -> Execution | None:
    """The run of that id, or the latest that no other has called; None where the log has none."""
    return await latest_execution(log) if execution_id is None else await execution(log, execution_id)
