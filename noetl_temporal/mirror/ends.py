"""Writes the last rows of a run that was ended from outside: everything that it had started ends with it, innermost
first.

A workflow that ends normally has all ends in its trail. One that is terminated, times out or fails has none, so these
rows are derived. A task gets only ``task.cancelled``: the records of its attempts were at the server and are lost.
"""

from __future__ import annotations

from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json
from noetl_temporal.mirror.run_state import OpenRow

__all__ = ["write_ends"]

_WORKFLOW, _PLAYBOOK = "workflow.started", "playbook.started"
_END_TYPES = {"incident.opened": "incident.resolved"}
"""The types of the rows that end others without the suffix ``.cancelled``, by the type of the row that they end."""

_FINAL_EVENT_TYPES = {"completed": "playbook.completed", "failed": "playbook.failed", "timed_out": "playbook.failed"}
"""The type of the last event by the status of the run; ``playbook.cancelled`` for any other status."""


def write_ends(writer: RowWriter, status: str, error: str | None) -> None:
    """Write an end for each open row, and the last row of the playbook unless it is already written.

    ``status`` is that of the run: completed, failed, cancelled, terminated or timed_out. If the trail of a completed
    run cannot be read, its open rows get no ends, because they are not known.
    """
    state = writer.state
    if state.has_ended:
        return
    if status != "completed":
        for id_ in sorted(state.open_rows, reverse=True):
            if state.open_rows[id_].type != _PLAYBOOK:
                _write_end(writer, id_, state.open_rows[id_], status, error)
    if not state.loop_id:
        _write_playbook_end(writer, status, error)


def _write_end(writer: RowWriter, id_: int, open_row: OpenRow, status: str, error: str | None) -> None:
    is_workflow = open_row.type == _WORKFLOW
    name = "workflow.finished" if is_workflow else _END_TYPES.get(open_row.type) or _cancelled_type(open_row.type)
    writer.add_run_row(
        name,
        status.upper() if is_workflow else "CANCELLED",
        node=open_row.node,
        kind=open_row.kind,
        parent=id_,
        ends=id_,
        duration=_duration(open_row, writer.at),
        meta=open_row.meta,
        error=error,
    )


def _cancelled_type(start_type: str) -> str:
    return start_type.removesuffix("started") + "cancelled"


def _write_playbook_end(writer: RowWriter, status: str, error: str | None) -> None:
    state = writer.state
    state.has_ended = True
    fields: dict[str, Json] = {"error": error}
    start = next(((id_, row) for id_, row in state.open_rows.items() if row.type == _PLAYBOOK), None)
    if start is not None:
        id_, open_row = start
        fields |= {"parent": id_, "ends": id_, "duration": _duration(open_row, writer.at)}
    writer.add_run_row(_FINAL_EVENT_TYPES.get(status, "playbook.cancelled"), status.upper(), node=state.path, **fields)


def _duration(open_row: OpenRow, at: int) -> float:
    return max(0, at - open_row.at) / 1000
