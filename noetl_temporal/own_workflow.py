"""What a workflow knows of itself."""

from __future__ import annotations

import msgspec
from temporalio import workflow

from noetl_temporal.ids import scheduled_execution_id
from noetl_temporal.naming import child_workflow_id
from noetl_temporal.run_input import RunInput

__all__ = ["child_id_below", "identified", "now", "own_child_id"]


def now() -> int:
    """The workflow's time, milliseconds since the epoch."""
    return workflow.time_ns() // 1_000_000


def identified(given: RunInput) -> RunInput:
    """Return the input with an execution id, which the input of a schedule lacks."""
    if given.execution_id:
        return given
    info = workflow.info()
    own = scheduled_execution_id(info.workflow_start_time, info.first_execution_run_id)
    return msgspec.structs.replace(given, execution_id=own)


def own_child_id(id_: str) -> str:
    """The workflow id of the child that performs a command with this id."""
    return child_id_below(workflow.info().workflow_id, id_)


def child_id_below(workflow_id: str, id_: str) -> str:
    """The workflow id of the child of that workflow that performs a command with this id."""
    return child_workflow_id(workflow_id, *id_.split("/"))
