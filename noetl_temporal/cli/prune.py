"""``noetl prune``: remove the large values of old runs."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.arguments import parse_duration
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.stack.errors import StackError
from noetl_temporal.utc_time import utc_text

if TYPE_CHECKING:  # it imports Temporal's SDK and asyncpg, which --help does not need
    from noetl_temporal.mirror.prune import PruneResult

__all__ = ["prune_command", "summary"]


def _duration(ctx: click.Context, param: click.Parameter, age: str) -> timedelta:
    """Parse ``30d`` to a timedelta. Raises click.BadParameter."""
    del ctx
    seconds = parse_duration(age)
    try:
        if seconds is not None:
            return timedelta(seconds=seconds)
    except OverflowError:
        pass
    raise click.BadParameter(f"{age!r} is not a duration with a unit, such as 30d or 36h", param=param)


@click.command("prune")
@click.option(
    "--older-than",
    metavar="AGE",
    default="30d",
    show_default=True,
    callback=_duration,
    help="Minimum time since a run ended, such as 90d or 36h.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as a JSON object.")
def prune_command(older_than: timedelta, dry_run: bool, as_json: bool) -> None:
    """Remove the large values and the logs of old runs from Postgres.

    noetl.payload holds values over 64 KB, graphs and frame segments. A payload is removed when every run that refers to
    it ended more than AGE ago and is no longer in Temporal; so AGE must be at least Temporal's retention. Payloads
    stored within the last AGE (at least the last day) are not removed.

    noetl.log holds what tasks print; rows older than AGE are removed.

    The event log is kept: `noetl status` and `noetl events` still show a pruned run, but `noetl mirror rebuild` cannot
    derive its rows again and leaves them unchanged.

    \b
    noetl prune --dry-run
    noetl prune --older-than 90d
    """
    running_deployment()
    result = asyncio.run(_prune(older_than, dry_run))
    if as_json:
        echo_json(_json(result, dry_run))
    else:
        click.echo(summary(result, dry_run=dry_run))


async def _prune(older_than: timedelta, dry_run: bool) -> PruneResult:
    from temporalio.service import RPCError

    from noetl_temporal.config import connect_temporal
    from noetl_temporal.database_errors import DATABASE_ERRORS
    from noetl_temporal.deployment import DeploymentError, check_postgres, postgres_error
    from noetl_temporal.environment import dsn_from_environment
    from noetl_temporal.mirror.prune import ShorterThanRetentionError, UnknownNamespaceError, prune
    from noetl_temporal.temporal_errors import rpc_error

    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no event log to prune: set NOETL_POSTGRES to its DSN")
    discard_log()
    client = await connect_temporal()
    await check_postgres(dsn)
    try:
        return await prune(client, dsn, older_than, dry_run=dry_run)
    except ShorterThanRetentionError as error:
        raise click.UsageError(_refusal(error.namespace, error.retention, older_than)) from None
    except UnknownNamespaceError as error:
        raise DeploymentError(
            f"the event log has runs of namespace {error.namespace!r}, which this Temporal server does not have, so it "
            "does not know which payloads they need. Check TEMPORAL_ADDRESS and NOETL_POSTGRES"
        ) from None
    except RPCError as error:
        raise rpc_error(error, client.namespace) or error from error
    except DATABASE_ERRORS as error:
        raise postgres_error(error, dsn) from error


def _refusal(namespace: str, retention: timedelta, older_than: timedelta) -> str:
    days, hours = math.ceil(retention / timedelta(days=1)), math.ceil(older_than / timedelta(hours=1))
    return (
        f"--older-than is shorter than the retention of namespace {namespace!r}: "
        f"use --older-than {days}d or more, or shorten the retention "
        f"(temporal operator namespace update --namespace {namespace} --retention {hours}h)"
    )


def _json(result: PruneResult, dry_run: bool) -> str:
    import msgspec

    return msgspec.json.encode({"dry_run": dry_run, **msgspec.structs.asdict(result)}).decode()


def summary(result: PruneResult, *, dry_run: bool) -> str:
    """Return the lines that say what was removed and what was kept."""
    removed, pruned = ("would remove", "would prune") if dry_run else ("removed", "pruned")
    run_count = f"{_count(result.executions, 'run')} that ended before {utc_text(result.cutoff)}"
    lines = [f"{removed} {_count(result.payloads, 'payload')}, {_bytes(result.bytes)}; {pruned} {run_count}"]
    if result.log_rows:
        lines.append(f"{removed} {_count(result.log_rows, 'row')} of noetl.log")
    if result.retained:
        lines.append(f"skipped, still in Temporal: {_count(result.retained, 'run')}")
    if result.blocked_by:
        since, run = result.blocked_by.since, f"{result.blocked_by.workflow_id} run {result.blocked_by.run_id}"
        why = "has calls in progress, or the mirror has not read all of its history (see `noetl mirror problems`)"
        lines.append(f"skipped all payloads stored since {utc_text(since)}: {run} {why}")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
