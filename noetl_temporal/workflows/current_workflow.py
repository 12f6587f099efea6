"""The time and the ids of the workflow in which this code runs, and its children."""

from __future__ import annotations

import asyncio

import msgspec
from temporalio import workflow

from noetl_temporal.ids import scheduled_execution_id
from noetl_temporal.messages.run_input import RunInput
from noetl_temporal.naming import child_workflow_id

__all__ = ["cancel_child", "child_id_of", "child_id_of_command", "now", "with_execution_id"]


def now() -> int:
    """Return the workflow's time in milliseconds since the epoch."""
    return workflow.time_ns() // 1_000_000


def with_execution_id(run_input: RunInput) -> RunInput:
    """Return the input with an execution id, which the input of a schedule lacks."""
    if run_input.execution_id:
        return run_input
    info = workflow.info()
    execution_id = scheduled_execution_id(info.workflow_start_time, info.first_execution_run_id)
    return msgspec.structs.replace(run_input, execution_id=execution_id)


def child_id_of_command(command_id: str) -> str:
    """Return the workflow id of the child of this workflow that performs the command with this id."""
    return child_id_of(workflow.info().workflow_id, command_id)


def child_id_of(parent_id: str, command_id: str) -> str:
    """Return the workflow id of the child, of the workflow ``parent_id``, that performs the command with this id."""
    return child_workflow_id(parent_id, *command_id.split("/"))


def cancel_child(workflow_id: str) -> None:
    """Cancel a child that has started. Its caller still waits for its end.

    The SDK would send a cancel by the child's handle to the first run of the child, where the server drops it if that
    run has continued as new.
    """
    request = asyncio.create_task(workflow.get_external_workflow_handle(workflow_id).cancel())
    request.add_done_callback(lambda task: task.cancelled() or task.exception())  # it fails if the child has ended
