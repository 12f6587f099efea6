"""Run a playbook from here: check what it needs, submit it, and follow it to its end.

If no other process serves the stack, this one is its worker and its mirror while the run lasts. If one does, and the
run has its own credentials, that worker never sees them: this process serves only the tools of the run, on separate
queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import click
from temporalio.service import RPCError

from noetl_compiler.graph import Json
from noetl_temporal.cli.command_errors import OutcomeUnknownError, cause_of
from noetl_temporal.cli.connection import Deployment
from noetl_temporal.cli.credentials import check_names, check_names_of_workers
from noetl_temporal.cli.event_log import EventLog, open_event_log
from noetl_temporal.cli.interrupts import catch_interrupts
from noetl_temporal.cli.playbook import Playbook, check_support
from noetl_temporal.cli.run_follower import RunFollower
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.cli.submission import UnansweredError, submit_run
from noetl_temporal.cli.view import View
from noetl_temporal.client import NoetlClient
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.ids import new_execution_id
from noetl_temporal.naming import workflow_id
from noetl_temporal.runs import RunHandle
from noetl_temporal.stack.errors import StackError
from noetl_temporal.submission.credential_source import credential_source

__all__ = ["RunOptions", "execute"]

Show: TypeAlias = Callable[[RunSummary, bool], None]
"""Shows how a run ended, and records whether it was interrupted."""


class RunOptions(NamedTuple):
    """A run and its options.

    ``tools`` are the kinds that can be called. ``timeout`` is in seconds. With ``is_verbose``, the output of tasks is
    shown.
    """

    playbook: Playbook
    request: dict[str, Json]
    tools: Collection[str]
    credentials: Path | None
    timeout: float | None
    is_verbose: bool


class _Run:
    """The state of the run in this process.

    ``is_submitted`` is set once Temporal has confirmed the run, ``summary`` once it is no longer followed, because it
    has ended or was left running.
    """

    def __init__(self, options: RunOptions) -> None:
        self.execution_id = new_execution_id()
        self.path = options.playbook.graph.source.path
        self.is_submitted = False
        self.summary: RunSummary | None = None

    def unknown_summary(self, error: BaseException) -> RunSummary:
        """Return the summary of a run whose outcome is unknown because of ``error``."""
        workflow = workflow_id(self.path, self.execution_id)
        return RunSummary(self.execution_id, workflow, "", self.path, "unknown", reason=_reason(error))


async def execute(options: RunOptions, deployment: Deployment, view: View, show: Show) -> None:
    """Run a playbook and show its outcome, before the worker and the mirror of this process stop.

    Raises DeploymentError before anything has started, OutcomeUnknownError if the outcome cannot be read, such as after
    a lost connection.
    """
    run = _Run(options)
    try:
        await _execute(run, options, deployment, view, show)
    except Exception as caught:
        error = cause_of(caught)
        if run.summary is None:
            if run.is_submitted or isinstance(error, UnansweredError):
                run.summary = run.unknown_summary(error)
                show(run.summary, False)
                raise OutcomeUnknownError(run.summary) from caught
            raise
        click.echo(f"after the run ended: {_reason(error)}", err=True)
    if run.summary is not None and run.summary.status == "unknown":
        raise OutcomeUnknownError(run.summary)


async def _execute(run: _Run, options: RunOptions, deployment: Deployment, view: View, show: Show) -> None:
    client = await NoetlClient.connect(tools=options.tools)
    check_support(options.playbook, options.tools, has_store=client.has_store)
    # The signal handlers outlive the worker: a KeyboardInterrupt while the worker stops would leave tasks that never
    # end.
    with ExitStack() as signals:
        async with open_event_log(client.dsn) as log, AsyncExitStack() as services:
            await _check_log(log)
            queues = await _serve(services, client, options, deployment)
            interrupts = signals.enter_context(catch_interrupts())
            with view:
                submit = partial(_submit, client, options, queues)
                handle = await submit_run(submit, run.execution_id, interrupts, view.show_message)
                run.is_submitted = True
                graph, is_verbose = options.playbook.graph, options.is_verbose
                follower = RunFollower(
                    client, handle, log, view, graph, options.timeout, interrupts, shows_output=is_verbose
                )
                run.summary, was_interrupted = await follower.follow(deployment.ui_url)
            show(run.summary, was_interrupted)


def _reason(error: BaseException) -> str:
    """Return the reason why the outcome is unknown."""
    if isinstance(error, RPCError):
        return f"lost the connection to Temporal ({error.message}); the run continues when its stack is up"
    if isinstance(error, DeploymentError | StackError | UnansweredError):
        return str(error)
    return f"{type(error).__name__}: {error}"


async def _check_log(log: EventLog | None) -> None:
    """Check that the event log can be read; warn if there is none. Raises DeploymentError."""
    if log is None:
        click.echo("showing no progress and no events: NOETL_POSTGRES is not set", err=True)
        return
    async with log.connection():
        pass  # connecting is the check


async def _submit(client: NoetlClient, options: RunOptions, queues: Mapping[str, str], execution_id: int) -> RunHandle:
    playbook = options.playbook
    return await client.submit(
        playbook.graph,
        options.request,
        content=playbook.text,
        playbooks=playbook.calls,
        queues=queues,
        execution_id=execution_id,
    )


async def _serve(
    services: AsyncExitStack, client: NoetlClient, options: RunOptions, deployment: Deployment
) -> dict[str, str]:
    """Serve the run if this process must, until ``services`` is closed. Return the run's own queues by tool kind."""
    if not deployment.serves_here and not options.credentials:
        await check_names_of_workers(options.playbook.graphs, client.temporal)
        return {}
    from noetl_temporal.cli import local_worker  # imports all tools and Temporal's worker, which takes long

    check_names(options.playbook.graphs, credential_source(options.credentials))
    if not deployment.serves_here:
        return await services.enter_async_context(local_worker.serve_tools(client.temporal, options.credentials))
    if client.dsn:
        await services.enter_async_context(local_worker.serve_all(client.temporal, client.dsn, options.credentials))
    return {}
