"""``noetl events``: the event log of a run, from Postgres."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import click
import msgspec
from rich.table import Table

from noetl_temporal.cli.arguments import RUN_ID
from noetl_temporal.cli.connection import reach_running
from noetl_temporal.cli.console import print_table
from noetl_temporal.cli.event_words import event_words
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.cli.text_ids import with_text_ids
from noetl_temporal.stack.errors import NoSuchRunError, StackError

if TYPE_CHECKING:  # it brings the database driver along, which --help need not wait for
    from noetl_temporal.cli.logged_run import EventPage
    from noetl_temporal.mirror.read import EventWidths, LoggedEvent

__all__ = ["events_command"]

WIDEST = 60
"""The most characters of a column; narrower columns are as wide as their longest text on all pages."""

SUPERSEDED = "superseded by a reset"
"""The mark of a superseded row in the table."""


@click.command("events")
@click.argument("execution", metavar="[ID]", type=RUN_ID, required=False)
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N rows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and row.")
def events_command(execution: int | str | None, last: int | None, as_json: bool) -> None:
    """Show the event log of the run ID, read from Postgres. Without ID: of the latest run.

    Rows that a reset superseded are marked "superseded by a reset" (in JSON "superseded": true).

    \b
    noetl events
    noetl events 754318462739161088 --json | jq 'select(.event_type == "task.attempt.failed")'
    """
    reach_running()
    asyncio.run(_show(execution, last, as_json=as_json))


async def _show(run: int | str | None, last: int | None, *, as_json: bool) -> None:
    """Print each page as it is read: a log may have millions of rows."""
    from noetl_temporal.cli.logged_run import logged_events
    from noetl_temporal.cli.named_run import execution_of, latest_in_temporal
    from noetl_temporal.environment import dsn_from_environment

    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no event log to read: set NOETL_POSTGRES to the DSN of its Postgres")
    execution, is_first = await execution_of(run), True
    async with aclosing(logged_events(dsn, execution or await latest_in_temporal(), last)) as pages:
        async for page in pages:
            if as_json:
                _print_json(page)
            else:
                print_table(_table(page, has_header=is_first))
            is_first = False
    if is_first:
        raise NoSuchRunError("the event log is empty" if execution is None else f"the event log has no run {execution}")


def _print_json(page: EventPage) -> None:
    for row in page.rows:
        fields = {**msgspec.structs.asdict(row.event), "superseded": row.is_superseded}
        echo_json(msgspec.json.encode(with_text_ids(fields)).decode())


def _table(page: EventPage, *, has_header: bool) -> Table:
    """The columns of all pages are equally wide."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_header=has_header)
    time, event, node, status, seconds = _least_widths(page.widths)
    table.add_column("time", no_wrap=True, min_width=time)
    table.add_column("event", no_wrap=True, min_width=event)
    table.add_column("node", no_wrap=True, min_width=node)
    table.add_column("status", no_wrap=True, min_width=status)
    table.add_column("seconds", justify="right", min_width=seconds)
    table.add_column("")
    for row in page.rows:
        _add_row(table, row)
    return table


def _least_widths(widths: EventWidths | None) -> tuple[int | None, ...]:
    """Of the columns time, event, node, status and seconds; none if a single page determines them."""
    if widths is None:
        return (None,) * 5
    texts = widths.event_type, widths.node_name, max(widths.status, len("status"))
    return (None, *(min(WIDEST, one) for one in texts), max(len("seconds"), len(_seconds(widths.duration))))


def _add_row(table: Table, row: LoggedEvent) -> None:
    event = row.event
    table.add_row(
        event.event_time.strftime("%H:%M:%S.%f")[:-3],
        event.event_type,
        event.node_name,
        event.status,
        _seconds(event.duration),
        ", ".join(filter(None, [SUPERSEDED if row.is_superseded else "", event_words(event)])),
        style="dim" if row.is_superseded else None,
    )


def _seconds(duration: float | None) -> str:
    return "" if duration is None else f"{duration:.3f}"
