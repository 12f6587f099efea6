"""``noetl events``: the event log of a run, from Postgres."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec
from rich.table import Table

from noetl_temporal.cli.arguments import EXECUTION_ID
from noetl_temporal.cli.connection import reach_running
from noetl_temporal.cli.console import print_table
from noetl_temporal.cli.event_words import event_words
from noetl_temporal.cli.printed import echo_json
from noetl_temporal.stack.errors import StackError

if TYPE_CHECKING:  # it brings the database driver along, which --help need not wait for
    from noetl_temporal.cli.logged import LoggedEvents
    from noetl_temporal.mirror.read import Event

__all__ = ["events_command"]

SUPERSEDED = "superseded by a reset"
"""What the table says of such a row."""


@click.command("events")
@click.argument("execution", metavar="[ID]", type=EXECUTION_ID, required=False)
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N rows.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each row, one a line.")
def events_command(execution: int | None, last: int | None, as_json: bool) -> None:
    """Show the event log of the run ID, read from Postgres. Without ID: of the latest run.

    Rows of what a reset took back are marked: "superseded by a reset", in JSON "superseded": true.

    \b
    noetl events
    noetl events 754318462739161088 --json | jq 'select(.event_type == "task.attempt.failed")'
    """
    reach_running()
    found = asyncio.run(_read(execution))
    rows = sorted(found.rows, key=_moment)[-(last or 0) :]
    if as_json:
        for row in rows:
            told = {**msgspec.structs.asdict(row), "superseded": row.event_id in found.superseded}
            echo_json(msgspec.json.encode(told).decode())
    else:
        print_table(_table(rows, found.superseded))


async def _read(execution: int | None) -> LoggedEvents:
    from noetl_temporal.cli.logged import logged_events
    from noetl_temporal.environment import dsn_from_environment

    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no Postgres is known to read events from: set NOETL_POSTGRES to its DSN")
    found = await logged_events(dsn, execution or await _latest())
    if not found.rows:
        raise StackError("the event log is empty" if execution is None else f"the event log has no run {execution}")
    return found


def _moment(row: Event) -> tuple[datetime, int]:
    """What an attempt did is stored, and gets its id, after what happened meanwhile."""
    return row.event_time, row.event_id


async def _latest() -> int | None:
    """The latest run that Temporal knows; None when it knows none or is away, for the log to say."""
    from noetl_temporal.cli.find import find_run
    from noetl_temporal.deployment import DeploymentError
    from noetl_temporal.runs import Runs, UnknownRunError

    try:
        return (await find_run(await Runs.connect(), None)).execution_id
    except (UnknownRunError, DeploymentError):
        return None


def _table(rows: list[Event], superseded: frozenset[int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("time", "event", "node", "status"):
        table.add_column(name, no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(
            row.event_time.strftime("%H:%M:%S.%f")[:-3],
            row.event_type,
            row.node_name,
            row.status,
            "" if row.duration is None else f"{row.duration:.3f}",
            ", ".join(filter(None, [SUPERSEDED if row.event_id in superseded else "", event_words(row)])),
            style="dim" if row.event_id in superseded else None,
        )
    return table
