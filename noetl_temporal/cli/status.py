"""``noetl status``: the status of a run."""

from __future__ import annotations

import asyncio

import click

from noetl_temporal.cli.arguments import EXECUTION_ID
from noetl_temporal.cli.connection import reach_running
from noetl_temporal.cli.console import console
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logs import log_nowhere
from noetl_temporal.cli.printed import echo_json

__all__ = ["status_command"]


@click.command("status")
@click.argument("execution", metavar="[ID]", type=EXECUTION_ID, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, as noetl run --json does.")
def status_command(execution: int | None, as_json: bool) -> None:
    """Show the status of the run ID: steps, attempts, failures, result. Without ID: the latest run.

    If Temporal no longer has the run, or cannot be reached, the status is read from the event log.

    \b
    noetl status
    noetl status 754318462739161088 --json
    """
    reach = reach_running()
    with importing():
        from noetl_temporal.cli.standing import standing_of  # with Temporal, which --help need not wait for

        log_nowhere()
    ended = asyncio.run(standing_of(execution, reach))
    if as_json:
        echo_json(ended.json())
    else:
        ended.show(console())
