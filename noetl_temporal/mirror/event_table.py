"""Writes rows of noetl.event. No row is dropped silently.

If the id of a row already exists, the row was stored before, by another mirror or from the history that a reset copied,
and must be identical, which its checksum shows. A different row is a ConflictError, and its whole batch is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.payloads import Json
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.results import fill_in_results
from noetl_temporal.mirror.storable import storable, storable_text

__all__ = ["ConflictError", "UnknownExecutionError", "add_events", "to_json", "update_execution"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ConflictError(Exception):
    """Different rows have the same id or the same event of history, or history differs from what is stored."""


class UnknownExecutionError(Exception):
    """A loop was read before the playbook that runs it."""


async def add_events(connection: Connection, run: WorkflowRun, rows: Sequence[EventRow]) -> None:
    """Store rows of one execution and update the row of the execution.

    Raises ConflictError, UnknownExecutionError, asyncpg's errors.
    """
    if not rows:
        return
    execution_id = rows[0].execution_id
    catalog_id, parent, last_position = await _lock_execution(connection, execution_id)
    checksums = [row.checksum() for row in rows]
    stream = f"{run.workflow_id}/{run.run_id}"
    rows_with_results = await fill_in_results(connection, stream, rows)
    columns = zip(*map(_columns, rows_with_results, checksums), strict=True)
    try:
        new_records = await connection.fetch(
            sql.query("add_events"), execution_id, catalog_id, parent, stream, *columns, last_position
        )
    except asyncpg.UniqueViolationError as error:
        raise ConflictError(
            f"{stream}: {error.detail} The log was written by another version: run `noetl mirror rebuild`"
        ) from error
    if len(new_records) < len(rows):
        await _check_stored_rows(connection, stream, rows, checksums)
    has_context = any("_step_results" in (row.context or {}) for row in rows)
    await connection.execute(sql.query("update_execution"), execution_id, last_position + len(rows), has_context)


async def update_execution(connection: Connection, execution_id: int) -> None:
    """Update the row of an execution, if there is one, after a change that no event reports."""
    record = await connection.fetchrow(sql.query("lock_execution"), execution_id)
    if record is not None:
        await connection.execute(sql.query("update_execution"), execution_id, record["last_position"], False)


async def _check_stored_rows(
    connection: Connection, stream: str, rows: Sequence[EventRow], checksums: Sequence[str]
) -> None:
    """Raise ConflictError if stored rows with the same ids differ. The query is a separate statement, so that it sees
    rows that other transactions have just committed.
    """
    ids = [row.event_id for row in rows]
    records = await connection.fetch(sql.query("checksums"), rows[0].execution_id, ids)
    records_by_id = {record["event_id"]: record for record in records}
    for row, checksum in zip(rows, checksums, strict=True):
        stored = records_by_id[row.event_id]
        if stored["envelope_checksum"] != checksum:
            raise ConflictError(
                f"{stream} event {row.position}: {row.event_type} of {row.node_name!r} has the id {row.event_id}, "
                f"under which {stored['event_type']} of {stored['node_name']!r} is stored, from {stored['stream_id']} "
                f"event {stored['stream_version']}"
            )


async def _lock_execution(connection: Connection, execution_id: int) -> tuple[int, int | None, int]:
    """Lock an execution until the transaction ends; return its catalog id, parent and last position."""
    record = await connection.fetchrow(sql.query("lock_execution"), execution_id)
    if record is None:
        raise UnknownExecutionError(f"execution {execution_id}: {UnknownExecutionError.__doc__}")
    return record["catalog_id"], record["parent_execution_id"], record["last_position"]


def _columns(row: EventRow, checksum: str) -> tuple[Json, ...]:
    """Return the columns in the order of the query add_events."""
    values = (
        row.event_id,
        row.parent_event_id,
        _EPOCH + timedelta(milliseconds=row.at),
        row.event_type,
        row.node_name,
        row.node_type,
        row.status,
        row.duration,
        to_json(row.context),
        to_json(row.result),
        to_json(row.meta),
        row.error,
        row.worker_id,
        row.stack_trace,
        row.position,
        row.ordinal,
        checksum,
    )
    return tuple(storable_text(value) if isinstance(value, str) else value for value in values)


def to_json(value: Json) -> str | None:
    """Return the JSON text for a jsonb column."""
    return None if value is None else storable(msgspec.json.encode(value)).decode()
