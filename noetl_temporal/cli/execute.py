"""Run a playbook from here: submit it, follow its event log, stop it when asked to.

Where no other process serves the stack, this one is its worker and its mirror for as long as the run lasts. Where one
does, and the run brings credentials of its own, they never reach that worker: this process serves the run's tools,
and only those, on queues with names of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import NamedTuple

import asyncpg
import msgspec
from temporalio.service import RPCError

from noetl_activities.credentials import CredentialSource
from noetl_activities.tool import Tool
from noetl_compiler.graph import Json
from noetl_temporal.cli.account import account_of
from noetl_temporal.cli.ended import Ended
from noetl_temporal.cli.playbook import Playbook
from noetl_temporal.cli.reach import Reach
from noetl_temporal.cli.view import View
from noetl_temporal.client import NoetlClient, NoEventLogError, RunHandle
from noetl_temporal.config import credential_source
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.stack.errors import StackError
from noetl_temporal.worker import serving, tool_worker

__all__ = ["Order", "execute"]

STOP_SECONDS = 15.0
"""How long a run may take to stop by itself, and the event log to tell its end."""

INTERRUPTED = 130


class Order(NamedTuple):
    """What to run, and how. ``timeout`` in seconds."""

    playbook: Playbook
    request: dict[str, Json]
    tools: Mapping[str, Tool]
    credentials: Path | None
    timeout: float | None


async def execute(order: Order, reach: Reach, view: View) -> tuple[Ended, bool]:
    """Run it to its end; whether it was interrupted comes along."""
    client = await NoetlClient.connect(tools=order.tools)
    async with _served(client, order, reach) as queues:
        graph, text = order.playbook
        handle = await client.submit(graph, order.request, content=text, queues=queues)
        try:
            with view:
                return await _Run(handle, view, order.timeout).follow(reach.ui)
        except RPCError as error:
            raise StackError(
                f"lost the connection to Temporal ({error.message}); the run goes on when its stack is up: "
                f"noetl status {handle.execution_id}"
            ) from error


@contextlib.asynccontextmanager
async def _served(client: NoetlClient, order: Order, reach: Reach) -> AsyncGenerator[dict[str, str]]:
    """Have the run served; the queues its tools are to be called on, where they are not the usual ones."""
    source = credential_source(order.credentials)
    async with contextlib.AsyncExitStack() as stack:
        if reach.serve and client.dsn:
            await stack.enter_async_context(mirroring(client.temporal, client.dsn))
            await stack.enter_async_context(serving(client.temporal, order.tools, source))
            yield {}
        elif order.credentials:
            yield await _serve_privately(stack, client, order, source)
        else:
            yield {}


async def _serve_privately(
    stack: contextlib.AsyncExitStack, client: NoetlClient, order: Order, source: CredentialSource
) -> dict[str, str]:
    token = secrets.token_hex(4)
    queues = {kind: f"noetl-{kind}-{token}" for kind in order.tools}
    for kind, tool in order.tools.items():
        await stack.enter_async_context(tool_worker(client.temporal, tool, source, queues[kind]))
    return queues


class _Run:
    """One run, from submission to the account of its end."""

    def __init__(self, handle: RunHandle, view: View, timeout: float | None) -> None:
        self._handle, self._view, self._timeout = handle, view, timeout
        self._interrupts = self._events = 0
        self._stopping: asyncio.Task[None] | None = None

    async def follow(self, ui: str | None) -> tuple[Ended, bool]:
        """Show how it goes until it has ended. Ctrl-C cancels it, a second one ends it at once."""
        shown = asyncio.create_task(self._show())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        try:
            timed_out = await self._wait()
            await asyncio.wait([shown], timeout=STOP_SECONDS)
        finally:
            shown.cancel()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        ended = await account_of(self._handle, ui, self._events)
        if timed_out:
            ended = msgspec.structs.replace(ended, status="timed_out")
        return ended, self._interrupts > 0

    async def _wait(self) -> bool:
        """Return when the run has ended; whether that was because its time was up."""
        ended = asyncio.ensure_future(self._handle.result())
        await asyncio.wait([ended], timeout=self._timeout)
        if ended.done() or self._interrupts:
            await ended
            return False
        self._view.say(f"{self._timeout:g} s are over: cancelling")
        await self._handle.cancel()
        await asyncio.wait([ended], timeout=STOP_SECONDS)
        if not ended.done():
            await self._handle.terminate("did not stop when its time was up")
        await ended
        return True

    def _interrupt(self) -> None:
        self._interrupts += 1
        self._stopping = asyncio.create_task(self._stop(self._interrupts))

    async def _stop(self, interrupts: int) -> None:
        if interrupts == 1:
            self._view.say("cancelling; Ctrl-C again does not wait for it")
            await self._handle.cancel()
        else:
            await self._handle.terminate("interrupted twice")

    async def _show(self) -> None:
        """Progress is worth nothing more than itself: a log that cannot be read takes no run along."""
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, NoEventLogError):
            async for row in self._handle.events():
                self._events += 1
                self._view.feed(row)
