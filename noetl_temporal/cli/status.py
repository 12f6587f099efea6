"""``noetl status``: the status of a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.arguments import RUN_ID
from noetl_temporal.cli.connection import Deployment, running_deployment
from noetl_temporal.cli.console import console
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_json

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.cli.run_report import RunSummary

__all__ = ["status_command"]


@click.command("status")
@click.argument("run", metavar="[ID]", type=RUN_ID, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as noetl run --json does.")
def status_command(run: int | str | None, as_json: bool) -> None:
    """Show the status of the run ID: steps, attempts, failures, result. Without ID: the latest run.

    ID is an execution id, a workflow id, or at least the first 6 characters of either.

    If Temporal no longer has the run, or cannot be reached, the status is read from the event log.

    \b
    noetl status
    noetl status 754318462739161088 --json
    noetl status 754318
    noetl status examples/hello/754318
    """
    deployment = running_deployment()
    with importing():
        discard_log()
    summary = asyncio.run(_status_of(run, deployment))
    if as_json:
        echo_json(summary.json())
    else:
        summary.show(console())


async def _status_of(run: int | str | None, deployment: Deployment) -> RunSummary:
    from noetl_temporal.cli.named_run import resolve_execution_id
    from noetl_temporal.cli.run_status import run_status

    return await run_status(await resolve_execution_id(run), deployment)
