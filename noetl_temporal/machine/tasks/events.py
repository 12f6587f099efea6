"""The events of a pipeline's tasks: each call begins and ends one task execution (semantics.md 18)."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Json, Task
from noetl_temporal.machine.call import Outcome
from noetl_temporal.machine.journal import RESULT_BYTES
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.calls import call_id
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.shortening import abridged

__all__ = ["TaskEvents", "message_of", "page_of", "paginates"]


class TaskEvents:
    """Emits into the journal of the pipeline's host; each method returns the event's id."""

    def __init__(self, host: Host, state: PipelineState) -> None:
        self._host = host
        self._state = state

    def started(self, task: Task) -> int:
        """A task, or another page of it, is about to be called."""
        self._state.is_open = True
        return self._host.journal.emit(
            "task.started",
            task.label,
            task.kind,
            "STARTED",
            parent=self._state.done_id or self._host.parent_id,
            span=task.span,
            **self._meta(task),
        )

    def ended(self, task: Task, status: str, outcome: Outcome, sequence: Json = None) -> int:
        """It is over: ``status`` COMPLETED, FAILED or CANCELLED; ``sequence`` tells of all its pages."""
        self._state.is_open = False
        done = {"COMPLETED": "task.done", "CANCELLED": "task.cancelled"}.get(status, "task.failed")
        return self._host.journal.emit(
            done,
            task.label,
            task.kind,
            status,
            parent=self._state.done_id or self._state.event_id,
            ends=self._state.event_id,
            started=self._state.started,
            result=abridged(outcome.get("result"), RESULT_BYTES) if status == "COMPLETED" else None,
            error=message_of(outcome),
            span=task.span if status == "FAILED" else None,
            sequence=sequence,
            **self._meta(task),
        )

    def _meta(self, task: Task) -> dict[str, Any]:
        return {
            **self._host.meta,
            "task_run_id": call_id(self._host, task, self._state),
            "page": page_of(task, self._state),
        }


def paginates(task: Task) -> bool:
    """Whether a rule may call the task again."""
    return task.policy is not None and any(rule.do == "again" for rule in task.policy.rules)


def page_of(task: Task, state: PipelineState) -> int | None:
    """The page that is being called, from 1; None for a task that has none."""
    return state.page if paginates(task) else None


def message_of(outcome: Outcome) -> str | None:
    """What went wrong, None when nothing did."""
    error = outcome.get("error")
    return str(error.get("message")) if error else None
