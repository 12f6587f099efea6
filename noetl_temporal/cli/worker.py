"""``noetl worker``: serve task queues."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.arguments import Seconds
from noetl_temporal.cli.connection import reach_running
from noetl_temporal.cli.logs import log_to_terminal

if TYPE_CHECKING:  # it brings the SDK along, which --help need not wait for
    from temporalio.worker import WorkerDeploymentConfig

__all__ = ["worker_command"]


@click.command("worker")
@click.option("--tools", metavar="A,B", help="Serve only these tools. Default: all tools, and workflows.")
@click.option(
    "--grace",
    type=Seconds(),
    metavar="SECONDS",
    help="Time that calls have to end when the worker stops. Default: unlimited.",
)
@click.option("--build-id", metavar="ID", help="Build of this worker: it serves the runs of this build only.")
@click.option("--deployment", metavar="NAME", help="Temporal deployment of the build. Default: noetl.")
def worker_command(tools: str | None, grace: float | None, build_id: str | None, deployment: str | None) -> None:
    """Run playbooks and tools until stopped.

    SIGTERM or Ctrl-C stops it: it takes no new calls and waits for those in progress. Calls that have not ended after
    --grace are run again by another worker, and count neither as failed nor as lost. Until then it still serves
    workflows, so a cancel reaches its calls. A second signal stops it immediately.

    A run stays on the build it started on, and moves to a newer one when it is waiting only for timers. New runs use
    the current build: `temporal worker deployment set-current-version --deployment-name noetl --build-id ID`.

    Finds Temporal by TEMPORAL_ADDRESS or a profile of temporal.toml, else in this folder's stack.
    Credentials come from the file that NOETL_CREDENTIALS names and from NOETL_CREDENTIAL_<NAME>.
    With NOETL_SIGNING_KEY_FILE it runs only what was submitted with the same key.

    \b
    noetl worker
    noetl worker --tools http,postgres
    noetl worker --build-id 2026-11-22
    """
    from noetl_temporal.worker import UnknownToolsError

    only = None if tools is None else [name.strip() for name in tools.split(",") if name.strip()]
    if only == []:
        raise click.UsageError("--tools names no tool: omit it to serve workflows and all tools")
    build = _build(build_id, deployment)
    reach_running()
    log_to_terminal()
    try:
        asyncio.run(_serve(only, grace, build))
    except UnknownToolsError as error:
        raise click.UsageError(str(error)) from None


def _build(build_id: str | None, deployment: str | None) -> WorkerDeploymentConfig | None:
    from noetl_temporal.versioning import DEPLOYMENT, BuildNameError, build_of

    if build_id is None and deployment is not None:
        raise click.UsageError("--deployment needs --build-id")
    try:
        return None if build_id is None else build_of(build_id, DEPLOYMENT if deployment is None else deployment)
    except BuildNameError as error:
        raise click.UsageError(str(error)) from None


async def _serve(only: list[str] | None, grace: float | None, build: WorkerDeploymentConfig | None) -> None:
    from noetl_activities.isolation.probe import CONFINED, isolation
    from noetl_activities.tool import load_tools
    from noetl_temporal.access import access_problem
    from noetl_temporal.cli.stop_signals import stop_asked
    from noetl_temporal.config import connect_temporal
    from noetl_temporal.credential_source import credential_source
    from noetl_temporal.worker import UNTIL_DONE, serving

    client = await connect_temporal()
    problem = access_problem(client)
    if problem is not None:
        click.echo(f"warning: {problem}", err=True)
    patience = UNTIL_DONE if grace is None else min(UNTIL_DONE, timedelta(seconds=grace))
    build_text = f" as build {build.version.build_id} of {build.version.deployment_name}" if build else ""
    limit = "" if grace is None else f", at most {grace:g} s"
    with stop_asked() as stopped:
        async with serving(client, load_tools(), credential_source(), only, patience, build):
            click.echo(f"serving {', '.join(only) if only else 'workflows and all tools'}{build_text}; Ctrl-C stops")
            if only is None or not CONFINED.isdisjoint(only):
                click.echo(await isolation())
            await stopped.wait()
            click.echo(f"stopping: waiting for calls to end{limit}; Ctrl-C again stops immediately")
