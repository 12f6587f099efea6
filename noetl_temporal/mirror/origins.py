"""Stores the origin of a run in noetl.cursor, for ``noetl.superseded_events`` (dev/decisions/0038).

A run begins by itself, by an event of its parent, as the continuation of another run, or by a reset. A reset copies the
events of the base run before a point, so the first event is that of the base; the event at that point names both runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.raw import WorkflowRun, continued_run, is_reset
from noetl_temporal.naming import LOOP_WORKFLOW

__all__ = ["note_origin", "note_parent"]


async def note_origin(connection: Connection, run: WorkflowRun, events: Iterable[HistoryEvent]) -> None:
    """Store the origin of the run if one of its next events has it."""
    for event in events:
        if event.HasField("workflow_execution_started_event_attributes"):
            await connection.execute(sql.query("note_origin"), *run[:3], *_origin(run, event))
        elif is_reset(event) and event.workflow_task_failed_event_attributes.new_run_id == run.run_id:
            base = event.workflow_task_failed_event_attributes.base_run_id
            await connection.execute(sql.query("note_reset"), *run[:3], base, event.event_id)


async def note_parent(connection: Connection, run: WorkflowRun, links: Iterable[WorkflowRun]) -> None:
    """Store the parent of the chunks among the links, before any of them is read. Called in the transaction that stores
    the run's events, but before it locks the execution's row, as a reader of a chunk locks that row after the chunk's
    cursor.
    """
    chunks = [link for link in links if link.workflow_type == LOOP_WORKFLOW and link.workflow_id != run.workflow_id]
    if chunks:
        columns = map(list, zip(*(chunk[:3] for chunk in chunks), strict=True))
        await connection.execute(sql.query("note_parent"), run.run_id, *columns)


def _origin(run: WorkflowRun, event: HistoryEvent) -> tuple[str, str | None, str | None, int | None]:
    """Return (first run, run that continued as this one, parent's run, the parent's event that started this one), from
    the first event of the run.
    """
    attributes = event.workflow_execution_started_event_attributes
    previous = continued_run(run, event)
    parent = attributes.parent_workflow_execution.run_id or None
    return (
        attributes.first_execution_run_id or run.run_id,
        previous.run_id if previous is not None else None,
        parent,
        attributes.parent_initiated_event_id if parent else None,
    )
