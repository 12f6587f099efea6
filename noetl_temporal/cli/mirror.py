"""``noetl mirror``: follow history into Postgres, or make the event log again."""

from __future__ import annotations

import asyncio
import os

import click

from noetl_temporal.cli.logs import log_to_terminal
from noetl_temporal.cli.reach import reach_running
from noetl_temporal.cli.until import stop_asked
from noetl_temporal.stack.errors import StackError

__all__ = ["mirror_group"]


@click.group("mirror", invoke_without_command=True)
@click.pass_context
def mirror_group(context: click.Context) -> None:
    """Follow Temporal's history into the event log until stopped.

    Finds Temporal by TEMPORAL_ADDRESS or a profile of temporal.toml and Postgres by NOETL_POSTGRES, else both in
    this folder's stack. Several mirrors at once do no harm.

    \b
    noetl mirror
    noetl mirror rebuild
    """
    reach_running()
    log_to_terminal()
    if context.invoked_subcommand is None:
        asyncio.run(_follow(_dsn()))


@mirror_group.command("rebuild")
def rebuild_command() -> None:
    """Derive noetl.event again, from the history in noetl.history alone."""
    from noetl_temporal.codec import data_converter
    from noetl_temporal.mirror.rebuild import rebuild

    rows = asyncio.run(rebuild(_dsn(), data_converter(_dsn())))
    click.echo(f"{rows} rows in noetl.event")


async def _follow(dsn: str) -> None:
    from noetl_temporal.config import connect_temporal
    from noetl_temporal.deployment import check_postgres
    from noetl_temporal.mirror.service import mirroring

    client = await connect_temporal()
    await check_postgres(dsn)
    with stop_asked() as stopped:
        async with mirroring(client, dsn):
            click.echo("mirroring; Ctrl-C stops")
            await stopped.wait()


def _dsn() -> str:
    dsn = os.environ.get("NOETL_POSTGRES")
    if dsn is None:
        raise StackError("no Postgres is known to mirror into: set NOETL_POSTGRES to its DSN")
    return dsn
