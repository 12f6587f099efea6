"""Run a playbook from here: check what it needs, submit it, and follow it to its end.

Where no other process serves the stack, this one is its worker and its mirror for as long as the run lasts. Where one
does, and the run brings credentials of its own, they never reach that worker: this process serves the run's tools,
and only those, on queues with names of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import structs
from temporalio.service import RPCError

from noetl_compiler.graph import Json
from noetl_temporal.cli.causes import cause_of
from noetl_temporal.cli.connection import Reach
from noetl_temporal.cli.event_log import EventLog, open_event_log
from noetl_temporal.cli.following import Following
from noetl_temporal.cli.interrupts import taken_interrupts
from noetl_temporal.cli.outcome import OutcomeUnknownError
from noetl_temporal.cli.playbook import Playbook, check_support
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.cli.submission import UnansweredError, submitted
from noetl_temporal.cli.view import View
from noetl_temporal.client import NoetlClient
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.ids import new_execution_id
from noetl_temporal.naming import workflow_id
from noetl_temporal.runs import RunHandle
from noetl_temporal.stack.errors import StackError

__all__ = ["Order", "execute"]


class Order(NamedTuple):
    """What to run, and how. ``tools`` are the kinds that can be called, ``timeout`` is in seconds."""

    playbook: Playbook
    request: dict[str, Json]
    tools: Collection[str]
    credentials: Path | None
    timeout: float | None


class _Run:
    """What is known of the run here. ``is_submitted`` when Temporal has said so; ``ended`` once its end was seen."""

    def __init__(self, order: Order) -> None:
        self.execution_id = new_execution_id()
        self.path = order.playbook.graph.source.path
        self.is_submitted = False
        self.ended: tuple[RunSummary, bool] | None = None

    def unknown(self, error: BaseException) -> OutcomeUnknownError:
        """The error for it, when ``error`` came before its end."""
        workflow = workflow_id(self.path, self.execution_id)
        summary = RunSummary(self.execution_id, workflow, "", self.path, "unknown", reason=_reason(error))
        return OutcomeUnknownError(summary)


async def execute(order: Order, reach: Reach, view: View) -> tuple[RunSummary, bool]:
    """Run it to its end; whether it was interrupted comes along. Raises DeploymentError before anything has started,
    OutcomeUnknownError when its end was not seen: the connection is lost, say, or the report cannot be read.
    """
    run = _Run(order)
    try:
        ended, interrupted = await _execute(run, order, reach, view)
    except Exception as raised:
        error = cause_of(raised)
        if run.ended is None:
            if run.is_submitted or isinstance(error, UnansweredError):
                raise run.unknown(error) from raised
            raise
        click.echo(f"after the run had ended: {_reason(error)}", err=True)
        ended, interrupted = run.ended
    if ended.status == "running":
        raise OutcomeUnknownError(structs.replace(ended, status="unknown", reason="left while the run was running"))
    return ended, interrupted


async def _execute(run: _Run, order: Order, reach: Reach, view: View) -> tuple[RunSummary, bool]:
    client = await NoetlClient.connect(tools=order.tools)
    check_support(order.playbook, order.tools, has_store=client.has_store)
    async with open_event_log(client.dsn) as log, AsyncExitStack() as served:
        await _check(log)
        queues = await _serve(served, client, order, reach)
        with taken_interrupts() as interrupts, view:
            submit = partial(_submit, client, order, queues)
            handle = await submitted(submit, run.execution_id, interrupts, view.say)
            run.is_submitted = True
            following = Following(client, handle, log, view, order.playbook.graph, order.timeout, interrupts)
            run.ended = await following.follow(reach.ui)
            return run.ended


def _reason(error: BaseException) -> str:
    """Why no more is known, in words."""
    if isinstance(error, RPCError):
        return f"lost the connection to Temporal ({error.message}); the run continues when its stack is up"
    if isinstance(error, DeploymentError | StackError | UnansweredError):
        return str(error)
    return f"{type(error).__name__}: {error}"


async def _check(log: EventLog | None) -> None:
    """Raises DeploymentError."""
    if log is None:
        click.echo("no progress and no events are shown: NOETL_POSTGRES names no event log", err=True)
        return
    async with log.connection():
        """That there is one is all."""


async def _submit(client: NoetlClient, order: Order, queues: Mapping[str, str], execution_id: int) -> RunHandle:
    graph, text = order.playbook
    return await client.submit(graph, order.request, content=text, queues=queues, execution_id=execution_id)


async def _serve(served: AsyncExitStack, client: NoetlClient, order: Order, reach: Reach) -> dict[str, str]:
    """Have the run served where this process has to; the queues of its tools, where they are not the usual ones."""
    if not reach.serve and not order.credentials:
        return {}
    from noetl_temporal.cli import serving_here  # with all tools and Temporal's worker, which take long to import

    if not reach.serve:
        return await served.enter_async_context(serving_here.tools_alone(client.temporal, order.credentials))
    if client.dsn:
        await served.enter_async_context(serving_here.everything(client.temporal, client.dsn, order.credentials))
    return {}
