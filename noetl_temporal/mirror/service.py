"""The mirror as a service: it finds runs, follows them, and reads what it missed.

Temporal's visibility list has every run that was started. Two other ways find runs earlier: the history of a run links
to the loops and sub-playbooks that it starts and to the run that continues it (but not to one that a reset created),
and a client that follows a run announces it (announcements.py). A run is stored before its history is read, so that a
restarted mirror continues with all open runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from noetl_temporal.database_errors import reason_of
from noetl_temporal.mirror.announcements import listening
from noetl_temporal.mirror.follow import MAX_POLLS, TRANSIENT_ERRORS, Follower, Polls, finish_despite_cancel
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.reconcile import Gap, reconcile
from noetl_temporal.mirror.running_calls import RunningCalls, watch_calls
from noetl_temporal.mirror.store import Store, open_store
from noetl_temporal.visibility import NOETL_WORKFLOWS

__all__ = ["Mirror", "follow_execution", "mirroring"]

_log = logging.getLogger(__name__)

MIN_LIST_SECONDS = 0.05
MAX_LIST_SECONDS = 0.25
"""Seconds between queries of the visibility list: the shortest after a new run was found, then longer."""

MAX_RETRY_SECONDS = 2.0
"""Longest delay before the list is queried again while the server or the database is unavailable."""

OVERLAP = timedelta(seconds=30)
"""How far a query of the list goes back before the previous one: a run may be listed late, and clocks differ."""

RECONCILE_SECONDS = 300.0
"""Seconds between comparisons of the stored histories with those of the server."""

FAILED_SECONDS = 30.0
"""Seconds before a run that cannot be read is retried."""


class Mirror:
    """Follows every announced or listed run, and every run that those link to. No task of the mirror ends with an
    error: if one run cannot be read, or one search for runs fails, the others continue.
    """

    def __init__(self, client: Client, store: Store, group: asyncio.TaskGroup, max_polls: int) -> None:
        self._client = client
        self._store = store
        self._group = group
        calls = RunningCalls(client, store, TRANSIENT_ERRORS)
        self._follower = Follower(client, store, Polls(max_polls), self.follow, calls)
        self._tasks: dict[WorkflowRun, asyncio.Task[None]] = {}
        tasks = (self._discover(), self._listen(), self._reconcile(), watch_calls(calls))
        self._searches = [group.create_task(task) for task in tasks]

    def follow(self, run: WorkflowRun) -> asyncio.Task[None]:
        """Start to follow a run to its end, unless it is followed already. Returns the task that follows it."""
        if run not in self._tasks:
            self._tasks[run] = self._group.create_task(self._follow(run))
        return self._tasks[run]

    def stop(self) -> None:
        """Cancel all tasks; transactions that have begun are finished."""
        for task in (*self._searches, *self._tasks.values()):
            task.cancel()

    async def _follow(self, run: WorkflowRun) -> None:
        while True:
            try:
                await self._follower.follow(run)
            except Exception:
                _log.exception(
                    "%s run %s cannot be mirrored; retrying in %g s", run.workflow_id, run.run_id, FAILED_SECONDS
                )
                await asyncio.sleep(FAILED_SECONDS)
            else:
                del self._tasks[run]
                return

    async def _discover(self) -> None:
        """Follow all open runs and every run in the visibility list. Never returns."""
        since: datetime | None = None
        listed_before: set[WorkflowRun] = set()
        delay = MIN_LIST_SECONDS
        while True:
            start_time = datetime.now(UTC)
            try:
                open_runs = (
                    await finish_despite_cancel(self._store.open_runs(self._client.namespace)) if since is None else []
                )
                runs = await self._list_runs(since)
                new_runs = [
                    *open_runs,
                    *await finish_despite_cancel(self._store.add_runs(sorted(runs - listed_before))),
                ]
            except TRANSIENT_ERRORS as error:
                delay = min(max(2 * delay, MAX_LIST_SECONDS), MAX_RETRY_SECONDS)
                _log.warning("cannot list new runs: %s; retrying in %g s", reason_of(error), delay)
            except Exception:
                _log.exception("cannot list new runs; retrying in %g s", FAILED_SECONDS)
                delay = FAILED_SECONDS
            else:
                for run in new_runs:
                    self.follow(run)
                since, listed_before = start_time - OVERLAP, runs
                delay = MIN_LIST_SECONDS if new_runs else min(delay * 1.2, MAX_LIST_SECONDS)
            await asyncio.sleep(delay)

    async def _listen(self) -> None:
        """Follow every announced run. Never returns."""
        while True:
            try:
                async with listening(self._store.pool) as announced_runs:
                    while run := await announced_runs.get():
                        if run.namespace == self._client.namespace:
                            for new_run in await finish_despite_cancel(self._store.add_runs([run])):
                                self.follow(new_run)
            except TRANSIENT_ERRORS as error:
                _log.debug("cannot listen for new runs: %s", reason_of(error))
            except Exception:
                _log.exception("cannot follow an announced run; the next listing includes it")
            await asyncio.sleep(MAX_LIST_SECONDS)

    async def _list_runs(self, since: datetime | None) -> set[WorkflowRun]:
        query = NOETL_WORKFLOWS
        if since is not None:
            query += f" AND StartTime >= '{since.isoformat()}'"
        workflows = self._client.list_workflows(query, page_size=1000)
        return {
            WorkflowRun(workflow.namespace, workflow.id, workflow.run_id, workflow.workflow_type)
            async for workflow in workflows
        }

    async def _reconcile(self) -> None:
        """Every RECONCILE_SECONDS, follow the runs that lack events. Never returns."""
        since: datetime | None = None
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            start_time = datetime.now(UTC)
            try:
                gaps = await finish_despite_cancel(reconcile(self._client, self._store, since))
            except TRANSIENT_ERRORS as error:
                _log.warning("cannot compare with the server: %s", reason_of(error))
                continue
            except Exception:
                _log.exception("cannot compare with the server; retrying in %g s", RECONCILE_SECONDS)
                continue
            since = start_time - OVERLAP
            for gap in gaps:
                self._follow_gap(gap)

    def _follow_gap(self, gap: Gap) -> None:
        """Follow a run that lacks events, unless it is followed already."""
        if gap.run not in self._tasks:
            names = gap.run.workflow_id, gap.run.run_id
            _log.warning(
                "%s run %s has %d of %d events, or lacks its last one", *names, gap.stored.events, gap.expected
            )
            self.follow(gap.run)


@asynccontextmanager
async def mirroring(client: Client, dsn: str, *, max_polls: int = MAX_POLLS) -> AsyncGenerator[Mirror]:
    """Mirror the client's namespace into the database at ``dsn`` while the block runs."""
    async with open_store(dsn, client.data_converter) as store, asyncio.TaskGroup() as group:
        mirror = Mirror(client, store, group, max_polls)
        try:
            yield mirror
        finally:
            mirror.stop()


async def follow_execution(client: Client, dsn: str, workflow_id: str, run_id: str | None = None) -> None:
    """Mirror one playbook's run with its loops, sub-playbooks and continuations, until all are closed and stored.

    Safe beside a running mirror. Raises RPCError for a workflow that does not exist, UnreadableRunError.
    """
    description = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    root = WorkflowRun(description.namespace, workflow_id, description.run_id, description.workflow_type)
    async with open_store(dsn, client.data_converter) as store:
        await _follow_all(client, store, root)


async def _follow_all(client: Client, store: Store, root: WorkflowRun) -> None:
    tasks: dict[WorkflowRun, asyncio.Task[None]] = {}

    def follow_run(run: WorkflowRun) -> asyncio.Task[None]:
        if run not in tasks:
            tasks[run] = group.create_task(follower.follow(run))
        return tasks[run]

    follower = Follower(client, store, Polls(), follow_run)
    try:
        async with asyncio.TaskGroup() as group:
            follow_run(root)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
