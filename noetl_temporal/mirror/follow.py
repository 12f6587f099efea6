"""Reads one run's history to its end, batch by batch, as it grows.

A poll waits at the server until the history has new events, so rows appear within milliseconds of their history event.
The number of concurrent polls is limited: a run waits for a free slot, and while others wait it polls briefly, so that
all runs make progress.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeVar

import asyncpg
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.database_errors import LOST_CONNECTION_ERRORS, reason_of
from noetl_temporal.mirror.raw import WorkflowRun, ended_children, split_final, split_last_batch
from noetl_temporal.mirror.running_calls import RunningCalls
from noetl_temporal.mirror.store import REMOVED, GapError, Store, UnknownExecutionError, UnreadRunError
from noetl_temporal.naming import LOOP_WORKFLOW

__all__ = ["MAX_POLLS", "TRANSIENT_ERRORS", "Follower", "HistoryPage", "Polls", "finish_despite_cancel"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

MAX_POLLS = 200
"""The maximum number of concurrent polls."""

LONG_POLL = timedelta(seconds=30)
"""How long a poll waits for new events."""

BRIEF_POLL = timedelta(seconds=1)
"""How long a poll waits for new events while other runs wait for a slot."""

CHILDREN_SECONDS = 5.0
"""How long the last events of a run wait for its loops and called playbooks, whose histories may be unreadable."""

RETRY_DELAYS = (0.02, 0.1, 0.5, 2.0, 5.0)
"""Seconds between retries while the server or the database is unavailable; the last one repeats."""

_POLL_ENDED = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
TRANSIENT_ERRORS = (
    RPCError,
    *LOST_CONNECTION_ERRORS,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    UnknownExecutionError,
    UnreadRunError,
    GapError,
)
"""Errors that are retried: the server or the database is unavailable or busy, or another run must be read first."""


class Polls:
    """Polls histories; at most ``limit`` polls wait at the server at the same time."""

    def __init__(self, limit: int = MAX_POLLS) -> None:
        self._slots = asyncio.Semaphore(limit)

    async def poll(self, client: Client, run: WorkflowRun, token: bytes | None) -> HistoryPage:
        """Return the next page of a run's history, without events if there were none before the timeout."""
        async with self._slots:
            handle = client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
            timeout = BRIEF_POLL if self._slots.locked() else LONG_POLL
            pages = handle.fetch_history_events(wait_new_event=True, next_page_token=token, rpc_timeout=timeout)
            try:
                await pages.fetch_next_page()
            except RPCError as error:
                if error.status in _POLL_ENDED:
                    return HistoryPage([], token)
                raise
            return HistoryPage(list(pages.current_page or ()), pages.next_page_token)


class HistoryPage(NamedTuple):
    """A whole batch of events as the server committed it. ``token`` is that of the next page; None at the end of a
    closed run.
    """

    events: list[HistoryEvent]
    token: bytes | None


class Follower:
    """Reads runs with one client and stores them in one store. ``follow_run`` starts to follow a run that another run
    links to, and returns its task. ``calls`` is notified of the events of all runs.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        polls: Polls,
        follow_run: Callable[[WorkflowRun], asyncio.Task[None]],
        calls: RunningCalls | None = None,
    ) -> None:
        self.client, self.store, self.polls, self.follow_run, self.calls = client, store, polls, follow_run, calls

    async def follow(self, run: WorkflowRun) -> None:
        """Store the history of a run until the run is closed; for a loop, also those of the runs that continue it.

        Retries while the server or the database is unavailable. Raises any other error that prevents reading the run,
        and notes it in noetl.cursor.problem.
        """
        delays = chain(RETRY_DELAYS, repeat(RETRY_DELAYS[-1]))
        while True:
            try:
                return await self._read(run)
            except TRANSIENT_ERRORS as error:
                if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                    _log.warning("%s run %s: %s", run.workflow_id, run.run_id, REMOVED)
                    return await self.store.give_up(run)
                if isinstance(error, UnreadRunError):
                    self.follow_run(error.run)
                delay = next(delays)
                is_early = isinstance(error, UnreadRunError | UnknownExecutionError) and delay < RETRY_DELAYS[-1]
                level = logging.DEBUG if is_early else logging.WARNING
                _log.log(level, "%s run %s: %s; retrying in %g s", run.workflow_id, run.run_id, reason_of(error), delay)
                await asyncio.sleep(delay)
            except Exception as error:
                with suppress(*TRANSIENT_ERRORS):
                    await finish_despite_cancel(self.store.note_problem(run, f"{type(error).__name__}: {error}"))
                raise

    async def _read(self, run: WorkflowRun) -> None:
        token: bytes | None = None
        pending: Sequence[HistoryEvent] = ()
        children = _Children()
        while True:
            page = await self.polls.poll(self.client, run, token)
            final_events, pending = split_final(pending, page.events)
            events, last_batch = split_last_batch(final_events)
            await self._store(run, events, children)
            if last_batch:
                await self._store_end(run, last_batch, children)
                return
            token = page.token
            if token is None:
                raise GapError(
                    f"{run.workflow_id} run {run.run_id}: the history from the server ends before the run does"
                )

    async def _store(self, run: WorkflowRun, events: Sequence[HistoryEvent], children: _Children) -> None:
        """Store a batch, and follow the runs that it links to."""
        run_links = await finish_despite_cancel(self.store.ingest(run, events)) if events else []
        if self.calls is not None and events:
            self.calls.note_events(run, events)
        for link in run_links:
            children.tasks[link] = self.follow_run(link)
        children.ended_run_ids |= ended_children(events)

    async def _store_end(self, run: WorkflowRun, events: Sequence[HistoryEvent], children: _Children) -> None:
        """Store the last batch after the rows of its loops and of the playbooks that it has called and that have
        ended, so that a playbook's last row comes last.
        """
        children.ended_run_ids |= ended_children(events)
        if awaited_tasks := children.awaited_tasks():
            await asyncio.wait(awaited_tasks, timeout=CHILDREN_SECONDS)
        last = _Children()
        await self._store(run, events, last)
        if continuations := last.awaited_tasks():
            await asyncio.wait(continuations)


class _Children:
    """The tasks that follow the children of a run, and the run ids of the children that have ended."""

    def __init__(self) -> None:
        self.tasks: dict[WorkflowRun, asyncio.Task[None]] = {}
        self.ended_run_ids: set[str] = set()

    def awaited_tasks(self) -> list[asyncio.Task[None]]:
        """Return the tasks that the run's last events wait for: those of loops, and of called playbooks that have
        ended. A called playbook may outlive its caller.
        """
        followers = self.tasks.items()
        return [
            task for link, task in followers if link.workflow_type == LOOP_WORKFLOW or link.run_id in self.ended_run_ids
        ]


async def finish_despite_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work even if this task is cancelled: cancelling it while it connects would leave a connection open."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # it is no longer awaited, and asyncio would warn
        raise
