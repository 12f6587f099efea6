"""Stores the attempts of calls in progress, from the pending activities at the server (semantics.md 40).

History has the attempts of a call only when the call has ended. Until then, heartbeats carry the records of attempts
that have ended, and the server lists the current one. The attempts of calls that take longer than MIN_CALL_SECONDS are
written to noetl.running_attempt every UPDATE_SECONDS.
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
from noetl_temporal.mirror.attempt_record import valid_records
from noetl_temporal.mirror.call_pauses import CallPause, write_pauses
from noetl_temporal.mirror.event_row import iso
from noetl_temporal.mirror.event_table import to_json, update_execution
from noetl_temporal.mirror.frames import is_frame
from noetl_temporal.mirror.payloads import Json, as_mapping, first_value
from noetl_temporal.mirror.raw import WorkflowRun, ends_run
from noetl_temporal.mirror.reports import activity_event_ids, records_in
from noetl_temporal.mirror.store import Store
from noetl_temporal.naming import PAUSE_REASON

__all__ = ["CallSnapshot", "RunningCalls", "watch_calls"]

_log = logging.getLogger(__name__)

UPDATE_SECONDS = 1.0
"""Seconds between updates."""

MIN_CALL_SECONDS = 2.0
"""How long a call must be in progress before its attempts are stored."""

MAX_RUNS = 50
"""The maximum number of runs in one update; with more runs, those that were not updated for the longest time."""

MAX_CALLS = 100
"""The maximum number of calls of one run whose attempts are stored."""

_END_STATUSES = {"error": "FAILED", "lost": "FAILED", "ok": "COMPLETED"}
"""The status of an attempt that has ended, by that of its record; CANCELLED for any other."""

_WAITING: Mapping[int, str] = {
    PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED: "PENDING",
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED: "PAUSED",
}
"""The status of an attempt that no worker runs, by the state of its activity: it is due later, or paused in Temporal.
"""


@dataclass
class _Call:
    """A call in progress since ``started_at``, in seconds of the monotonic clock.

    ``columns`` has the columns that its attempts share. They are None until the call's input is read, which happens
    only if the call takes long.
    """

    id: str
    started_at: float
    columns: dict[str, Json] | None = None


@dataclass
class CallSnapshot:
    """The calls of a run that were in progress at the time ``at``: their attempts, as rows of noetl.running_attempt,
    and their pauses.
    """

    at: datetime
    attempts: list[Json] = field(default_factory=list[Json])
    pauses: list[CallPause] = field(default_factory=list[CallPause])


class RunningCalls:
    """The calls in progress of all followed runs, except those inside frames. After an error in ``transient_errors``
    the whole update is repeated later; any other one concerns a single run.
    """

    def __init__(self, client: Client, store: Store, transient_errors: tuple[type[BaseException], ...]) -> None:
        self._client = client
        self.transient_errors = transient_errors
        self._store = store
        self._pending: dict[WorkflowRun, dict[int, _Call]] = {}
        self._shown_runs: set[WorkflowRun] | None = None
        self._paused_runs: set[WorkflowRun] = set()
        self._updated_at: dict[WorkflowRun, float] = {}

    def note_events(self, run: WorkflowRun, events: Sequence[HistoryEvent]) -> None:
        """Record which calls start and end with a run's next events."""
        calls = self._pending.setdefault(run, {})
        for event in events:
            if event.HasField("activity_task_scheduled_event_attributes") and not is_frame(event):
                id_ = event.activity_task_scheduled_event_attributes.activity_id
                calls[event.event_id] = _Call(id_, time.monotonic())
            elif (event_ids := activity_event_ids(event)) is not None:
                calls.pop(event_ids[0], None)
        if not calls or ends_run(events):
            del self._pending[run]

    async def update(self) -> None:
        """Update noetl.running_attempt for the runs that were not updated for the longest time."""
        if self._shown_runs is None:
            await self._remove_shown_attempts()
            self._shown_runs = set()
        now = time.monotonic()
        oldest = {run: min(call.started_at for call in calls.values()) for run, calls in self._pending.items()}
        due = {run for run, started_at in oldest.items() if started_at <= now - MIN_CALL_SECONDS}
        self._updated_at = {run: at for run, at in self._updated_at.items() if run in due}
        for run in self._shown_runs - due:
            await self.store_snapshot(run, CallSnapshot(datetime.now(UTC)))
        self._shown_runs &= due
        for run in sorted(due, key=lambda run: (self._updated_at.get(run, 0.0), oldest[run]))[:MAX_RUNS]:
            self._updated_at[run] = now
            self._shown_runs.add(run)
            await self._update_run(run)

    async def _update_run(self, run: WorkflowRun) -> None:
        try:
            await self.store_snapshot(run, await self._snapshot(run))
        except self.transient_errors:
            raise
        except Exception as error:
            _log.debug("%s run %s: cannot read its calls in progress: %s", run.workflow_id, run.run_id, error)

    async def store_snapshot(self, run: WorkflowRun, snapshot: CallSnapshot) -> None:
        """Replace the stored attempts of a run. A call that was paused or resumed in Temporal itself changes the status
        of the execution, and gets rows in the log.
        """
        is_paused = any(attempt["status"] == "PAUSED" for attempt in snapshot.attempts)
        async with self._store.pool.acquire() as connection, connection.transaction():
            await connection.execute(sql.query("lock_attempts"), run.namespace)
            await connection.execute(sql.query("replace_attempts"), *run[:3], to_json(snapshot.attempts))
            execution = await connection.fetchrow(sql.query("execution_of_run"), *run[:3])
            if execution is not None:
                execution_id = execution["execution_id"]
                if snapshot.pauses or execution["has_open_pauses"]:
                    call_ids = {attempt["call_id"] for attempt in snapshot.attempts}
                    running_ids = sorted(call_ids - {pause.columns["call_id"] for pause in snapshot.pauses})
                    await write_pauses(connection, run, execution_id, snapshot.pauses, running_ids, snapshot.at)
                if is_paused is not (run in self._paused_runs):
                    await update_execution(connection, execution_id)
        self._paused_runs = self._paused_runs | {run} if is_paused else self._paused_runs - {run}

    async def _remove_shown_attempts(self) -> None:
        """Delete the attempts that a previous mirror stored."""
        async with self._store.pool.acquire() as connection, connection.transaction():
            await connection.execute(sql.query("lock_attempts"), self._client.namespace)
            for record in await connection.fetch(sql.query("delete_attempts"), self._client.namespace):
                await update_execution(connection, record["execution_id"])

    async def _snapshot(self, run: WorkflowRun) -> CallSnapshot:
        snapshot = CallSnapshot(datetime.now(UTC))
        handle = self._client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return snapshot
            raise
        call_columns = await self._call_columns(run)
        pending = [
            activity
            for activity in description.raw_description.pending_activities
            if activity.activity_id in call_columns
        ]
        for activity in pending[:MAX_CALLS]:
            columns, pause = call_columns[activity.activity_id], activity.pause_info.manual
            snapshot.attempts.extend(_rows(columns, activity, await self._details(activity.heartbeat_details)))
            if activity.paused and pause.reason != PAUSE_REASON:
                at = activity.pause_info.pause_time.ToDatetime(UTC)
                snapshot.pauses.append(CallPause(columns, at, pause.identity, pause.reason))
        return snapshot

    async def _call_columns(self, run: WorkflowRun) -> dict[str, dict[str, Json]]:
        """Return the columns of the run's calls in progress, by call id. The input of each call is read only once."""
        calls = self._pending.get(run, {})
        unread_ids = [event_id for event_id, call in calls.items() if call.columns is None]
        for event in await self._store.events_at(run, unread_ids) if unread_ids else ():
            call_input = as_mapping(first_value(event.activity_task_scheduled_event_attributes.input.payloads))
            if event.event_id in calls:  # it may have ended meanwhile
                calls[event.event_id].columns = (
                    _columns_of_call(call_input) if call_input is not None and "event_id" in call_input else {}
                )
        return {call.id: call.columns for call in calls.values() if call.columns}

    async def _details(self, details: Payloads) -> Json:
        if not details.payloads:
            return None
        detail = first_value(details.payloads)
        if detail is not None:
            return detail
        [detail] = await self._store.converter.decode(details.payloads[:1])
        return msgspec.to_builtins(detail)


def _rows(columns: dict[str, Json], activity: PendingActivityInfo, details: Json) -> list[Json]:
    """Return a row for each known attempt. The details may be those of an attempt before the current one."""
    records = valid_records(records_in(details))
    rows = [_row(columns, record) for record in records]
    last_number = records[-1]["number"] if records else 0
    status = _WAITING.get(activity.state, "STARTED")
    if records and not records[-1].get("ended"):
        is_paused = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
        rows[-1] |= {"status": "PAUSED" if is_paused else "STARTED", "worker_id": activity.last_worker_identity}
        return rows
    row = {**columns, "attempt": last_number + 1, "status": status}
    if activity.state in _WAITING:
        return [*rows, row | {"due_at": _time(activity.next_attempt_schedule_time)}]
    return [*rows, row | {"started_at": _time(activity.last_started_time), "worker_id": activity.last_worker_identity}]


def _row(columns: dict[str, Json], record: dict[str, Json]) -> dict[str, Json]:
    error: dict[str, Json] = record.get("error") or {}
    return {
        **columns,
        "attempt": record["number"],
        "status": _END_STATUSES.get(record["status"], "CANCELLED"),
        "started_at": iso(record["started"]),
        "ended_at": iso(record["ended"]) if record.get("ended") else None,
        "error": error.get("message"),
        "rule": record.get("rule"),
        "delay": record.get("delay"),
        "worker_id": record.get("worker"),
    }


def _columns_of_call(call: dict[str, Json]) -> dict[str, Json]:
    return {
        "call_id": call["id"],
        "task_event_id": call["event_id"],
        "step": call["step"],
        "task": call["task"],
        "tool": call["kind"],
        "iteration": call.get("iteration"),
        "page": call.get("page"),
    }


def _time(timestamp: Timestamp) -> str | None:
    return timestamp.ToJsonString() if timestamp.seconds else None


async def watch_calls(calls: RunningCalls) -> None:
    """Update the calls in progress every UPDATE_SECONDS. Never returns."""
    while True:
        await asyncio.sleep(UPDATE_SECONDS)
        try:
            await calls.update()
        except calls.transient_errors as error:
            _log.debug("cannot read calls in progress: %s", error)
        except Exception:
            _log.exception("cannot read calls in progress")
