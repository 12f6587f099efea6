"""The events of a run straight from Temporal's history, for clients without an event log.

The rows are those that the mirror derives (mirror/rows.py), from the same batches: they come as soon as history has
them, those of a loop's chunks while the chunks run, and the run's last row last. The run that a reset creates is not
followed, and values in a payload store that this process does not know are missing.
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
    first = description.raw_description.workflow_execution_info.first_run_id or description.run_id
    rows = asyncio.Queue[EventRow | None]()
    reading = asyncio.create_task(
        _read_all(client, WorkflowRun(client.namespace, workflow_id, first, PLAYBOOK_WORKFLOW), rows)
    )
    try:
        while (row := await rows.get()) is not None:
            yield _event(row)
        await reading
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def _read_all(client: Client, run: WorkflowRun, rows: asyncio.Queue[EventRow | None]) -> None:
    try:
        await _Reader(client, rows).read(run, None)
    finally:
        rows.put_nowait(None)


class _Reader:
    def __init__(self, client: Client, rows: asyncio.Queue[EventRow | None]) -> None:
        self._client, self._rows, self._polls = client, rows, Polls()
        self._results: ResultsByRow = {}

    async def read(self, run: WorkflowRun, before: RunState | None) -> None:
        """Read the rows of a run, of its loops and of the runs that continue it. ``before`` is the last state of the
        run that it continues."""
        fold_ = _Fold(self._client, run, before)
        token: bytes | None = None
        pending: Sequence[HistoryEvent] = ()
        async with asyncio.TaskGroup() as loops:
            while True:
                page = await self._polls.poll(self._client, run, token)
                final_events, pending = split_final(pending, page.events)
                events, end = split_last_batch(final_events)
                await self._put(fold_, events)
                for link in linked_runs(run, events):
                    if link.workflow_type == LOOP_WORKFLOW:
                        loops.create_task(self.read(link, None))
                token = page.token
                if end or token is None:
                    break
        await self._put(fold_, end)
        for link in linked_runs(run, end):
            if link.workflow_id == run.workflow_id:
                await self.read(link, fold_.state)

    async def _put(self, fold_: _Fold, events: Sequence[HistoryEvent]) -> None:
        for row in fill_rows(await fold_.rows_of(events), self._results):
            self._rows.put_nowait(row)


class _Fold:
    """The fold over one run; it keeps the run's events, to which later ones refer."""

    def __init__(self, client: Client, run: WorkflowRun, before: RunState | None) -> None:
        self._converter, self._run, self._before = client.data_converter, run, before
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
            self.state = initial_state(self._run, plain_events[0], self._before)
        self._events |= {event.event_id: event for event in plain_events}
        return fold(self.state, plain_events, self._events)


def _event(row: EventRow) -> Event:
    columns: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(row))
    at = datetime.fromtimestamp(row.at / 1000, UTC)
    fields = {name: columns[name] for name in Event.__struct_fields__ if name in columns}
    return msgspec.convert({**fields, "event_time": at, "parent_execution_id": None}, Event)
