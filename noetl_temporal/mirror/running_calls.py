"""Shows the attempts of calls that are in progress, as the server reports pending activities (semantics.md 40).

History has the attempts of a call when the call ends. Until then each heartbeat carries the records of those that have
ended, and the server lists the one that runs or waits. Calls that take longer than PATIENCE_SECONDS are looked at
regularly, and their attempts stand in noetl.running_attempt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.attempt_record import records_of
from noetl_temporal.mirror.call_pauses import CallPause, note_pauses
from noetl_temporal.mirror.event_row import iso
from noetl_temporal.mirror.event_table import project, to_json
from noetl_temporal.mirror.frames import is_frame
from noetl_temporal.mirror.payloads import Json, as_map, first
from noetl_temporal.mirror.raw import WorkflowRun, closes
from noetl_temporal.mirror.reports import records_in, references
from noetl_temporal.mirror.store import Store
from noetl_temporal.naming import PAUSE_REASON

__all__ = ["RunningCalls", "SeenCalls", "watch"]

_log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
PATIENCE_SECONDS = 2.0
MAX_RUNS = 50
"""Runs that are described at each look, in turn."""

MAX_CALLS = 100
"""Calls of one run that are shown."""

_ENDED = {"error": "FAILED", "lost": "FAILED", "ok": "COMPLETED"}
_WAITING: Mapping[int, str] = {
    PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED: "PENDING",
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED: "PAUSED",
}
"""Status of an attempt that does not run, by the state of its activity. Somebody has paused it in Temporal itself, or
it waits until it is due.
"""


@dataclass
class _Call:
    """A call in progress since ``began``, seconds of the monotonic clock. ``place`` are the columns that its attempts
    share: None until its input is read, which is only needed for a call that takes long.
    """

    id: str
    began: float
    place: dict[str, Json] | None = None


@dataclass
class SeenCalls:
    """What the server tells ``at`` this time of the calls of a run that are in progress: their attempts, as rows of
    noetl.running_attempt, and those that are paused.
    """

    at: datetime
    attempts: list[Json] = field(default_factory=list[Json])
    pauses: list[CallPause] = field(default_factory=list[CallPause])


class RunningCalls:
    """The calls in progress of all runs that are followed; a frame makes calls of its own, which are not shown. After
    one of the ``transient`` errors everything is tried again.
    """

    def __init__(self, client: Client, store: Store, transient: tuple[type[BaseException], ...]) -> None:
        self._client = client
        self.transient = transient
        self._store = store
        self._pending: dict[WorkflowRun, dict[int, _Call]] = {}
        self._shown: set[WorkflowRun] | None = None
        self._paused: set[WorkflowRun] = set()
        self._looked_at: dict[WorkflowRun, float] = {}

    def take(self, run: WorkflowRun, events: Sequence[HistoryEvent]) -> None:
        """Note which calls a run's next events begin and end."""
        calls = self._pending.setdefault(run, {})
        for event in events:
            if event.HasField("activity_task_scheduled_event_attributes") and not is_frame(event):
                id_ = event.activity_task_scheduled_event_attributes.activity_id
                calls[event.event_id] = _Call(id_, time.monotonic())
            elif (ended := references(event)) is not None:
                calls.pop(ended[0], None)
        if not calls or closes(events):
            del self._pending[run]

    async def look(self) -> None:
        """Bring noetl.running_attempt up to date, of the runs that were not looked at for the longest time."""
        if self._shown is None:
            await self._hide_all()
            self._shown = set()
        now = time.monotonic()
        oldest = {run: min(call.began for call in calls.values()) for run, calls in self._pending.items()}
        due = {run for run, began in oldest.items() if began <= now - PATIENCE_SECONDS}
        self._looked_at = {run: at for run, at in self._looked_at.items() if run in due}
        for run in self._shown - due:
            await self.show(run, SeenCalls(datetime.now(UTC)))
        self._shown &= due
        for run in sorted(due, key=lambda run: (self._looked_at.get(run, 0.0), oldest[run]))[:MAX_RUNS]:
            self._looked_at[run] = now
            self._shown.add(run)
            await self._look_at(run)

    async def _look_at(self, run: WorkflowRun) -> None:
        try:
            await self.show(run, await self._seen(run))
        except self.transient:
            raise
        except Exception as error:
            _log.debug("%s run %s: cannot look at its calls in progress: %s", run.workflow_id, run.run_id, error)

    async def show(self, run: WorkflowRun, seen: SeenCalls) -> None:
        """Show the attempts of a run instead of those that were shown. One that is paused in Temporal itself, or no
        longer is, changes the status of the execution, and has rows in the log.
        """
        is_paused = any(one["status"] == "PAUSED" for one in seen.attempts)
        async with self._store.pool.acquire() as connection, connection.transaction():
            await connection.execute(sql.query("lock_attempts"), run.namespace)
            await connection.execute(sql.query("show_attempts"), *run[:3], to_json(seen.attempts))
            execution_id = await connection.fetchval(sql.query("execution_of_run"), *run[:3])
            if execution_id is not None:
                going_on = {one["call_id"] for one in seen.attempts} - {one.place["call_id"] for one in seen.pauses}
                await note_pauses(connection, run, execution_id, seen.pauses, sorted(going_on), seen.at)
                if is_paused is not (run in self._paused):
                    await project(connection, execution_id)
        self._paused = self._paused | {run} if is_paused else self._paused - {run}

    async def _hide_all(self) -> None:
        """Forget what a mirror before this one has shown."""
        async with self._store.pool.acquire() as connection, connection.transaction():
            await connection.execute(sql.query("lock_attempts"), self._client.namespace)
            for record in await connection.fetch(sql.query("hide_all_attempts"), self._client.namespace):
                await project(connection, record["execution_id"])

    async def _seen(self, run: WorkflowRun) -> SeenCalls:
        seen = SeenCalls(datetime.now(UTC))
        handle = self._client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
        try:
            described = await handle.describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return seen
            raise
        places = await self._places(run)
        pending = [
            activity for activity in described.raw_description.pending_activities if activity.activity_id in places
        ]
        for activity in pending[:MAX_CALLS]:
            place, pause = places[activity.activity_id], activity.pause_info.manual
            seen.attempts.extend(_rows(place, activity, await self._details(activity.heartbeat_details)))
            if activity.paused and pause.reason != PAUSE_REASON:
                at = activity.pause_info.pause_time.ToDatetime(UTC)
                seen.pauses.append(CallPause(place, at, pause.identity, pause.reason))
        return seen

    async def _places(self, run: WorkflowRun) -> dict[str, dict[str, Json]]:
        """Return the places of the run's calls in progress, by their ids. An input never changes: it is read once."""
        calls = self._pending.get(run, {})
        unread = [event_id for event_id, call in calls.items() if call.place is None]
        for event in await self._store.events_at(run, unread) if unread else ():
            given = as_map(first(event.activity_task_scheduled_event_attributes.input.payloads))
            if event.event_id in calls:  # it may have ended meanwhile
                calls[event.event_id].place = _place(given) if given is not None and "event_id" in given else {}
        return {call.id: call.place for call in calls.values() if call.place}

    async def _details(self, details: Payloads) -> Json:
        if not details.payloads:
            return None
        decoded = first(details.payloads)
        if decoded is not None:
            return decoded
        [decoded] = await self._store.converter.decode(details.payloads[:1])
        return msgspec.to_builtins(decoded)


def _rows(place: dict[str, Json], seen: PendingActivityInfo, details: Json) -> list[Json]:
    """One row for each attempt that is known. The details may be those of an attempt before the one that runs."""
    records = records_of(records_in(details))
    rows = [_row(place, record) for record in records]
    last = records[-1]["number"] if records else 0
    status = _WAITING.get(seen.state, "STARTED")
    if records and not records[-1].get("ended"):
        is_paused = seen.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
        rows[-1] |= {"status": "PAUSED" if is_paused else "STARTED", "worker_id": seen.last_worker_identity}
        return rows
    row = {**place, "attempt": last + 1, "status": status}
    if seen.state in _WAITING:
        return [*rows, row | {"due_at": _time(seen.next_attempt_schedule_time)}]
    return [*rows, row | {"started_at": _time(seen.last_started_time), "worker_id": seen.last_worker_identity}]


def _row(place: dict[str, Json], record: dict[str, Json]) -> dict[str, Json]:
    error: dict[str, Json] = record.get("error") or {}
    return {
        **place,
        "attempt": record["number"],
        "status": _ENDED.get(record["status"], "CANCELLED"),
        "started_at": iso(record["started"]),
        "ended_at": iso(record["ended"]) if record.get("ended") else None,
        "error": error.get("message"),
        "rule": record.get("rule"),
        "delay": record.get("delay"),
        "worker_id": record.get("worker"),
    }


def _place(call: dict[str, Json]) -> dict[str, Json]:
    return {
        "call_id": call["id"],
        "task_event_id": call["event_id"],
        "step": call["step"],
        "task": call["task"],
        "tool": call["kind"],
        "iteration": call.get("iteration"),
        "page": call.get("page"),
    }


def _time(at: Timestamp) -> str | None:
    return at.ToJsonString() if at.seconds else None


async def watch(calls: RunningCalls) -> None:
    """Look at the calls in progress every WATCH_SECONDS. Never returns."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            await calls.look()
        except calls.transient as error:
            _log.debug("cannot look at calls in progress: %s", error)
        except Exception:
            _log.exception("cannot look at calls in progress")
