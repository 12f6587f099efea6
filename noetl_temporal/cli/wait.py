"""``noetl wait``: wait for the end of a run that was submitted before."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.arguments import RUN_ID, Seconds
from noetl_temporal.cli.connection import Deployment, running_deployment
from noetl_temporal.cli.console import console
from noetl_temporal.cli.exits import FAILED, INTERRUPTED, UNKNOWN, WRONG
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.naming import SUCCEEDED
from noetl_temporal.stack.errors import StackError

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.cli.run_report import RunSummary
    from noetl_temporal.runs import RunHandle, Runs

__all__ = ["wait_command"]

SETTLE_SECONDS = 15.0
"""How long to wait for the event log to have the last rows of a run that has ended."""


@click.command("wait")
@click.argument("run", metavar="ID", type=RUN_ID)
@click.option("--timeout", type=Seconds(min_open=True), help="Seconds to wait; the run continues.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as noetl run --json does.")
def wait_command(run: int | str, timeout: float | None, as_json: bool) -> None:
    """Wait for the end of the run ID, and show how it ended.

    ID is an execution id, a workflow id, or at least the first 6 characters of either. Neither --timeout nor Ctrl-C
    stops the run: use noetl cancel.

    \b
    noetl wait 754318462739161088
    noetl wait examples/hello/754318 --timeout 60 --json

    \b
    Exit status:
      0    it completed, wholly or in part
      1    it failed, was cancelled, terminated or timed out
      2    there is no such run, or the command line or the deployment is wrong
      3    it is still running after --timeout, or the connection was lost
      130  Ctrl-C
    """
    deployment = running_deployment()
    with importing():
        discard_log()
    try:
        summary = asyncio.run(_wait(run, timeout, deployment))
    except StackError as error:
        raise _UnknownRunError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("stopped waiting; the run continues", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        echo_json(summary.json())
    else:
        summary.show(console())
    if summary.status in ("running", "paused"):
        click.echo(f"still running after {timeout:g} s: noetl wait {summary.execution_id}", err=True)
        sys.exit(UNKNOWN)
    sys.exit(0 if summary.status in SUCCEEDED else FAILED)


class _UnknownRunError(click.ClickException):
    """There is no such run, or several. Its exit status differs from that of a failed run."""

    exit_code = WRONG


class _LostConnectionError(click.ClickException):
    """The connection was lost while waiting."""

    exit_code = UNKNOWN


async def _wait(run: int | str, seconds: float | None, deployment: Deployment) -> RunSummary:
    from temporalio.service import RPCError

    from noetl_temporal.cli.named_run import resolve_execution_id
    from noetl_temporal.cli.run_status import run_status
    from noetl_temporal.runs import Runs, UnknownRunError

    execution_id = await resolve_execution_id(run)
    limit = None if seconds is None else timedelta(seconds=seconds)
    try:
        with suppress(UnknownRunError, TimeoutError):  # a run that Temporal has removed is read from the event log
            runs = await Runs.connect()
            handle = await runs.find(execution_id)
            await handle.wait(limit)
            await _wait_for_last_rows(runs, handle)
    except RPCError as error:
        hint = f"the run continues when its stack is up: noetl wait {execution_id}"
        raise _LostConnectionError(f"lost the connection to Temporal ({error.message}); {hint}") from None
    return await run_status(execution_id, deployment)


async def _wait_for_last_rows(runs: Runs, handle: RunHandle) -> None:
    """Wait until the event log has the last rows of the run."""
    from temporalio.service import RPCError

    from noetl_temporal.cli.event_log import open_event_log
    from noetl_temporal.cli.log_summary import wait_until_complete

    with suppress(TimeoutError, RPCError):
        async with open_event_log(runs.dsn) as log, asyncio.timeout(SETTLE_SECONDS):
            if log is not None:
                await wait_until_complete(log, runs.temporal.namespace, handle)
