"""``noetl prune``: remove the large values of runs that ended long ago."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import asyncpg
import click
from temporalio.service import RPCError

from noetl_temporal.cli.reach import reach_running
from noetl_temporal.config import connect_temporal
from noetl_temporal.deployment import DeploymentError, check_postgres, postgres_problem
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.mirror.prune import Pruned, RetainedError, UnknownNamespaceError, prune
from noetl_temporal.stack.errors import StackError
from noetl_temporal.temporal_problems import rpc_problem

__all__ = ["prune_command", "summary"]


def _duration(ctx: click.Context, param: click.Parameter, text: str) -> timedelta:
    """``30d`` as a timedelta. Raises click.BadParameter."""
    del ctx
    from noetl_compiler.numerals import duration

    seconds = duration(text)
    try:
        if seconds is not None and not text.strip().isdecimal():
            return timedelta(seconds=seconds)
    except OverflowError:
        pass
    raise click.BadParameter(f"{text!r} is not a duration, such as 30d or 36h", param=param)


@click.command("prune")
@click.option(
    "--older-than",
    metavar="AGE",
    default="30d",
    show_default=True,
    callback=_duration,
    help="How long ago the runs ended at least, such as 90d or 36h.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as a JSON object.")
def prune_command(older_than: timedelta, dry_run: bool, as_json: bool) -> None:
    """Remove the large values of runs that ended long ago from Postgres.

    Values over 64 KB, graphs and the segments of frames lie in noetl.payload. Those go that only runs need which ended
    AGE ago and which Temporal has removed as well; so AGE cannot be shorter than Temporal's retention. What was stored
    in the last AGE, or in the last day, stays.

    The event log of such a run stays as it is: status and events still tell of it, but `noetl mirror rebuild` cannot
    derive it again.

    \b
    noetl prune --dry-run
    noetl prune --older-than 90d
    """
    reach_running()
    pruned = asyncio.run(_prune(older_than, dry_run))
    click.echo(_json(pruned, dry_run) if as_json else summary(pruned, dry_run=dry_run))


async def _prune(older_than: timedelta, dry_run: bool) -> Pruned:
    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no Postgres is known to prune: set NOETL_POSTGRES to its DSN")
    client = await connect_temporal()
    await check_postgres(dsn)
    try:
        return await prune(client, dsn, older_than, dry_run=dry_run)
    except RetainedError as error:
        raise click.UsageError(_refusal(error.namespace, error.kept, older_than)) from None
    except UnknownNamespaceError as error:
        raise DeploymentError(
            f"the event log has runs of namespace {error.namespace!r}, which this Temporal does not have: whether they "
            "need their values cannot be asked. Check TEMPORAL_ADDRESS and NOETL_POSTGRES"
        ) from None
    except RPCError as error:
        raise rpc_problem(error, client.namespace) or error from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise postgres_problem(error, dsn) from error


def _refusal(namespace: str, kept: timedelta, older_than: timedelta) -> str:
    days, hours = math.ceil(kept / timedelta(days=1)), math.ceil(older_than / timedelta(hours=1))
    return (
        f"--older-than is shorter than Temporal keeps closed runs of namespace {namespace!r}, which need their values: "
        f"say --older-than {days}d or more, or shorten that first "
        f"(temporal operator namespace update --namespace {namespace} --retention {hours}h)"
    )


def _json(pruned: Pruned, dry_run: bool) -> str:
    import msgspec

    return msgspec.json.encode({"dry_run": dry_run, **msgspec.structs.asdict(pruned)}).decode()


def summary(pruned: Pruned, *, dry_run: bool) -> str:
    """What was removed and what was kept, in lines."""
    did = "would remove" if dry_run else "removed"
    ended = f"{_count(pruned.executions, 'execution')} that ended before {pruned.before:%Y-%m-%d %H:%M} UTC"
    lines = [f"{did} {_count(pruned.payloads, 'payload')}, {_bytes(pruned.bytes)}; nothing is kept for {ended}"]
    if pruned.retained:
        lines.append(f"not pruned, because Temporal still has them: {_count(pruned.retained, 'execution')}")
    if pruned.held:
        since, run = pruned.held.since, f"{pruned.held.workflow_id} run {pruned.held.run_id}"
        why = "has calls that have not ended, or the mirror has not read all of it (noetl mirror problems)"
        lines.append(f"not removed: what was stored since {since:%Y-%m-%d %H:%M} UTC, because {run} {why}")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
