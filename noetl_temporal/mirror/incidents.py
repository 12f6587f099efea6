"""Writes incidents: a workflow task fails because of a bug or a problem of the deployment (semantics.md 47).

The run does not fail: it waits for a build or a deployment that can continue it. Temporal records only the first
failures of a workflow task in history, so one incident covers all retries until one completes. A single timeout of a
workflow task is not an incident, because restarting a worker causes one. Two in a row are.
"""

from __future__ import annotations

import re

from temporalio.api.enums.v1 import TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent, WorkflowTaskFailedEventAttributes

from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json
from noetl_temporal.payloads.encryption import DecryptionError

__all__ = [
    "NO_INCIDENT",
    "cause_of",
    "on_workflow_task_completed",
    "on_workflow_task_failed",
    "on_workflow_task_scheduled",
    "on_workflow_task_started",
    "on_workflow_task_timed_out",
]

NO_INCIDENT = {
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FAILOVER_CLOSE_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_PAUSE_REQUESTED_BEFORE_TASK_STARTED,
}
"""Causes for which the server itself retries the workflow task; they are not incidents."""

_CAUSES = {
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE: "exception",
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR: "nondeterminism",
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_EXTERNAL_STORAGE_FAILURE: "storage",
}
_MISSING_VALUE = LookupError.__name__
"""The error of the payload store for a missing value."""

_STORE_UNAVAILABLE = "StoreUnavailableError"
"""The error of the workers' converter while the payload store is unavailable."""

_MISSING_KEY = DecryptionError.__name__
"""The error of a worker that lacks an encryption key."""

_NOT_STORED = "Failed encoding completion"
"""The beginning of the SDK's message if the commands of a workflow cannot be encoded. The only step that can fail is
the storing of large values; the SDK gives neither the error's type nor its trace.
"""

_STORAGE = re.compile(r"temporalio[/\\]converter[/\\]_extstore\.py")
"""A line in the trace of an error that a storage driver raised. Temporal has a cause for such errors, but does not set
it."""


def on_workflow_task_scheduled(writer: RowWriter) -> None:
    """Record the number of the workflow task's next attempt."""
    writer.state.workflow_task_attempt = writer.event.workflow_task_scheduled_event_attributes.attempt


def on_workflow_task_started(writer: RowWriter) -> None:
    """Record the time of the workflow task: the events that the machine writes in it have that time."""
    writer.state.workflow_task_started_at = writer.at


def on_workflow_task_completed(writer: RowWriter) -> None:
    """Resolve the incident, before the events of the workflow task that succeeded."""
    state = writer.state
    state.workflow_task_timeouts = 0
    if state.incident_id is None:
        return
    incident = state.open_rows[state.incident_id]
    at = max(incident.at, state.workflow_task_started_at - 1)
    end: dict[str, Json] = {"ends": state.incident_id, "duration": (at - incident.at) / 1000}
    attributes = writer.event.workflow_task_completed_event_attributes
    worker = _without_empty(
        worker=attributes.identity, build=_build_of(writer.event), attempt=state.workflow_task_attempt
    )
    fields: dict[str, Json] = {"meta": {"incident": worker}, **end}
    writer.add_derived_row(
        "incident.resolved", at, state.node, state.kind, "COMPLETED", parent=state.incident_id, **fields
    )
    state.incident_id = None


def on_workflow_task_failed(writer: RowWriter) -> None:
    """Open an incident, unless the server itself retries the workflow task (NO_INCIDENT)."""
    attributes = writer.event.workflow_task_failed_event_attributes
    writer.state.workflow_task_timeouts = 0
    if attributes.cause not in NO_INCIDENT:
        failure = attributes.failure
        _open_incident(writer, cause_of(attributes), _message(failure), attributes.identity)


def on_workflow_task_timed_out(writer: RowWriter) -> None:
    """Open an incident at the second timeout of a workflow task in a row."""
    state = writer.state
    state.workflow_task_timeouts += 1
    if state.workflow_task_timeouts >= 2:
        kind = writer.event.workflow_task_timed_out_event_attributes.timeout_type
        verb = "start" if kind == TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START else "finish"
        _open_incident(
            writer,
            "timeout",
            f"no worker could {verb} the workflow task in time, {state.workflow_task_timeouts} times in a row",
            "",
        )


def _open_incident(writer: RowWriter, cause: str, message: str, worker: str) -> None:
    state = writer.state
    if state.incident_id is None:
        source = _without_empty(worker=worker, build=_build_of(writer.event))
        incident = {"cause": cause, "message": message, "attempt": state.workflow_task_attempt, **source}
        state.incident_id = writer.add_run_row("incident.opened", "STARTED", meta={"incident": incident}, error=message)


def cause_of(attributes: WorkflowTaskFailedEventAttributes) -> str:
    """Return the cause in one word: exception, nondeterminism, storage (Postgres did not answer), missing_value (it has
    no such large value), missing_key (a worker cannot decrypt a value), or what Temporal calls it.
    """
    cause, failure = attributes.cause, attributes.failure
    if _MISSING_KEY in _error_types(failure):
        return "missing_key"
    if _STORE_UNAVAILABLE in _error_types(failure) or failure.message.startswith(_NOT_STORED):
        return "storage"
    if _is_from_storage(failure):
        return "missing_value" if _MISSING_VALUE in _error_types(failure) else "storage"
    name = WorkflowTaskFailedCause.Name(cause) if cause in WorkflowTaskFailedCause.values() else f"cause {cause}"
    return _CAUSES.get(cause) or name.removeprefix("WORKFLOW_TASK_FAILED_CAUSE_").lower()


def _error_types(failure: Failure) -> set[str]:
    types = {failure.application_failure_info.type}
    return types | _error_types(failure.cause) if failure.HasField("cause") else types


def _is_from_storage(failure: Failure) -> bool:
    return bool(_STORAGE.search(failure.stack_trace)) or (failure.HasField("cause") and _is_from_storage(failure.cause))


def _message(failure: Failure) -> str:
    """Return the message of the failure; for a missing key, that of the innermost cause, which names the key."""
    if _MISSING_KEY in _error_types(failure) and failure.application_failure_info.type != _MISSING_KEY:
        return _message(failure.cause)
    type_ = failure.application_failure_info.type
    return f"{type_}: {failure.message}" if type_ else failure.message or "no reason was given"


def _build_of(event: HistoryEvent) -> str:
    """Return the build of the worker that responded; empty if it named none."""
    kind = event.WhichOneof("attributes")
    attributes = getattr(event, kind) if kind else None
    stamp = getattr(attributes, "worker_version", None)
    return (stamp.build_id if stamp else "") or getattr(attributes, "binary_checksum", "")


def _without_empty(**fields: Json) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value}
