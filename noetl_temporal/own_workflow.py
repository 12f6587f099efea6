"""What a workflow knows of itself."""

from __future__ import annotations

from temporalio import workflow

from noetl_temporal.naming import child_workflow_id

__all__ = ["now", "own_child_id"]


def now() -> int:
    """The workflow's time, milliseconds since the epoch."""
    return workflow.time_ns() // 1_000_000


def own_child_id(id_: str) -> str:
    """The workflow id of the child that performs a command with this id."""
    return child_workflow_id(workflow.info().workflow_id, *id_.split("/"))
