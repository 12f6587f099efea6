"""``noetl status``: how a run stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.reach import Reach, reach_running
from noetl_temporal.cli.view import console
from noetl_temporal.stack.errors import StackError

if TYPE_CHECKING:  # it brings Temporal along, which --help need not wait for
    from noetl_temporal.cli.ended import Ended

__all__ = ["status_command"]


@click.command("status")
@click.argument("execution", metavar="[ID]", type=int, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as noetl run --json does.")
def status_command(execution: int | None, as_json: bool) -> None:
    """Show how the run ID stands: steps, attempts, failures, result. Without ID: the latest run.

    Of a run that Temporal no longer has, or while it cannot be reached, the event log tells.

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
    from noetl_temporal.cli.past import past_account
    from noetl_temporal.client import UnknownRunError
    from noetl_temporal.codec import data_converter
    from noetl_temporal.config import dsn_from_environment
    from noetl_temporal.deployment import DeploymentError

    try:
        return await _ask(reach, execution)
    except (UnknownRunError, DeploymentError) as error:
        dsn = dsn_from_environment()
        past = await past_account(dsn, data_converter(dsn), execution) if dsn else None
        if past is None:
            raise StackError(str(error)) if isinstance(error, UnknownRunError) else error from None
        if isinstance(error, DeploymentError):
            click.echo(f"{error}\nThis is what the event log has:", err=True)
        return past


async def _ask(reach: Reach, execution: int | None) -> Ended:
    from temporalio.service import RPCError

    from noetl_temporal.cli.account import account_of
    from noetl_temporal.cli.find import facts_of, find_run
    from noetl_temporal.client import NoetlClient
    from noetl_temporal.deployment import rpc_problem

    client = await NoetlClient.connect(tools={})
    handle = await find_run(client, execution)
    try:
        return await account_of(client, handle, reach.ui, await facts_of(client, handle))
    except RPCError as error:
        raise rpc_problem(error, client.temporal.namespace) or error from error
