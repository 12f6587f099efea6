"""``noetl mirror``: mirror histories to Postgres, or rebuild the event log."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.arguments import HOST_AND_PORT
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import FAILED
from noetl_temporal.cli.logging_setup import log_to_stderr
from noetl_temporal.cli.stop_signals import stop_event
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.stack.errors import StackError
from noetl_temporal.utc_time import utc_text

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.mirror.read import ReadProblem
    from noetl_temporal.mirror.rebuild import RebuildResult

__all__ = ["mirror_group"]


@click.group("mirror", invoke_without_command=True)
@click.option(
    "--health", type=HOST_AND_PORT, help="Serve /healthz, /readyz and /metrics, for example on 127.0.0.1:9101."
)
@click.pass_context
def mirror_group(context: click.Context, health: tuple[str, int] | None) -> None:
    """Follow Temporal's history into the event log until stopped.

    Finds Temporal by TEMPORAL_ADDRESS or a profile of temporal.toml and Postgres by NOETL_POSTGRES, else both in
    this folder's stack. Several mirrors can run at once.

    \b
    noetl mirror --health 127.0.0.1:9101
    noetl mirror problems
    noetl mirror rebuild
    """
    if context.invoked_subcommand is None:
        asyncio.run(_follow(_event_log_dsn(), health))
    elif health is not None:
        raise click.UsageError(
            f"--health is an option of `noetl mirror`, not of `noetl mirror {context.invoked_subcommand}`"
        )


@mirror_group.command("rebuild")
def rebuild_command() -> None:
    """Rebuild noetl.event from the histories in noetl.history. The rows of pruned runs are unchanged."""
    rows, frozen = asyncio.run(_rebuild(_event_log_dsn()))
    click.echo(f"{rows} rows in noetl.event")
    if frozen:
        runs, their = ("run", "its") if frozen == 1 else ("runs", "their")
        click.echo(f"skipped {frozen} pruned {runs}: {their} rows are unchanged")


async def _rebuild(dsn: str) -> RebuildResult:
    from noetl_temporal.config import reading_converter
    from noetl_temporal.mirror.rebuild import rebuild

    return await rebuild(dsn, await reading_converter(dsn))


@mirror_group.command("problems")
def problems_command() -> None:
    """List the runs whose history the mirror cannot read, and why. Exits with 1 if there are any."""
    problems = asyncio.run(_problems(_event_log_dsn()))
    for problem in problems:
        click.echo(f"{problem.workflow_id} run {problem.run_id}, since {utc_text(problem.since)}: {problem.problem}")
    if problems:
        sys.exit(FAILED)
    click.echo("no problems: every run is mirrored")


async def _problems(dsn: str) -> list[ReadProblem]:
    from noetl_temporal.cli.event_log import log_connection
    from noetl_temporal.mirror.read import read_problems

    async with log_connection(dsn) as log:
        return await read_problems(log)


async def _follow(dsn: str, health: tuple[str, int] | None) -> None:
    import asyncpg

    from noetl_temporal.cli.health import serve_optional_health
    from noetl_temporal.config import connect_temporal
    from noetl_temporal.database_errors import DATABASE_ERRORS
    from noetl_temporal.deployment import CONNECT_SECONDS, check_postgres, postgres_error
    from noetl_temporal.mirror.gauges import Gauges
    from noetl_temporal.mirror.service import mirroring

    client = await connect_temporal()
    await check_postgres(dsn)

    async def metrics() -> str:
        try:
            return await gauges.text()
        except DATABASE_ERRORS as error:
            raise OSError(str(postgres_error(error, dsn))) from error

    with stop_event() as stop_request:
        async with asyncpg.create_pool(dsn, min_size=0, max_size=1, command_timeout=CONNECT_SECONDS) as pool:
            gauges = Gauges(pool, client.namespace)
            async with (
                serve_optional_health(health, client, stop_request, "the event log", metrics),
                mirroring(client, dsn),
            ):
                click.echo("mirroring; Ctrl-C stops")
                await stop_request.wait()


def _event_log_dsn() -> str:
    """Return the DSN of the event log. Each subcommand calls this itself, so that --help needs no stack."""
    running_deployment()
    log_to_stderr()
    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no event log to write: set NOETL_POSTGRES to the DSN of its Postgres")
    return dsn
