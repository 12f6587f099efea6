"""Derives the events of a run from Temporal's history, for clients without an event log.

The rows are those that the mirror derives (mirror/rows.py), from the same batches: they come as soon as history has
them, those of a loop's chunks while the chunks run, and the run's last row last. A run that a reset creates is not
followed, and values in a payload store to which this process has no access are missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from noetl_temporal.mirror.decryption import decrypt_event
from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.follow import Polls
from noetl_temporal.mirror.payloads import with_plain_values
from noetl_temporal.mirror.raw import WorkflowRun, linked_runs, split_final, split_last_batch
from noetl_temporal.mirror.read import Event
from noetl_temporal.mirror.results import ResultsByRow, fill_rows
from noetl_temporal.mirror.rows import fold, initial_state
from noetl_temporal.mirror.run_state import RunState
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW

__all__ = ["events_in_history"]


async def events_in_history(client: Client, workflow_id: str) -> AsyncIterator[Event]:
    """Yield the events of a run until its last one. Raises RPCError, also for a run that Temporal has removed."""
    description = await client.get_workflow_handle(workflow_id).describe()
    first_run_id = description.raw_description.workflow_execution_info.first_run_id or description.run_id
    rows = asyncio.Queue[EventRow | None]()
    reading = asyncio.create_task(
        _read_all(client, WorkflowRun(client.namespace, workflow_id, first_run_id, PLAYBOOK_WORKFLOW), rows)
    )
    try:
        while (row := await rows.get()) is not None:
            yield _event(row)
        await reading
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def _read_all(client: Client, run: WorkflowRun, rows: asyncio.Queue[EventRow | None]) -> None:
    """Put the rows of the run into the queue, and None after the last."""
    try:
        await _Reader(client, rows).read(run, None)
    finally:
        rows.put_nowait(None)


class _Reader:
    def __init__(self, client: Client, rows: asyncio.Queue[EventRow | None]) -> None:
        self._client, self._rows, self._polls = client, rows, Polls()
        self._results: ResultsByRow = {}

    async def read(self, run: WorkflowRun, previous_state: RunState | None) -> None:
        """Read the rows of a run, of its loops and of the runs that continue it. ``previous_state`` is the last state
        of the run that this one continues, None for a first run.
        """
        run_fold = _RunFold(self._client, run, previous_state)
        token: bytes | None = None
        pending: Sequence[HistoryEvent] = ()
        async with asyncio.TaskGroup() as loops:
            while True:
                page = await self._polls.poll(self._client, run, token)
                final_events, pending = split_final(pending, page.events)
                events, end = split_last_batch(final_events)
                await self._put_rows(run_fold, events)
                for link in linked_runs(run, events):
                    if link.workflow_type == LOOP_WORKFLOW:
                        loops.create_task(self.read(link, None))
                token = page.token
                if end or token is None:
                    break
        await self._put_rows(run_fold, end)
        for link in linked_runs(run, end):
            if link.workflow_id == run.workflow_id:
                await self.read(link, run_fold.state)

    async def _put_rows(self, run_fold: _RunFold, events: Sequence[HistoryEvent]) -> None:
        for row in fill_rows(await run_fold.rows_of(events), self._results):
            self._rows.put_nowait(row)


class _RunFold:
    """The fold over one run. It stores the run's events, as later ones refer to them."""

    def __init__(self, client: Client, run: WorkflowRun, previous_state: RunState | None) -> None:
        self._converter, self._run, self._previous_state = client.data_converter, run, previous_state
        self._events: dict[int, HistoryEvent] = {}
        self.state: RunState | None = None

    async def rows_of(self, events: Sequence[HistoryEvent]) -> list[EventRow]:
        """Return the rows that the next events add."""
        if not events:
            return []
        plain_events = [
            await with_plain_values(await decrypt_event(event, self._converter), self._converter) for event in events
        ]
        if self.state is None:
            self.state = initial_state(self._run, plain_events[0], self._previous_state)
        self._events |= {event.event_id: event for event in plain_events}
        return fold(self.state, plain_events, self._events)


def _event(row: EventRow) -> Event:
    columns: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(row))
    event_time = datetime.fromtimestamp(row.at / 1000, UTC)
    fields = {name: columns[name] for name in Event.__struct_fields__ if name in columns}
    return msgspec.convert({**fields, "event_time": event_time, "parent_execution_id": None}, Event)
