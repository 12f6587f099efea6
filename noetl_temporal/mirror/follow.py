"""Reads one run's history to its end, batch by batch, as it grows.

A poll waits at the server until there is something new, so rows appear within milliseconds of their history event.
Polls are bounded: a run waits for its turn, and while others wait too it polls briefly, so that all runs go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeVar

import asyncpg
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.mirror.raw import Run, closes
from noetl_temporal.mirror.store import GapError, Store, UnknownExecutionError

__all__ = ["MAX_POLLS", "PASSING", "Follower", "Page", "Polls", "whole"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

MAX_POLLS = 200
"""Polls that wait at the server at the same time."""

LONG = timedelta(seconds=30)
BRIEF = timedelta(seconds=1)
PAUSES = (0.02, 0.1, 0.5, 2.0, 5.0)
"""Seconds between tries while the server or the database is away; the last one again and again."""

_WAITED = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
PASSING = (
    RPCError,
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    UnknownExecutionError,
    GapError,
)
"""What passes: the server or the database is away or busy, or another run has to be read first."""


class Polls:
    """Turns at the server."""

    def __init__(self, limit: int = MAX_POLLS) -> None:
        self._turns = asyncio.Semaphore(limit)

    async def poll(self, client: Client, run: Run, token: bytes | None) -> Page:
        """The next page of a run's history; without events when none came in time."""
        async with self._turns:
            handle = client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
            patience = BRIEF if self._turns.locked() else LONG
            pages = handle.fetch_history_events(wait_new_event=True, next_page_token=token, rpc_timeout=patience)
            try:
                await pages.fetch_next_page()
            except RPCError as error:
                if error.status in _WAITED:
                    return Page([], token)
                raise
            return Page(list(pages.current_page or ()), pages.next_page_token)


class Page(NamedTuple):
    """A whole batch as the server committed it. ``token`` asks for what follows; None at the end of a closed run."""

    events: list[HistoryEvent]
    token: bytes | None


class Follower:
    """Follows runs from one client into one store. ``found`` is told the runs to which a run links."""

    def __init__(self, client: Client, store: Store, polls: Polls, found: Callable[[Run], None]) -> None:
        self.client, self.store, self.polls, self.found = client, store, polls, found

    async def follow(self, run: Run) -> None:
        """Return when the run is closed and stored. Goes on where it was when server or database were away."""
        pauses = chain(PAUSES, repeat(PAUSES[-1]))
        while True:
            try:
                return await self._read(run)
            except PASSING as error:
                if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                    return await self.store.give_up(run)
                pause = next(pauses)
                _log.warning("%s run %s: %s; again in %g s", run.workflow_id, run.run_id, error, pause)
                await asyncio.sleep(pause)

    async def _read(self, run: Run) -> None:
        token: bytes | None = None
        while True:
            page = await self.polls.poll(self.client, run, token)
            for link in await whole(self.store.ingest(run, page.events)) if page.events else ():
                self.found(link)
            if closes(page.events):
                return
            token = page.token


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Do the work to its end even when cancelled meanwhile: a connection that is being made would be left open."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
