"""``noetl rerun``: a new run that reuses the results of an earlier one up to a step."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from noetl_temporal.cli.arguments import NAME, RUN_ID
from noetl_temporal.cli.connection import deployment_to_submit, warn_of_missing_traces
from noetl_temporal.cli.exits import INTERRUPTED
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import log_to_file
from noetl_temporal.cli.playbook import refuse_to_start
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.cli.submit import start_run
from noetl_temporal.stack.errors import NotStartedError, StackError
from noetl_temporal.stack.home import Home

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.client import NoetlClient
    from noetl_temporal.inspection.earlier_run import EarlierRun
    from noetl_temporal.runs import RunHandle

__all__ = ["rerun_command"]


@click.command("rerun")
@click.argument("run", metavar="ID", type=RUN_ID)
@click.option("--from", "step", metavar="STEP", type=NAME, required=True, help="The first step that runs again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object about the new run.")
def rerun_command(run: int | str, step: str, as_json: bool) -> None:
    """Run STEP of the run ID and all steps after it again, in a new run.

    The new run has the same playbook, as it was then, and the same payload. Results, ctx and failures are those that
    the run ID had before STEP first started; nothing before STEP is called again. The run ID must have ended, and is
    not changed.

    It is refused if another step was still running when STEP first started, if STEP is inside a loop over several
    steps, and if Temporal no longer has the history of the run.

    \b
    noetl rerun 754318462739161088 --from load
    noetl rerun 754318 --from load --json

    \b
    Exit status:
      0    it was submitted
      2    it was refused; nothing was started
      3    it is unknown whether it has started: the connection was lost
    """
    deployment = deployment_to_submit()
    with importing():
        from noetl_temporal.cli.credentials import warn_of_ignored_credentials

        warn_of_ignored_credentials(deployment)
        warn_of_missing_traces()
        log_to_file(Home().log("rerun"))
    submission = asyncio.run(_rerun(run, step))
    if submission is None:
        sys.exit(INTERRUPTED)
    _show(*submission, as_json=as_json)


async def _rerun(run: int | str, step: str) -> tuple[RunHandle, EarlierRun] | None:
    """Start the new run. Returns None if interrupted; the run is cancelled then."""
    from noetl_temporal.cli.credentials import check_names_of_workers
    from noetl_temporal.client import NoetlClient, UnsupportedError

    client = await NoetlClient.connect()
    earlier_run = await _earlier_run(client, run, step)
    playbook = earlier_run.playbook
    await check_names_of_workers(playbook.calls.closure(playbook.graph), client.temporal)

    async def submit(execution_id: int) -> RunHandle:
        return await client.start_rerun(earlier_run, execution_id=execution_id)

    try:
        handle = await start_run(client, submit, "noetl rerun was stopped")
    except UnsupportedError as error:
        refuse_to_start(error.problems)
        raise
    return None if handle is None else (handle, earlier_run)


async def _earlier_run(client: NoetlClient, run: int | str, step: str) -> EarlierRun:
    """Read the run to repeat. Raises NotStartedError if it cannot be repeated, DeploymentError."""
    from noetl_temporal.cli.named_run import resolve_execution_id
    from noetl_temporal.client import RequestRefusedError, UnknownRunError

    try:
        execution_id = await resolve_execution_id(run)
    except StackError as error:
        raise NotStartedError(str(error)) from None
    try:
        return await client.earlier_run(execution_id, step)
    except UnknownRunError:
        reason = f"Temporal has no run {execution_id}, or has removed it, so its results cannot be reused"
        raise NotStartedError(f"{reason}: submit the playbook again") from None
    except RequestRefusedError as error:
        raise NotStartedError(f"run {execution_id}: {error}") from None


def _show(handle: RunHandle, earlier_run: EarlierRun, *, as_json: bool) -> None:
    earlier_id, reused = earlier_run.rerun.execution_id, earlier_run.reused_steps
    if as_json:
        fields = {
            "execution_id": str(handle.execution_id),
            "workflow_id": handle.workflow_id,
            "path": earlier_run.run_input.path,
            "rerun_of": str(earlier_id),
            "rerun_from": earlier_run.rerun.step,
            "reused": reused,
        }
        echo_json(msgspec.json.encode(fields).decode())
        return
    click.echo(f"submitted: execution {handle.execution_id}, workflow {handle.workflow_id}")
    click.echo(
        f"rerun of {earlier_id} from {earlier_run.rerun.step}" + (f", reusing {', '.join(reused)}" if reused else "")
    )
    failed_steps = [name for name, status in reused.items() if status == "failed"]
    if failed_steps:
        click.echo(f"reused as failed: {', '.join(failed_steps)}; to repeat one, rerun from it", err=True)
