"""The events of a pipeline's tasks: each call begins and ends one task execution (semantics.md 18)."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.journal import RESULT_BYTES
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.stored import preview
from noetl_temporal.machine.tasks.calls import call_id
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import TaskPlan

__all__ = ["TaskEvents", "message_of"]

_ENDS = {"COMPLETED": "task.done", "CANCELLED": "task.cancelled", "FAILED": "task.failed"}


class TaskEvents:
    """Emits into the journal of the pipeline's host; each method returns the event's id."""

    def __init__(self, host: Host, state: PipelineState) -> None:
        self._host = host
        self._state = state

    def started(self, plan: TaskPlan) -> int:
        """A task, or another page of it, is about to be called."""
        self._state.is_open = True
        return self._host.journal.emit(
            "task.started",
            plan.task.label,
            plan.task.kind,
            "STARTED",
            parent=self._state.done_id or self._host.parent_id,
            span=plan.task.span,
            meta=self._meta(plan),
        )

    def ended(self, plan: TaskPlan, status: str, outcome: PlainOutcome, sequence: Json = None) -> int:
        """It is over: ``status`` COMPLETED, FAILED or CANCELLED; ``sequence`` tells of all its pages."""
        self._state.is_open = False
        return self._host.journal.emit(
            _ENDS[status],
            plan.task.label,
            plan.task.kind,
            status,
            parent=self._state.done_id or self._state.event_id,
            ends=self._state.event_id,
            started=self._state.started,
            result=preview(outcome, RESULT_BYTES) if status == "COMPLETED" else None,
            error=message_of(outcome),
            span=plan.task.span if status == "FAILED" else None,
            meta=self._meta(plan) if sequence is None else {**self._meta(plan), "sequence": sequence},
        )

    def _meta(self, plan: TaskPlan) -> dict[str, Any]:
        meta = {**self._host.meta, "task_run_id": call_id(self._host, plan, self._state)}
        if plan.paginates:
            meta["page"] = self._state.page
        return meta


def message_of(outcome: PlainOutcome) -> str | None:
    """What went wrong, None when nothing did."""
    error = outcome.get("error")
    return str(error.get("message")) if error else None
