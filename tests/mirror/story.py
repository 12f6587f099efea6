"""Domain events as a machine writes them, with ids that rise above what the mirror derives."""

from __future__ import annotations

from typing import Any

from noetl_temporal.event_ids import DERIVED, IdClock, millisecond_of

Json = dict[str, Any]


class Story:
    """The events of one machine. ``now`` is the time of the next one, milliseconds since the epoch."""

    def __init__(self, now: int, slot: int = 0, after: int = 0) -> None:
        self.now, self.slot = now, slot
        self.own, self.derived = IdClock(after, DERIVED), IdClock(after, DERIVED)
        self.playbook, self.workflow = 0, 0

    def event(self, type_: str, node: str, kind: str, status: str, parent: int | None, **fields: Any) -> Json:
        id_ = self.own.next(self.now, self.slot)
        fields_ = {"type": type_, "node": node, "kind": kind, "status": status, "parent": parent}
        return {"id": id_, "at": self.now, **fields_, **fields}

    def begins(self, type_: str, node: str, kind: str, parent: int | None, **fields: Any) -> Json:
        return self.event(type_, node, kind, "STARTED", parent, **fields)

    def ends(self, start_event: Json, word: str = "done", status: str = "COMPLETED", **fields: Any) -> Json:
        """The end of what an event began: ``fetch.started`` gives ``fetch.done``."""
        type_ = start_event["type"].removesuffix("started") + word
        end = {
            "ends": start_event["id"],
            "duration": (self.now - start_event["at"]) / 1000,
            "meta": start_event.get("meta", {}),
        }
        return self.event(type_, start_event["node"], start_event["kind"], status, start_event["id"], **end, **fields)

    def opening(self) -> list[Json]:
        """The four events with which every playbook begins."""
        path = "tests/built"
        request_event = self.event("playbook.execution.requested", path, "playbook", "PENDING", None)
        evaluation_event = self.event("playbook.request.evaluated", path, "playbook", "COMPLETED", request_event["id"])
        playbook = self.begins("playbook.started", path, "playbook", request_event["id"])
        workflow = self.begins("workflow.started", "workflow", "workflow", playbook["id"])
        self.playbook, self.workflow = playbook["id"], workflow["id"]
        return [request_event, evaluation_event, playbook, workflow]

    def closing(self, status: str = "completed", **fields: Any) -> list[Json]:
        """The two events with which every playbook ends."""
        finish_event = self.event(
            "workflow.finished", "workflow", "workflow", status.upper(), self.workflow, ends=self.workflow, **fields
        )
        last = self.event(
            f"playbook.{status}", "tests/built", "playbook", status.upper(), self.playbook, ends=self.playbook, **fields
        )
        return [finish_event, last]

    def leave_room(self, parent: int, rows: int) -> None:
        """A call has ended: the next event stands above the rows that the mirror derives of it."""
        self.derived.skip(max(self.now, millisecond_of(parent)), rows)
        if self.derived.ms >= self.own.ms:
            self.own = IdClock(self.derived.ms, DERIVED)
