"""The rows of noetl.event and their writer: ids, positions in history, and the common part of meta.

Ids. A domain event brings its own; a derived row gets one from the clock of its run, in the run's slot and above the
row that is its parent (event_ids.py). Clock and rows are functions of history, so that ingesting twice gives the same
ids.

Starts and ends. A row with the status STARTED starts something; the row that ends it refers to it in ``meta.ends``.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.event_ids import DERIVED, millisecond_of
from noetl_temporal.limits import PREVIEW_BYTES
from noetl_temporal.mirror.payloads import Json, Reference, as_mapping
from noetl_temporal.mirror.raw import milliseconds
from noetl_temporal.mirror.run_state import OpenRow, RunState
from noetl_temporal.mirror.sanitise import LARGE, sanitise

__all__ = ["ROW_REFERENCE", "EventRow", "RowWriter", "iso"]

_MESSAGE_CHARACTERS = 500
"""The longest message of an error in ``meta``; the column ``error`` has the whole."""

ROW_REFERENCE = "row"
"""The type of a reference to another row that has the same result (results.py)."""

_CORRELATION = ("step", "step_run_id", "task_run_id", "loop_id", "iteration", "iteration_id", "page")
"""The keys in the meta of a row with the status STARTED that the row of its end repeats."""


class EventRow(msgspec.Struct, frozen=True):
    """The columns of noetl.event that are derived from a run's history alone; the store adds those of its execution.

    ``at`` is in milliseconds since the Unix epoch, ``duration`` in seconds. ``position`` is the id of the history
    event, ``ordinal`` the row's number among those derived from that event.
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

    def checksum(self) -> str:
        """Return the checksum of the content, without the position in Temporal's history, which a reset changes."""
        meta = {name: value for name, value in self.meta.items() if name != "temporal"}
        content = (*msgspec.structs.astuple(self)[:11], meta, self.error, self.worker_id, self.stack_trace)
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:32]


class RowWriter:
    """Collects the rows that one history event adds, after those in ``rows``. ``at`` is the event's time, milliseconds
    since the Unix epoch.
    """

    def __init__(self, state: RunState, event: HistoryEvent, rows: list[EventRow] | None = None) -> None:
        self.state = state
        self.event = event
        self.at = milliseconds(event.event_time)
        self.rows: list[EventRow] = [] if rows is None else rows

    def add_domain_event(
        self, event: dict[str, Json], worker: str | None = None, stack_trace: str | None = None
    ) -> None:
        """Add the row of a domain event; its fields are those of machine.domain.DomainEvent."""
        at, status, error = event["at"], event["status"], event.get("error")
        meta = {"execution": _execution_meta(at, status, event.get("duration")), **event.get("meta", {})}
        left_out = meta.pop("left_out", None)
        if event.get("ends") is not None:
            meta["ends"] = str(event["ends"])
        if error is not None:
            meta["error"] = _error_meta(at, error, stack_trace, meta.get("error", {}))
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
                context=sanitise({"execution_id": str(self.state.execution_id), **event.get("context", {})}),
                result=_result(status, event["id"], event.get("result"), left_out or {}),
                meta=meta | {"temporal": self._temporal()},
                error=error,
                worker_id=worker,
                stack_trace=stack_trace,
                position=self.event.event_id,
                ordinal=len(self.rows),
            )
        )
        self._update_open_rows(event)

    def _update_open_rows(self, event: dict[str, Json]) -> None:
        state, ends, id_ = self.state, event.get("ends"), event["id"]
        if ends is not None and state.open_rows.pop(ends, None) is None:
            state.ended_before_start.append(ends)
        if id_ in state.ended_before_start:
            state.ended_before_start.remove(id_)
        elif event["status"] == "STARTED":
            event_meta = event.get("meta", {})
            meta = {name: event_meta[name] for name in _CORRELATION if name in event_meta}
            state.open_rows[id_] = OpenRow(event["type"], event["at"], event["node"], event["kind"], meta)

    def add_derived_row(
        self,
        type_: str,
        at: int,
        node: str,
        kind: str,
        status: str,
        *,
        parent: int | None,
        min_ms: int = 0,
        worker: str | None = None,
        stack_trace: str | None = None,
        **fields: Json,
    ) -> int:
        """Add a row that has no domain event, and return its id. ``fields`` are further fields of a domain event.

        The id is above the parent's, and not below those of the millisecond ``min_ms``.
        """
        id_ = self.state.clock.next(max(at, min_ms, millisecond_of(parent or 0)), self.state.slot, DERIVED)
        event = {"id": id_, "at": at, "type": type_, "node": node, "kind": kind, "status": status, "parent": parent}
        self.add_domain_event({**event, **fields}, worker, stack_trace)
        return id_

    def add_run_row(self, type_: str, status: str, *, node: str = "", kind: str = "", **fields: Json) -> int:
        """Add a derived row about the run as a whole, after all rows of the run so far. Returns its id."""
        state = self.state
        row_fields: dict[str, Json] = {"parent": state.root_event_id, **fields}
        return self.add_derived_row(
            type_, self.at, node or state.node, kind or state.kind, status, min_ms=state.last_event_ms, **row_fields
        )

    def _temporal(self) -> dict[str, Json]:
        state = self.state
        names = {"namespace": state.namespace, "workflow_id": state.workflow_id, "run_id": state.run_id}
        return {**names, "event_id": self.event.event_id}


def iso(ms: int) -> str:
    """Return milliseconds since the Unix epoch as ISO 8601."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _execution_meta(at: int, status: str, duration: float | None) -> dict[str, Json]:
    if duration is not None:
        start = iso(at - round(duration * 1000))
        return {"duration_seconds": duration, "started_at": start, "completed_at": iso(at)}
    return {"started_at" if status in ("STARTED", "PENDING", "RUNNING") else "completed_at": iso(at)}


def _error_meta(at: int, error: str, trace: str | None, meta: dict[str, Json]) -> dict[str, Json]:
    return {**meta, "message": error[:_MESSAGE_CHARACTERS], "has_stack_trace": bool(trace), "failed_at": iso(at)}


def _result(status: str, event_id: int, result: Json, left_out: dict[str, Json]) -> dict[str, Json] | None:
    """Return the result in the shape that the CHECK of the table requires: a result that is not a mapping is wrapped. A
    large result is replaced by a preview; the event of Temporal's history to which meta.temporal of the row
    ``event_id`` refers has the whole.

    ``left_out`` refers to the rows that have the result, or parts of it, which history does not repeat. results.py
    fills in the results of these rows, and removes ``parts``.
    """
    if "results" in left_out:
        return {"status": status, "context": result, "parts": left_out["results"]}
    if "row" in left_out:
        return {
            "status": status,
            "reference": {"type": ROW_REFERENCE, "event_id": str(left_out["row"]), "size": left_out["size"]},
        }
    if left_out:
        return {"status": status, "reference": {"type": "rows", **left_out}}
    if result is None:
        return None
    if isinstance(result, Reference):
        return {"status": status, "reference": {"type": result.driver, **result.claim}}
    text = msgspec.json.encode(result)
    if len(text) > LARGE:
        preview = text[:PREVIEW_BYTES].decode(errors="ignore")
        reference = {"type": "history", "event_id": str(event_id), "size": len(text), "preview": preview}
        return {"status": status, "reference": reference}
    context = as_mapping(result)
    return {"status": status, "context": {"value": result} if context is None else context}
