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
from temporalio.service import RPCError

from noetl_compiler.graph import Json
from noetl_temporal.cli.connection import Reach
from noetl_temporal.cli.event_log import EventLog, open_event_log
from noetl_temporal.cli.following import Following
from noetl_temporal.cli.interrupts import taken_interrupts
from noetl_temporal.cli.playbook import Playbook, check_support
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.cli.submission import submitted
from noetl_temporal.cli.view import View
from noetl_temporal.client import NoetlClient
from noetl_temporal.deployment import DeploymentError
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


async def execute(order: Order, reach: Reach, view: View) -> tuple[RunSummary, bool]:
    """Run it to its end; whether it was interrupted comes along. Raises DeploymentError before anything has started,
    StackError when the connection is lost or the report cannot be read.
    """
    client = await NoetlClient.connect(tools=order.tools)
    check_support(order.playbook, order.tools, has_store=client.has_store)
    async with open_event_log(client.dsn) as log, AsyncExitStack() as served:
        await _check(log)
        queues = await _serve(served, client, order, reach)
        with taken_interrupts() as interrupts, view:
            handle = await submitted(partial(_submit, client, order, queues), interrupts, view.say)
            following = Following(client, handle, log, view, order.playbook.graph, order.timeout, interrupts)
            return await _follow(following, reach)


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


async def _follow(following: Following, reach: Reach) -> tuple[RunSummary, bool]:
    try:
        return await following.follow(reach.ui)
    except DeploymentError as error:
        raise StackError(str(error)) from error
    except RPCError as error:
        raise StackError(
            f"lost the connection to Temporal ({error.message}); the run continues when its stack is up: "
            f"noetl status {following.execution_id}"
        ) from error


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
