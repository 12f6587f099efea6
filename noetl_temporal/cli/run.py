"""``noetl run``: compile a playbook, run it, show its progress and its outcome."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl_compiler.graph import Json
from noetl_temporal.cli.arguments import Seconds
from noetl_temporal.cli.catalog_playbook import is_registered, read_registered, refuse_path_without_version
from noetl_temporal.cli.connection import Deployment, deployment_to_run, deployment_to_submit, warn_of_missing_traces
from noetl_temporal.cli.console import console
from noetl_temporal.cli.exits import FAILED, INTERRUPTED
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import log_to_file
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.cli.playbook import Playbook, check_request, check_support, read_playbook
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.cli.view import open_view
from noetl_temporal.naming import SUCCEEDED
from noetl_temporal.stack.home import Home
from noetl_temporal.submission.unsupported import available_tools

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.cli.execute import RunOptions
    from noetl_temporal.cli.run_report import RunSummary

__all__ = ["run_command"]


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set a workload value.")
@click.option("--payload", metavar="JSON|@FILE", help="The request, merged over the workload.")
@click.option(
    "--credentials",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with the credentials of the playbook.",
)
@click.option(
    "--playbooks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder of the playbooks that it calls. Default: that of FILE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object about the run, if one was submitted.")
@click.option("--timeout", type=Seconds(min_open=True), help="Seconds until the run is cancelled.")
@click.option("--verbose", "-v", is_flag=True, help="Show what the tasks print, while they run.")
@click.option("--detach", is_flag=True, help="Start the run and return immediately, as noetl submit does.")
def run_command(
    file: Path,
    settings: tuple[str, ...],
    payload: str | None,
    credentials: Path | None,
    playbooks: Path | None,
    as_json: bool,
    timeout: float | None,
    verbose: bool,
    detach: bool,
) -> None:
    """Run the playbook FILE and wait for its end. - means stdin.

    Uses the stack that is up in this folder (noetl dev up), or starts one for this run; or the cluster
    that TEMPORAL_ADDRESS names. PATH@VERSION in place of FILE is a playbook of the catalog (noetl register).
    Values of --set are YAML (3 is a number, [a, b] a list, '3' text), and a.b=1 sets b in a.

    \b
    noetl run playbook.yaml
    noetl run playbook.yaml --set city=Oslo --set limits.rows=100
    noetl run playbook.yaml --payload @request.json --json --timeout 60
    noetl run playbook.yaml -v
    noetl run playbook.yaml --detach
    generate-playbook | noetl run -
    noetl run etl/load@3

    Ctrl-C cancels the run and waits for its cleanup (the tasks of step end); a second one skips the cleanup,
    a third exits without waiting. --timeout cancels in the same way: the status is cancelled.

    \b
    Exit status:
      0    it completed, wholly or in part
      1    it failed, was cancelled, terminated or timed out
      2    the playbook, the command line or the deployment is wrong; nothing was started
      3    the outcome is unknown (see noetl status ID): the connection was lost, or you left before the end
      130  stopped by Ctrl-C
    """
    with importing():
        request = read_payload(payload, settings)
        deployment = deployment_to_submit() if is_registered(file) else None
        if deployment is not None and playbooks is not None:
            raise click.UsageError(
                "--playbooks needs a FILE: the playbooks that a registered playbook calls are in the catalog"
            )
        if deployment is None:
            refuse_path_without_version(file, "run")
            playbook = read_playbook(file, request, playbooks, credentials)
        else:
            playbook = read_registered(str(file), request, credentials)
        check_request(request, playbook)
    if detach:
        _detach(playbook, request, credentials, timeout, as_json=as_json, verbose=verbose, deployment=deployment)
        return
    report = _Report(as_json, playbook)
    try:
        with importing():
            options = _run_options(playbook, request, credentials, timeout, verbose=verbose)
        _run(options, report, deployment)
    except KeyboardInterrupt:
        report.after_interrupt()
    sys.exit(report.exit_status)


def _detach(
    playbook: Playbook,
    request: dict[str, Json],
    credentials: Path | None,
    timeout: float | None,
    *,
    as_json: bool,
    verbose: bool,
    deployment: Deployment | None,
) -> None:
    """Submit the run and return. Raises click.UsageError for options that need this process until the end."""
    is_set = {"--credentials": credentials is not None, "--timeout": timeout is not None, "--verbose": verbose}
    for option in (name for name, is_given in is_set.items() if is_given):
        raise click.UsageError(f"{option} needs a command that stays until the run ends: omit it, or --detach")
    from noetl_temporal.cli.submit import submit_and_return

    submit_and_return(playbook, request, key=None, as_json=as_json, deployment=deployment)


def _run_options(
    playbook: Playbook, request: dict[str, Json], credentials: Path | None, timeout: float | None, *, verbose: bool
) -> RunOptions:
    from noetl_temporal.cli.credentials import check_credentials
    from noetl_temporal.cli.execute import RunOptions

    tools = available_tools(*playbook.graphs)
    check_support(playbook, tools)
    check_credentials(credentials)
    return RunOptions(playbook, request, tools, credentials, timeout, verbose)


class _Report:
    """Prints the report of the run, once; with --json one object, if a run was submitted."""

    def __init__(self, as_json: bool, playbook: Playbook) -> None:
        self.as_json = as_json
        self.is_stack_stopping = False
        self._playbook = playbook
        self._shown_summary: RunSummary | None = None
        self._was_interrupted = False

    def show(self, summary: RunSummary, was_interrupted: bool = False) -> None:
        self._shown_summary, self._was_interrupted = summary, was_interrupted
        if self.as_json:
            echo_json(summary.json())
        elif summary.status != "unknown":  # a separate error reports that
            summary.show(console(), self._playbook.excerpt, is_stack_stopping=self.is_stack_stopping)

    def after_interrupt(self) -> None:
        """Report an interrupt before the run was followed, or after its outcome was shown."""
        if self._shown_summary is None:
            click.echo("stopped before a run was submitted: nothing was started", err=True)
            self._was_interrupted = True
        elif self._shown_summary.status == "unknown":
            from noetl_temporal.cli.command_errors import OutcomeUnknownError

            raise OutcomeUnknownError(self._shown_summary)

    @property
    def exit_status(self) -> int:
        if self._was_interrupted:
            return INTERRUPTED
        return 0 if self._shown_summary is not None and self._shown_summary.status in SUCCEEDED else FAILED


def _run(options: RunOptions, report: _Report, registered: Deployment | None) -> None:
    from noetl_temporal.cli.credentials import warn_of_ignored_credentials
    from noetl_temporal.cli.execute import execute

    with deployment_to_run() if registered is None else nullcontext(registered) as deployment:
        report.is_stack_stopping = deployment.serves_here
        if options.credentials is None:
            warn_of_ignored_credentials(deployment)
            warn_of_missing_traces()
        log_to_file(Home().log("run"))
        asyncio.run(execute(options, deployment, open_view(quiet=report.as_json), report.show))
