"""``noetl cancel`` and ``noetl terminate``: stop a run, with or without its cleanup."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import click

from noetl_temporal.cli.arguments import RUN_ID
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.stack.errors import NoSuchRunError, StackError

__all__ = ["cancel_command", "terminate_command"]


@click.command("cancel")
@click.argument("run", metavar="ID", type=RUN_ID)
@click.option("--reason", metavar="TEXT", default="", help="Why; recorded in the event log.")
def cancel_command(run: int | str, reason: str) -> None:
    """Cancel the run ID, and return immediately; noetl wait ID waits for its end.

    No new calls start, calls in progress are cancelled, and the tasks of step end run as the cleanup.
    A second cancel skips the cleanup.

    \b
    noetl cancel 754318462739161088
    noetl cancel 754318462739161088 --reason "wrong table"
    """
    running_deployment()
    result = asyncio.run(_stop(run, reason, terminate=False))
    status = "cancel requested again; the cleanup is skipped" if result.skips_cleanup else "cancel requested"
    click.echo(f"run {result.execution_id}: {status}")


@click.command("terminate")
@click.argument("run", metavar="ID", type=RUN_ID)
@click.option("--reason", metavar="TEXT", default="", help="Why; recorded in Temporal's history.")
def terminate_command(run: int | str, reason: str) -> None:
    """End the run ID immediately, without cleanup.

    This also ends runs that no build can replay. Calls in progress are abandoned.

    \b
    noetl terminate 754318462739161088
    noetl terminate 754318 --reason "stuck since the deploy"
    """
    running_deployment()
    result = asyncio.run(_stop(run, reason, terminate=True))
    click.echo(f"run {result.execution_id}: terminated")


class _StopResult(NamedTuple):
    execution_id: int
    skips_cleanup: bool = True


async def _stop(run: int | str, reason: str, *, terminate: bool) -> _StopResult:
    from temporalio.service import RPCError

    from noetl_temporal.cli.named_run import resolve_execution_id
    from noetl_temporal.runs import RequestRefusedError, Runs, UnknownRunError
    from noetl_temporal.temporal_errors import rpc_error

    discard_log()
    runs = await Runs.connect()
    execution_id = await resolve_execution_id(run)
    try:
        handle = await runs.find(execution_id)
        if not terminate:
            return _StopResult(execution_id, await handle.cancel(reason))
        await handle.terminate(reason)
    except UnknownRunError as error:
        raise NoSuchRunError(str(error)) from None
    except RequestRefusedError as error:
        raise StackError(f"run {execution_id}: {error}") from None
    except RPCError as error:
        raise rpc_error(error, runs.temporal.namespace) or error from error
    return _StopResult(execution_id)
