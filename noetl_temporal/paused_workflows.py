"""Workflows that were paused in Temporal itself, in its UI or with ``temporal workflow pause``.

Such a workflow is open and does nothing: no workflow task and no attempt of a call begins, requests and queries are
refused, signals are kept. The server lists it as Paused, a status that the SDK (1.35) does not know: it raises
ValueError for whatever describes or lists one, so that a single paused workflow would hide all others.
"""

from __future__ import annotations

from temporalio.api.enums.v1 import WorkflowExecutionStatus as ServerStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecutionStatus

__all__ = ["is_paused", "read_paused_as_running", "unpause_command"]

_PAUSED = ServerStatus.WORKFLOW_EXECUTION_STATUS_PAUSED


def read_paused_as_running() -> None:
    """Make the SDK read the status as running, as a paused workflow has not ended. ``is_paused`` distinguishes
    them. Python asks this hook for no value that the SDK knows.
    """
    WorkflowExecutionStatus._missing_ = _status_from_server  # type: ignore[method-assign] # pyright: ignore[reportAttributeAccessIssue]


def _status_from_server(value: object) -> WorkflowExecutionStatus | None:
    return WorkflowExecutionStatus.RUNNING if value == _PAUSED else None


def is_paused(info: WorkflowExecutionInfo) -> bool:
    """Whether a workflow is paused in Temporal, from its description or from a list."""
    return info.status == _PAUSED


def unpause_command(workflow_id: str) -> str:
    """Return the command that resumes it."""
    return f"temporal workflow unpause --workflow-id {workflow_id}"
