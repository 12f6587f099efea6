"""``noetl run``: compile a playbook, run it, show how it goes and how it ended."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl_compiler.graph import Json
from noetl_temporal.cli.arguments import Seconds
from noetl_temporal.cli.connection import reach_to_run
from noetl_temporal.cli.console import console
from noetl_temporal.cli.exits import FAILED, INTERRUPTED
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logs import log_to_file
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.cli.playbook import Playbook, check_request, check_support, read_playbook
from noetl_temporal.cli.printed import echo_json
from noetl_temporal.cli.view import open_view
from noetl_temporal.stack.home import Home
from noetl_temporal.unsupported import tools_for

if TYPE_CHECKING:  # they bring Temporal along, which a wrong call need not wait for
    from noetl_temporal.cli.execute import Order
    from noetl_temporal.cli.run_report import RunSummary

__all__ = ["run_command"]


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set a workload value.")
@click.option("--payload", metavar="JSON|@FILE", help="The request, merged over the workload.")
@click.option(
    "--credentials",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file of the credentials the playbook names.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object about the run.")
@click.option("--timeout", type=Seconds(min_open=True), help="Seconds until the run is cancelled.")
def run_command(
    file: Path,
    settings: tuple[str, ...],
    payload: str | None,
    credentials: Path | None,
    as_json: bool,
    timeout: float | None,
) -> None:
    """Run the playbook FILE and wait for its end.

    Uses the stack that is up in this folder (noetl dev up), or starts one and stops it after; or the cluster
    that TEMPORAL_ADDRESS names. Values of --set are YAML (3 is a number, [a, b] a list, '3' a text)
    and a.b=1 sets b in a.

    \b
    noetl run playbook.yaml
    noetl run playbook.yaml --set city=Oslo --set limits.rows=100
    noetl run playbook.yaml --payload @request.json --json --timeout 60

    Ctrl-C cancels the run and waits for its cleanup (the tools of step end); a second one skips the cleanup,
    a third leaves while it may still run. --timeout cancels in the same way.

    \b
    Exit status:
      0    it completed
      1    it failed, was cancelled, terminated or timed out
      2    the playbook, the call or the deployment is wrong; nothing was started
      3    how it ends is not known (noetl status ID tells): the connection was lost, or you left it
      130  stopped by Ctrl-C
    """
    with importing():
        request = read_payload(payload, settings)
        playbook = read_playbook(file)
        check_request(request, playbook)
        order = _order(playbook, request, credentials, timeout)
    ended, interrupted = _run(order, as_json)
    if interrupted:
        sys.exit(INTERRUPTED)
    if ended.status != "completed":
        sys.exit(FAILED)


def _order(playbook: Playbook, request: dict[str, Json], credentials: Path | None, timeout: float | None) -> Order:
    from noetl_temporal.cli.credentials import check_credentials
    from noetl_temporal.cli.execute import Order

    tools = tools_for(playbook.graph)
    check_support(playbook, tools)
    check_credentials(credentials)
    return Order(playbook, request, tools, credentials, timeout)


def _run(order: Order, as_json: bool) -> tuple[RunSummary, bool]:
    from noetl_temporal.cli.credentials import tell_ignored_credentials
    from noetl_temporal.cli.execute import execute
    from noetl_temporal.cli.outcome import OutcomeUnknownError

    with reach_to_run() as reach:
        if order.credentials is None:
            tell_ignored_credentials(reach)
        log_to_file(Home().log("run"))
        try:
            ended, interrupted = asyncio.run(execute(order, reach, open_view(quiet=as_json)))
        except OutcomeUnknownError as error:
            if as_json:
                echo_json(error.summary.json())
            raise
        if as_json:
            echo_json(ended.json())
        else:
            ended.show(console())
    return ended, interrupted
