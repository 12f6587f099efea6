"""Writes rows about calls that were paused in Temporal itself, in its UI or with ``temporal activity pause``.

History has such a pause only when the call ends, and only if the pause interrupted an attempt. The server shows it
immediately, so the mirror stores it in noetl.call_pause, once even if several mirrors see it, and derives the rows
``task.paused`` and ``task.resumed`` from that table. A rebuild derives the same rows again (dev/decisions/0092).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg
import msgspec

from noetl_temporal.event_ids import DERIVED, OBSERVED_SLOT, IdClock, millisecond_of
from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.event_table import add_events, to_json
from noetl_temporal.mirror.payloads import Json
from noetl_temporal.mirror.raw import WorkflowRun

__all__ = ["CallPause", "restore_pauses", "write_pauses"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CallPause(NamedTuple):
    """The pause of a call since the time ``at``. ``columns`` are those that all attempts of the call share, ``by`` is
    the identity of the client that paused it.
    """

    columns: dict[str, Json]
    at: datetime
    by: str
    reason: str


async def write_pauses(
    connection: Connection,
    run: WorkflowRun,
    execution_id: int,
    pauses: Sequence[CallPause],
    running_call_ids: Sequence[str],
    seen_at: datetime,
) -> None:
    """Write rows for the pauses of a run that are new, and for those that have ended. At the time ``seen_at``, the
    calls in ``running_call_ids`` were in progress and not paused.
    """
    ended_pauses = (
        await connection.fetch(sql.query("open_call_pauses"), *run[:3], list(running_call_ids))
        if running_call_ids
        else []
    )
    if not pauses and not ended_pauses:
        return
    await connection.fetchrow(sql.query("lock_execution"), execution_id)
    for pause in pauses:
        id_ = await _free_id(connection, execution_id, pause.at, pause.columns["task_event_id"])
        facts = to_json({**pause.columns, "by": pause.by, "reason": pause.reason})
        values = pause.columns["call_id"], pause.at, execution_id, id_, facts
        await _write_rows(connection, run, await connection.fetch(sql.query("add_call_pause"), *run[:3], *values))
    for record in ended_pauses:
        id_ = await _free_id(connection, execution_id, seen_at, record["paused_event_id"])
        end = record["call_id"], record["paused_at"], seen_at, id_
        await _write_rows(connection, run, await connection.fetch(sql.query("end_call_pause"), *run[:3], *end))


async def restore_pauses(connection: Connection) -> None:
    """Write the rows of all pauses again, except those of pruned executions."""
    for record in await connection.fetch(sql.query("all_call_pauses")):
        run = WorkflowRun(*(record[name] for name in WorkflowRun._fields))
        await _write_rows(connection, run, [record])


async def _free_id(connection: Connection, execution_id: int, row_time: datetime, parent_id: int) -> int:
    """Return a free id for a row with this time, above the id of its parent. The execution must be locked."""
    ms = max(_milliseconds(row_time), millisecond_of(parent_id))
    first = IdClock(ms).next(ms, OBSERVED_SLOT, DERIVED)
    return int(await connection.fetchval(sql.query("free_call_pause_id"), execution_id, first, first + DERIVED - 1))


async def _write_rows(connection: Connection, run: WorkflowRun, records: Sequence[asyncpg.Record]) -> None:
    """Write the rows of pauses. Each pause has its own stream, because the rows of a stream must be stored in order."""
    for record in records:
        stream = run._replace(run_id=f"{run.run_id}/pauses/{record['paused_event_id']}")
        await add_events(connection, stream, _rows(run, record))


def _rows(run: WorkflowRun, record: asyncpg.Record) -> list[EventRow]:
    facts = msgspec.json.decode(record["facts"])
    pause_id, resume_id = record["paused_event_id"], record["resumed_event_id"]
    meta = {
        **{name: facts[name] for name in ("step", "iteration", "page", "by", "reason") if facts.get(name) is not None},
        "task_run_id": facts["call_id"],
        "in_temporal": True,
        "temporal": {"namespace": run.namespace, "workflow_id": run.workflow_id, "run_id": run.run_id},
    }

    def row(type_: str, id_: int, at: datetime, status: str, parent: int, row_meta: dict[str, Json]) -> EventRow:
        return EventRow(
            execution_id=record["execution_id"],
            event_id=id_,
            parent_event_id=parent,
            at=_milliseconds(at),
            event_type=type_,
            node_name=facts["task"],
            node_type=facts["tool"],
            status=status,
            duration=None,
            context={"execution_id": str(record["execution_id"])},
            result=None,
            meta=row_meta,
            error=None,
            worker_id=None,
            stack_trace=None,
            position=1 if type_ == "task.paused" else 2,
            ordinal=0,
        )

    rows = [row("task.paused", pause_id, record["paused_at"], "PAUSED", facts["task_event_id"], meta)]
    if resume_id is not None:
        resume_meta = {name: value for name, value in meta.items() if name not in ("by", "reason")}
        rows.append(row("task.resumed", resume_id, record["resumed_at"], "RUNNING", pause_id, resume_meta))
    return rows


def _milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)
