"""The names that Temporal's users see, each within the limits of all Temporal servers.

Lengths. Temporal's frontend accepts workflow ids of 1,000 bytes, but Postgres and MySQL store 255 characters; a keyword
may have 2,048 bytes and 255 characters, and a summary 400 bytes. With longer ones, workflow tasks or writes of the
visibility store would fail repeatedly. So longer names are truncated (shortening.py).

Uniqueness. Different names have different ids. The parts of a child's id are escaped, so that ``/`` occurs only between
parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from noetl_temporal.shortening import truncate, unique_within

__all__ = [
    "ANSWER_SIGNAL",
    "CANCEL_SIGNAL",
    "CLOSE_SIGNAL",
    "DECIDE_UPDATE",
    "DETACHED_MEMO",
    "LOOP_WORKFLOW",
    "OPEN_SIGNAL",
    "OVERLAPS",
    "PAUSE_REASON",
    "PAUSE_SIGNAL",
    "PAUSE_UPDATE",
    "PLAYBOOK_CANCELLED",
    "PLAYBOOK_FAILED",
    "PLAYBOOK_WORKFLOW",
    "REFUSED_REQUEST",
    "REPORTED",
    "REPORT_MEMO",
    "RESUME_UPDATE",
    "RETRY_UPDATE",
    "RUN_BUSY",
    "RUN_STATUSES",
    "SIGNAL_UPDATE",
    "SKIP_UPDATE",
    "SUCCEEDED",
    "TIME_MEMO",
    "TRAIL",
    "WAITS_QUERY",
    "WORKFLOW_QUEUE",
    "Overlap",
    "RunStatus",
    "activity_type",
    "child_workflow_id",
    "keyword",
    "queue_of",
    "scheduled_base_id",
    "scheduled_workflow_id",
    "summary",
    "tool_kind",
    "tool_queue",
    "workflow_id",
]

PLAYBOOK_WORKFLOW = "noetl.playbook"
LOOP_WORKFLOW = "noetl.loop"
WORKFLOW_QUEUE = "noetl-workflows"
CANCEL_SIGNAL = "cancel"
SIGNAL_UPDATE = "signal"
DECIDE_UPDATE = "decide"
WAITS_QUERY = "waits"
"""Requests about the waits of a playbook: answer one, or list them."""

PAUSE_UPDATE = "pause"
RESUME_UPDATE = "resume"
RETRY_UPDATE = "retry"
SKIP_UPDATE = "skip"
"""Requests that pause or resume a playbook, or decide about a held step."""

REFUSED_REQUEST = "RequestRefused"
"""Type of the failure of a refused request."""

RUN_BUSY = "RunBusy"
"""Type of the failure of a request that must be sent again, as the run accepts none at the moment."""

OPEN_SIGNAL = "noetl-wait-opened"
CLOSE_SIGNAL = "noetl-wait-closed"
ANSWER_SIGNAL = "noetl-wait-answered"
"""Signals between a playbook and the chunks of its loops."""

PAUSE_REASON = "noetl pause"
"""The reason that ``noetl pause`` gives to Temporal for the pause of a call, to recognise it later."""

PAUSE_SIGNAL = "noetl-pause"
"""The signal that a paused or resumed workflow sends to the workflows that it waits for."""

TRAIL = "noetl-trail"
"""The name of the header, of the memo field and of the local activity that carry events (trail.py)."""

REPORT_MEMO = "noetl-report"
"""The memo field with the report of a cancelled run: a cancelled workflow has no result."""

RunStatus: TypeAlias = Literal[
    "running", "paused", "completed", "partial", "failed", "cancelled", "terminated", "timed_out"
]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
"""The status of a run, in lists and reports."""

SUCCEEDED: tuple[RunStatus, ...] = ("completed", "partial")
"""The statuses of runs that ended and neither failed nor were stopped."""

Overlap: TypeAlias = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"]
"""What a schedule does when a run is due and an earlier one is still running."""

OVERLAPS: tuple[Overlap, ...] = get_args(Overlap)

PLAYBOOK_FAILED, PLAYBOOK_CANCELLED = "PlaybookFailed", "PlaybookCancelled"
"""Types of the failures of a playbook's workflow that have its report in their details."""

TIME_MEMO = "noetl-time"
"""A memo field that is never set: the command that removes it has no effect (steady_time.py)."""

DETACHED_MEMO = "noetl-detached"
"""The memo field of a called playbook that its caller does not wait for."""
REPORTED = "its playbook has its results already: the reset of an ended chunk has no effect"
"""The reason for terminating a chunk that was reset after its end (orphans.py)."""

ID_BYTES = 200
KEYWORD_BYTES = 255
SUMMARY_BYTES = 199
"""The maximum size of a summary. With quotes, and if JSON escapes every character, it has 400 bytes."""

_TIME_BYTES = len("-2006-01-02T15:04:05Z")
_TIME = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
"""What Temporal appends to the workflow ids of a schedule."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPED_IN_PART = re.compile(r"[\x00-\x1f\x7f%/]")


def activity_type(kind: str) -> str:
    """Return the activity type of a tool kind: ``noetl.http``."""
    return f"noetl.{kind}"


def tool_kind(activity_type: str) -> str:
    """Return the tool kind of an activity type."""
    return activity_type.removeprefix("noetl.")


def tool_queue(kind: str) -> str:
    """Return a tool kind's own queue: ``noetl-http``."""
    return f"noetl-{kind}"


def queue_of(name: str, queues: Mapping[str, str]) -> str:
    """Return the task queue for the symbolic ``name`` in a graph: the one in the run's ``queues``, or else the tool's
    own.
    """
    return queues.get(name) or tool_queue(name)


def workflow_id(path: str, execution_id: int) -> str:
    """Return ``<playbook path>/<execution_id>``, truncated to 200 bytes. Do not parse such an id: the search attribute
    NoetlExecutionId has the execution id.
    """
    end = f"/{execution_id}"
    return unique_within(_CONTROL.sub(_escape, path), ID_BYTES - len(end)) + end


def scheduled_workflow_id(schedule: str) -> str:
    """Return the id of a schedule's workflows before Temporal appends the time: the truncated name of the schedule."""
    return unique_within(_CONTROL.sub(_escape, schedule), ID_BYTES - _TIME_BYTES)


def scheduled_base_id(workflow_id: str) -> str | None:
    """Return the ``scheduled_workflow_id`` of a run that a schedule has started: its id without the time. None for any
    other run.
    """
    match = _TIME.search(workflow_id)
    return None if match is None else workflow_id[: match.start()]


def child_workflow_id(root_id: str, *parts: str) -> str:
    """Return ``<root id>/<part>/<part>``, truncated to 200 bytes; ``/``, ``%`` and control characters in parts are
    escaped.
    """
    return unique_within("/".join([root_id, *(_ESCAPED_IN_PART.sub(_escape, part) for part in parts)]), ID_BYTES)


def keyword(text: str) -> str:
    """Return the text as a search attribute: at most 255 bytes, no control characters (Postgres stores no NUL)."""
    return unique_within(_CONTROL.sub(_escape, text), KEYWORD_BYTES)


def summary(text: str) -> str:
    """Return a one-line summary for the Temporal UI, truncated to 199 bytes."""
    line = _CONTROL.sub(" ", text)
    return line if len(line.encode()) <= SUMMARY_BYTES else f"{truncate(line, SUMMARY_BYTES - len('...'))}..."


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
