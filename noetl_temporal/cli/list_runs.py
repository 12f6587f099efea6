"""``noetl list``: the latest runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import click
import msgspec
from rich.table import Table

from noetl_temporal.cli.arguments import NAME, parse_duration, parse_time
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.console import print_table, styled_text
from noetl_temporal.cli.exits import FAILED
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.naming import RUN_STATUSES, RunStatus
from noetl_temporal.utc_time import utc_cell

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.inspection.run_list import ListedRun, RunFilter

__all__ = ["list_command", "run_table"]

MAX_ERROR_WIDTH = 60


def _parse_since(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    """Parse ``2h``, a date or a time (UTC unless it has an offset). Raises click.BadParameter."""
    del ctx
    if text is None:
        return None
    seconds = parse_duration(text)
    try:
        if seconds is not None:
            return datetime.now(UTC) - timedelta(seconds=seconds)
        return parse_time(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is neither an age, such as 2h or 3d, nor a time, such as 2026-11-23 or 2026-11-23T08:00",
            param=param,
        ) from None


@click.command("list")
@click.option(
    "--path", metavar="PATH", type=NAME, help="Only runs of this playbook; 'etl/*' matches all paths below etl."
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(RUN_STATUSES),
    multiple=True,
    help="Only runs with this status; may be repeated.",
)
@click.option(
    "--since", metavar="AGE|TIME", callback=_parse_since, help="Only runs started since then, such as 2h or 2026-11-23."
)
@click.option("--ended-since", metavar="AGE|TIME", callback=_parse_since, help="Only runs that ended since then.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The maximum number of runs to show."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and run.")
@click.option("--fail-if", type=click.Choice(["any", "none"]), help="Exit with 1 if any run is found, or none.")
def list_command(
    path: str | None,
    statuses: tuple[RunStatus, ...],
    since: datetime | None,
    ended_since: datetime | None,
    limit: int,
    as_json: bool,
    fail_if: Literal["any", "none"] | None,
) -> None:
    """List runs, the latest first.

    They are read from the event log, or from Temporal if NOETL_POSTGRES is not set or cannot be reached. Temporal keeps
    closed runs for a while only.

    The column "called by" has the execution id of the run that called this one, if any listed run was called.

    --fail-if turns it into a check for monitoring: that no run has failed, or that one has completed in time.

    \b
    noetl list
    noetl list --path 'etl/*' --status failed --status timed_out --since 24h
    noetl list --since 2026-11-23 --json | jq -r .execution_id
    noetl list --path 'etl/*' --status failed --status timed_out --ended-since 1h --fail-if any
    noetl list --path etl/daily --status completed --ended-since 25h --fail-if none

    \b
    Exit status:
      0    the runs were listed
      1    runs were found (--fail-if any), or none (--fail-if none)
      2    the command line or the deployment is wrong; nothing was listed
    """
    running_deployment()
    discard_log()
    with importing():
        from noetl_temporal.inspection.run_list import RunFilter
    runs = asyncio.run(_list_runs(RunFilter(path, statuses, since, limit, ended_since)))
    if as_json:
        for run in runs:
            ids = {"execution_id": str(run.execution_id)}
            if run.parent_execution_id is not None:
                ids["parent_execution_id"] = str(run.parent_execution_id)
            echo_json(msgspec.json.encode({**msgspec.structs.asdict(run), **ids}).decode())
    elif runs:
        print_table(run_table(runs))
    else:
        click.echo("no runs", err=True)
    if fail_if is not None and bool(runs) == (fail_if == "any"):
        sys.exit(FAILED)


async def _list_runs(run_filter: RunFilter) -> Sequence[ListedRun]:
    from noetl_temporal.deployment import DeploymentError
    from noetl_temporal.environment import dsn_from_environment
    from noetl_temporal.runs import Runs

    dsn = dsn_from_environment()
    if dsn is not None:
        try:
            return await _list_logged_runs(dsn, run_filter)
        except DeploymentError as error:
            click.echo(f"{error}\nTemporal has these runs:", err=True)
    runs = await Runs.connect()
    filters = run_filter.path, run_filter.statuses, run_filter.since, run_filter.limit, run_filter.ended_since
    return await Runs(runs.temporal, None).list(*filters)


async def _list_logged_runs(dsn: str, run_filter: RunFilter) -> list[ListedRun]:
    from noetl_temporal.database_errors import DATABASE_ERRORS
    from noetl_temporal.deployment import postgres_error
    from noetl_temporal.inspection.run_list import runs_in_log

    try:
        return await runs_in_log(dsn, run_filter)
    except DATABASE_ERRORS as error:
        raise postgres_error(error, dsn) from error


def run_table(runs: Sequence[ListedRun]) -> Table:
    """Return one row for each run. The columns "schedule" and "called by" are there if a run has them."""
    from noetl_temporal.cli.step_table import STATUS_COLOURS

    table = Table(box=None, pad_edge=False, header_style="dim")
    is_scheduled = any(run.schedule for run in runs)
    is_called = any(run.parent_execution_id is not None for run in runs)
    origins = [*(["schedule"] if is_scheduled else []), *(["called by"] if is_called else [])]
    for name in ("execution", "status", "path", *origins, "started (UTC)"):
        table.add_column(name, no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("", overflow="ellipsis", no_wrap=True, max_width=MAX_ERROR_WIDTH)
    for run in runs:
        seconds = ((run.ended or datetime.now(UTC)) - run.started).total_seconds()
        table.add_row(
            str(run.execution_id),
            styled_text((run.status.replace("_", " "), STATUS_COLOURS.get(run.status, "default"))),
            run.path,
            *([run.schedule or ""] if is_scheduled else []),
            *([str(run.parent_execution_id or "")] if is_called else []),
            utc_cell(run.started),
            f"{seconds:,.1f}",
            " ".join((run.error or "").split()),
        )
    return table
