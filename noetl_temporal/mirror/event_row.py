"""A row of noetl.event, and who writes them: ids, places in history, and what every row's meta has.

Ids. A domain event brings its own. A derived row gets (at - epoch) << 23 | 1 << 22 | lane << 12 | ordinal: bit 22
tells it from a domain event of the same millisecond, the ordinal from other rows of its run. Both are facts of
history, so that ingesting twice gives the same ids.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror.payloads import Json, Reference, as_map
from noetl_temporal.mirror.raw import milliseconds
from noetl_temporal.mirror.sanitise import abridged, sanitised

__all__ = ["EPOCH_MS", "EventRow", "RowWriter", "RunState", "iso"]

EPOCH_MS = 1704067200000
"""2024-01-01 UTC, the epoch of every NoETL id."""

_MESSAGE = 500
_DERIVED = 1 << 22


class RunState(msgspec.Struct, omit_defaults=True):
    """All that the fold of a run remembers between events; plain JSON in noetl.cursor.

    ``ordinal`` counts derived rows. ``pages`` maps a paginating task to the row of its last page. ``started`` is the
    id of the playbook's first event, ``ended`` whether its last has been seen. A loop's run has a ``loop_id``.
    ``workload`` is kept until that first event, whose context it is.
    """

    namespace: str
    workflow_id: str
    run_id: str
    execution_id: int
    path: str
    ordinal: int
    lane: int = 0
    loop_id: str = ""
    started: int | None = None
    ended: bool = False
    pages: dict[str, int] = {}
    workload: dict[str, Json] = {}


class EventRow(msgspec.Struct, frozen=True):
    """The columns of noetl.event that a run's history alone tells; the store adds those of its execution.

    ``at`` in milliseconds since the Unix epoch, ``duration`` in seconds. ``position`` is the history event and
    ``ordinal`` the row's place among those that derive from it.
    """

    execution_id: int
    event_id: int
    parent_event_id: int | None
    at: int
    event_type: str
    node_name: str
    node_type: str
    status: str
    duration: float | None
    context: dict[str, Json] | None
    result: dict[str, Json] | None
    meta: dict[str, Json]
    error: str | None
    worker_id: str | None
    stack_trace: str | None
    position: int
    ordinal: int


class RowWriter:
    """Collects the rows that one history event adds. ``at`` is the event's time, milliseconds since the Unix epoch."""

    def __init__(self, state: RunState, event: HistoryEvent) -> None:
        self.state = state
        self.event = event
        self.at = milliseconds(event.event_time)
        self.rows: list[EventRow] = []

    def domain(self, event: dict[str, Json], worker: str | None = None, stack_trace: str | None = None) -> None:
        """Copy a domain event; its fields are those of machine.domain.DomainEvent."""
        at, status, error = event["at"], event["status"], event.get("error")
        meta = {"execution": _execution(at, status, event.get("duration")), **event.get("meta", {})}
        if error is not None:
            meta["error"] = _error(at, error, stack_trace, meta.get("error", {}))
        self.rows.append(
            EventRow(
                execution_id=self.state.execution_id,
                event_id=event["id"],
                parent_event_id=event.get("parent"),
                at=at,
                event_type=event["type"],
                node_name=event["node"],
                node_type=event["kind"],
                status=status,
                duration=event.get("duration"),
                context=sanitised({"execution_id": str(self.state.execution_id), **event.get("context", {})}),
                result=_result(status, event.get("result")),
                meta=meta | {"temporal": self._temporal()},
                error=error,
                worker_id=worker,
                stack_trace=stack_trace,
                position=self.event.event_id,
                ordinal=len(self.rows),
            )
        )

    def derived(
        self,
        type_: str,
        at: int,
        node: str,
        kind: str,
        status: str,
        *,
        worker: str | None = None,
        stack_trace: str | None = None,
        **fields: Json,
    ) -> int:
        """Write a row that no domain event tells and return its id. ``fields`` are others of a domain event."""
        state = self.state
        state.ordinal = (state.ordinal + 1) & 0xFFF
        id_ = (at - EPOCH_MS) << 23 | _DERIVED | (state.lane & 0x3FF) << 12 | state.ordinal
        event = {"id": id_, "at": at, "type": type_, "node": node, "kind": kind, "status": status, **fields}
        self.domain(event, worker, stack_trace)
        return id_

    def _temporal(self) -> dict[str, Json]:
        state = self.state
        names = {"namespace": state.namespace, "workflow_id": state.workflow_id, "run_id": state.run_id}
        return {**names, "event_id": self.event.event_id}


def iso(at: int) -> str:
    """Milliseconds since the Unix epoch as ISO 8601."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _execution(at: int, status: str, duration: float | None) -> dict[str, Json]:
    if duration is not None:
        started = iso(at - round(duration * 1000))
        return {"duration_seconds": duration, "started_at": started, "completed_at": iso(at)}
    return {"started_at" if status in ("STARTED", "PENDING", "RUNNING") else "completed_at": iso(at)}


def _error(at: int, error: str, trace: str | None, told: dict[str, Json]) -> dict[str, Json]:
    return {**told, "message": error[:_MESSAGE], "has_stack_trace": bool(trace), "failed_at": iso(at)}


def _result(status: str, result: Json) -> dict[str, Json] | None:
    """In the shape that the table's CHECK asks for: an output that is no map is wrapped."""
    if result is None:
        return None
    if isinstance(result, Reference):
        return {"status": status, "reference": {"type": result.driver, **result.claim}}
    output = abridged(result)
    context = as_map(output)
    return {"status": status, "context": {"value": output} if context is None else context}
