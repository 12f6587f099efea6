"""The last rows of a run that was ended from outside: everything that it had started ends with it, innermost first.

A workflow that ends normally has all ends in its trail. One that is terminated, times out or breaks has none, so these
rows are derived. A task only gets ``task.cancelled``: the records of its attempts were kept by the server, and are
lost.
"""

from __future__ import annotations

from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json
from noetl_temporal.mirror.run_state import OpenRow

__all__ = ["write_ends"]

_WORKFLOW, _PLAYBOOK = "workflow.started", "playbook.started"
_OTHER_ENDS = {"incident.opened": "incident.resolved"}
"""The ends that are not called ``.cancelled``, by the type of the start."""

_LAST_ROWS = {"completed": "playbook.completed", "failed": "playbook.failed", "timed_out": "playbook.failed"}
"""Status of the run -> its last event; for any other status ``playbook.cancelled``."""


def write_ends(writer: RowWriter, status: str, error: str | None) -> None:
    """Write the ends of what is open, and the playbook's own last row unless it is written.

    ``status`` is that of the run: completed, failed, cancelled, terminated or timed_out. If a completed run's trail
    cannot be read, what it had started stays open, because its ends are not known.
    """
    state = writer.state
    if state.ended:
        return
    if status != "completed":
        for id_ in sorted(state.open, reverse=True):
            if state.open[id_].type != _PLAYBOOK:
                _write_end(writer, id_, state.open[id_], status, error)
    if not state.loop_id:
        _write_playbook_end(writer, status, error)


def _write_end(writer: RowWriter, id_: int, begun: OpenRow, status: str, error: str | None) -> None:
    is_workflow = begun.type == _WORKFLOW
    name = "workflow.finished" if is_workflow else _OTHER_ENDS.get(begun.type) or _cancelled_type(begun.type)
    writer.add_run_row(
        name,
        status.upper() if is_workflow else "CANCELLED",
        node=begun.node,
        kind=begun.kind,
        parent=id_,
        ends=id_,
        duration=_seconds(begun, writer.at),
        meta=begun.meta,
        error=error,
    )


def _cancelled_type(began: str) -> str:
    return began.removesuffix("started") + "cancelled"


def _write_playbook_end(writer: RowWriter, status: str, error: str | None) -> None:
    state = writer.state
    state.ended = True
    opened = {id_: begun for id_, begun in state.open.items() if begun.type == _PLAYBOOK}
    fields: dict[str, Json] = {"error": error}
    for id_, begun in opened.items():
        fields |= {"parent": id_, "ends": id_, "duration": _seconds(begun, writer.at)}
    writer.add_run_row(_LAST_ROWS.get(status, "playbook.cancelled"), status.upper(), node=state.path, **fields)


def _seconds(begun: OpenRow, at: int) -> float:
    return max(0, at - begun.at) / 1000
