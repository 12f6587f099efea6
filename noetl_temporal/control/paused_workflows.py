"""Supports workflows that were paused in Temporal itself, in its UI or with ``temporal workflow pause``.

Such a workflow is open and does nothing: no workflow task and no attempt of a call begins, updates and queries are
refused, signals are delivered later. Its status at the server is Paused, which the SDK (1.35) does not know: it raises
ValueError when it describes or lists such a workflow, so that a single one would hide all others.
"""

from __future__ import annotations

from temporalio.api.enums.v1 import WorkflowExecutionStatus as ServerStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecutionStatus

__all__ = ["is_paused", "read_paused_as_running", "unpause_command"]

_PAUSED = ServerStatus.WORKFLOW_EXECUTION_STATUS_PAUSED


def read_paused_as_running() -> None:
    """Make the SDK read the status as running, as a paused workflow has not ended. ``is_paused`` distinguishes them.
    Python calls this hook of the enumeration only for values that it does not have.
    """
    WorkflowExecutionStatus._missing_ = _status_from_server  # type: ignore[method-assign] # pyright: ignore[reportAttributeAccessIssue]


def _status_from_server(value: object) -> WorkflowExecutionStatus | None:
    return WorkflowExecutionStatus.RUNNING if value == _PAUSED else None


def is_paused(info: WorkflowExecutionInfo) -> bool:
    """Whether a workflow is paused in Temporal itself. ``info`` is from its description or from a list."""
    return info.status == _PAUSED


def unpause_command(workflow_id: str) -> str:
    """Return the command that resumes a workflow that is paused in Temporal itself."""
    return f"temporal workflow unpause --workflow-id {workflow_id}"
