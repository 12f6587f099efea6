"""``noetl submit``: start a run and leave it to the workers of the stack or the cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.cli.catalog_playbook import is_registered, read_registered, refuse_path_without_version
from noetl_temporal.cli.connection import Deployment, deployment_to_submit, warn_of_missing_traces
from noetl_temporal.cli.exits import INTERRUPTED, UNKNOWN
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.cli.playbook import Playbook, check_request, check_support, read_playbook
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.submission.unsupported import available_tools

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.client import NoetlClient
    from noetl_temporal.runs import RunHandle

__all__ = ["start_run", "submit_and_return", "submit_command"]


@click.command("submit")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set a workload value.")
@click.option("--payload", metavar="JSON|@FILE", help="The request, merged over the workload.")
@click.option("--key", metavar="KEY", help="Start at most one run of the playbook's path with this key.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object about the run.")
def submit_command(file: Path, settings: tuple[str, ...], payload: str | None, key: str | None, as_json: bool) -> None:
    """Start a run of the playbook FILE and return immediately. - means stdin.

    PATH@VERSION in place of FILE is a playbook of the catalog (noetl register), PATH@latest its newest version.

    The run is left to the workers of the stack that is up in this folder (noetl dev up), or of the cluster that
    TEMPORAL_ADDRESS names.

    With --key, only the first submission makes a run; later ones return it, also after it has ended, so a submission
    can be repeated safely. With another playbook or payload they are refused.

    \b
    noetl submit playbook.yaml --set city=Oslo
    noetl submit playbook.yaml --key 2026-11-23
    noetl submit etl/load@3
    noetl wait $(noetl submit playbook.yaml --json | jq -r .execution_id)

    \b
    Exit status:
      0    it was submitted, or the key has a run
      2    the playbook, the command line, the key or the deployment is wrong; nothing was started
      3    it is unknown whether it has started: the connection was lost
    """
    with importing():
        request = read_payload(payload, settings)
        deployment = deployment_to_submit() if is_registered(file) else None
        if deployment is None:
            refuse_path_without_version(file, "submit")
            playbook = read_playbook(file, request)
        else:
            playbook = read_registered(str(file), request)
        check_request(request, playbook)
    submit_and_return(playbook, request, key=key, as_json=as_json, deployment=deployment)


def submit_and_return(
    playbook: Playbook,
    request: dict[str, Json],
    *,
    key: str | None,
    as_json: bool,
    deployment: Deployment | None = None,
) -> None:
    """Submit a run and print its ids. ``deployment`` is looked up if not given."""
    tools = available_tools(*playbook.graphs)
    check_support(playbook, tools)
    with importing():
        from noetl_temporal.cli.credentials import warn_of_ignored_credentials

        deployment = deployment or deployment_to_submit()
        warn_of_ignored_credentials(deployment)
        warn_of_missing_traces()
        discard_log()
    handle = asyncio.run(_submit(playbook, request, tools, key))
    if handle is None:
        sys.exit(INTERRUPTED)
    _show(playbook.graph.source.path, handle, as_json=as_json)


async def _submit(
    playbook: Playbook, request: dict[str, Json], tools: Collection[str], key: str | None
) -> RunHandle | None:
    """Submit the run. Returns None if interrupted; the run is cancelled then."""
    from noetl_temporal.cli.credentials import check_names_of_workers
    from noetl_temporal.client import KeyTakenError, NoetlClient, NoEventLogError

    client = await NoetlClient.connect(tools=tools)
    check_support(playbook, tools, has_store=client.has_store)
    await check_names_of_workers(playbook.graphs, client.temporal)

    async def submit(execution_id: int) -> RunHandle:
        return await client.submit(
            playbook.graph,
            request,
            content=playbook.text,
            playbooks=playbook.calls,
            execution_id=execution_id,
            key=key,
        )

    try:
        return await start_run(client, submit, "noetl submit was stopped")
    except (KeyTakenError, NoEventLogError, ValueError) as error:
        raise click.UsageError(str(error)) from None


async def start_run(
    client: NoetlClient, submit: Callable[[int], Awaitable[RunHandle]], cancel_reason: str
) -> RunHandle | None:
    """Start a run with ``submit`` and a new execution id.

    Returns None if the command was interrupted; then the run is cancelled with ``cancel_reason``. Raises
    click.ClickException if it is unknown whether the run has started, and the errors of ``submit``.
    """
    from noetl_temporal.cli.interrupts import catch_interrupts
    from noetl_temporal.cli.submission import UnansweredError, submit_run
    from noetl_temporal.ids import new_execution_id

    try:
        with catch_interrupts() as interrupts:
            handle = await submit_run(submit, new_execution_id(), interrupts, lambda text: click.echo(text, err=True))
            if interrupts.count and handle.is_new:
                await handle.cancel(cancel_reason)
                return None
    except UnansweredError as error:
        raise _UnknownStartError(str(error)) from None
    await _announce(client.temporal.namespace, client.dsn, handle)
    return handle


class _UnknownStartError(click.ClickException):
    """It is unknown whether the run has started."""

    exit_code = UNKNOWN


async def _announce(namespace: str, dsn: str | None, handle: RunHandle) -> None:
    """Announce the run to the mirrors, so that the event log shows it immediately."""
    from contextlib import suppress

    from noetl_temporal.cli.event_log import log_connection
    from noetl_temporal.deployment import DeploymentError
    from noetl_temporal.mirror.announcements import announce
    from noetl_temporal.mirror.raw import WorkflowRun
    from noetl_temporal.naming import PLAYBOOK_WORKFLOW

    if dsn is None or handle.run_id is None:
        return
    with suppress(DeploymentError):
        async with log_connection(dsn) as connection:
            await announce(connection, WorkflowRun(namespace, handle.workflow_id, handle.run_id, PLAYBOOK_WORKFLOW))


def _show(path: str, handle: RunHandle, *, as_json: bool) -> None:
    if as_json:
        fields = {
            "execution_id": str(handle.execution_id),
            "workflow_id": handle.workflow_id,
            "path": path,
            "is_new": handle.is_new,
        }
        echo_json(msgspec.json.encode(fields).decode())
        return
    outcome = "submitted" if handle.is_new else "this key already has a run"
    click.echo(f"{outcome}: execution {handle.execution_id}, workflow {handle.workflow_id}")
