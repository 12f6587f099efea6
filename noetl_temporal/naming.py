"""The names that Temporal's users see, each within the limits of all Temporal servers.

Lengths. Temporal's frontend accepts workflow ids of 1,000 bytes, but Postgres and MySQL store 255 characters;
a keyword may have 2,048 bytes and 255 characters, and a summary 400 bytes. Longer ones make workflow tasks fail
repeatedly, or rows of the visibility store. So longer names are truncated (shortening.py).

Uniqueness. Two different names never give the same id. A part of a child's id is escaped, so that ``/`` stands
between parts only.
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
    "schedule_of",
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
"""Requests about the waits of a playbook: end one, or list them."""

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
"""The statuses of runs that ended without being failed or stopped."""

Overlap: TypeAlias = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"]
"""What a schedule does when a run is due and an earlier one is still running."""

OVERLAPS: tuple[Overlap, ...] = get_args(Overlap)

PLAYBOOK_FAILED, PLAYBOOK_CANCELLED = "PlaybookFailed", "PlaybookCancelled"
"""Types of the failures of a playbook's workflow that have its report in their details."""
TIME_MEMO = "noetl-time"
"""Never set: the command that removes it changes nothing (steady_time.py)."""
DETACHED_MEMO = "noetl-detached"
"""The memo field of a called playbook that its caller does not wait for."""
REPORTED = "its playbook has its results already: the reset of an ended chunk has no effect"
"""The reason for terminating a chunk that was reset after its end (orphans.py)."""

ID_BYTES = 200
KEYWORD_BYTES = 255
SUMMARY_BYTES = 199
"""A summary is stored as JSON, in which a character may need an escape, and between quotes: at most 400 bytes."""

_TIME_BYTES = len("-2006-01-02T15:04:05Z")
_TIME = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
"""What Temporal appends to the workflow ids of a schedule."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_IN_PART = re.compile(r"[\x00-\x1f\x7f%/]")


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
    """Return the task queue for the symbolic ``name`` in a graph: the one that the run chose, else the tool's own."""
    return queues.get(name) or tool_queue(name)


def workflow_id(path: str, execution_id: int) -> str:
    """``<playbook path>/<execution_id>``, at most 200 bytes. Do not parse the execution id: look the run up by its
    search attribute NoetlExecutionId."""
    end = f"/{execution_id}"
    return unique_within(_CONTROL.sub(_escape, path), ID_BYTES - len(end)) + end


def scheduled_workflow_id(schedule: str) -> str:
    """Return the id of a schedule's workflows before Temporal appends the time: the truncated name of the schedule."""
    return unique_within(_CONTROL.sub(_escape, schedule), ID_BYTES - _TIME_BYTES)


def schedule_of(workflow_id: str) -> str | None:
    """Return the id without the time that a schedule appends; None without one."""
    match = _TIME.search(workflow_id)
    return None if match is None else workflow_id[: match.start()]


def child_workflow_id(root_id: str, *parts: str) -> str:
    """``<root id>/<part>/<part>``, at most 200 bytes; ``/``, ``%`` and control characters in a part are escaped."""
    return unique_within("/".join([root_id, *(_IN_PART.sub(_escape, part) for part in parts)]), ID_BYTES)


def keyword(text: str) -> str:
    """Return the text as a search attribute: at most 255 bytes, no control characters (Postgres stores no NUL)."""
    return unique_within(_CONTROL.sub(_escape, text), KEYWORD_BYTES)


def summary(text: str) -> str:
    """Return a one-line summary for the Temporal UI, truncated to 199 bytes."""
    line = _CONTROL.sub(" ", text)
    return line if len(line.encode()) <= SUMMARY_BYTES else f"{truncate(line, SUMMARY_BYTES - len('...'))}..."


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
