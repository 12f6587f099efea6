"""``noetl status``: how a run stands."""

from __future__ import annotations

import asyncio

import click

from noetl_temporal.cli.ended import Ended
from noetl_temporal.cli.reach import Reach, reach_running
from noetl_temporal.cli.view import console

__all__ = ["status_command"]


@click.command("status")
@click.argument("execution", metavar="[ID]", type=int, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as noetl run --json does.")
def status_command(execution: int | None, as_json: bool) -> None:
    """Show how the run ID stands: steps, attempts, failures, result. Without ID: the latest run.

    \b
    noetl status
    noetl status 754318462739161088 --json
    """
    ended = asyncio.run(_look(reach_running(), execution))
    if as_json:
        click.echo(ended.json())
    else:
        ended.show(console())


async def _look(reach: Reach, execution: int | None) -> Ended:
    from noetl_temporal.cli.account import account_of
    from noetl_temporal.cli.find import events_of_run, find_run
    from noetl_temporal.client import NoetlClient

    client = await NoetlClient.connect(tools={})
    handle = await find_run(client, execution)
    return await account_of(handle, reach.ui, len(await events_of_run(client, handle)))
