"""``noetl events``: the event log of a run, from Postgres."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import click
import msgspec
from rich.cells import cell_len

from noetl_temporal.cli.arguments import RUN_ID
from noetl_temporal.cli.column_writer import Column, ColumnWriter
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.event_details import event_details
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.cli.text_ids import with_text_ids
from noetl_temporal.stack.errors import NoSuchRunError, StackError

if TYPE_CHECKING:  # importing the database driver is slow
    from noetl_temporal.cli.logged_run import EventPage

__all__ = ["EventTable", "events_command", "print_json"]

MAX_WIDTH = 60
"""The maximum width of a column; a longer cell shifts the rest of its line."""

SUPERSEDED = "superseded by a reset"
"""The mark of a superseded row in the table."""


@click.command("events")
@click.argument("run", metavar="[ID]", type=RUN_ID, required=False)
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and row.")
def events_command(run: int | str | None, last: int | None, as_json: bool) -> None:
    """Show the event log of the run ID, read from Postgres. Without ID: of the latest run.

    Rows that a reset superseded are marked "superseded by a reset" (in JSON "superseded": true).

    \b
    noetl events
    noetl events 754318462739161088 --json | jq 'select(.event_type == "task.attempt.failed")'
    """
    running_deployment()
    asyncio.run(_show(run, last, as_json=as_json))


async def _show(run: int | str | None, last: int | None, *, as_json: bool) -> None:
    """Print each page as it is read: a log may have millions of rows."""
    from noetl_temporal.cli.logged_run import logged_events
    from noetl_temporal.cli.named_run import latest_run_in_temporal, resolve_execution_id
    from noetl_temporal.environment import dsn_from_environment

    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no event log to read: set NOETL_POSTGRES to the DSN of its Postgres")
    execution_id = await resolve_execution_id(run) or await latest_run_in_temporal()
    is_empty = True
    table: EventTable | None = None
    async with aclosing(logged_events(dsn, execution_id, last)) as pages:
        async for page in pages:
            if as_json:
                print_json(page)
            else:
                table = table or EventTable(page)
                table.write(page)
            is_empty = False
    if is_empty:
        raise NoSuchRunError(
            "the event log is empty" if execution_id is None else f"the event log has no run {execution_id}"
        )


def print_json(page: EventPage) -> None:
    """Print each row as one line of JSON."""
    for row in page.rows:
        fields = {**msgspec.structs.asdict(row.event), "superseded": row.is_superseded}
        echo_json(msgspec.json.encode(with_text_ids(fields)).decode())


class EventTable:
    """The table of all pages. Its columns are as wide as the longest text on any of them, up to MAX_WIDTH."""

    def __init__(self, first_page: EventPage) -> None:
        event, node, status, seconds = _widths(first_page)
        self._writer = ColumnWriter(
            (
                Column("time (UTC)", len("00:00:00.000")),
                Column("event", event),
                Column("node", node),
                Column("status", status),
                Column("seconds", seconds, is_number=True),
            )
        )
        self._writer.write_header()

    def write(self, page: EventPage) -> None:
        """Write the rows of a page."""
        for row in page.rows:
            event = row.event
            self._writer.write(
                event.event_time.strftime("%H:%M:%S.%f")[:-3],
                event.event_type,
                event.node_name,
                event.status,
                _seconds(event.duration),
                ", ".join(filter(None, [SUPERSEDED if row.is_superseded else "", event_details(event)])),
                style="dim" if row.is_superseded else "",
            )
        self._writer.flush()


def _widths(first_page: EventPage) -> tuple[int, int, int, int]:
    """Return the widths of the columns event, node, status and seconds."""
    events, widths = [row.event for row in first_page.rows], first_page.widths
    if widths is None:
        columns = (
            max(cell_len(event.event_type) for event in events),
            max(cell_len(event.node_name) for event in events),
            max(cell_len(event.status) for event in events),
            max(len(_seconds(event.duration)) for event in events),
        )
    else:
        columns = widths.event_type, widths.node_name, widths.status, len(_seconds(widths.duration))
    event, node, status, seconds = (min(MAX_WIDTH, width) for width in columns)
    return max(len("event"), event), max(len("node"), node), max(len("status"), status), max(len("seconds"), seconds)


def _seconds(duration: float | None) -> str:
    return "" if duration is None else f"{duration:.3f}"
