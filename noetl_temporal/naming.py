"""The names that Temporal's users see (architecture.md 5)."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

__all__ = [
    "EXECUTION_ID",
    "LOOP_WORKFLOW",
    "PATH",
    "PLAYBOOK_WORKFLOW",
    "SEARCH_ATTRIBUTES",
    "STATUS",
    "STEP",
    "VERSION",
    "WORKFLOW_QUEUE",
    "activity_type",
    "tool_queue",
]

PLAYBOOK_WORKFLOW = "noetl.playbook"
LOOP_WORKFLOW = "noetl.loop"
WORKFLOW_QUEUE = "noetl-workflows"

PATH = SearchAttributeKey.for_keyword("NoetlPath")
VERSION = SearchAttributeKey.for_keyword("NoetlVersion")
STEP = SearchAttributeKey.for_keyword("NoetlStep")
STATUS = SearchAttributeKey.for_keyword("NoetlStatus")
EXECUTION_ID = SearchAttributeKey.for_int("NoetlExecutionId")
SEARCH_ATTRIBUTES = (PATH, VERSION, STEP, STATUS, EXECUTION_ID)


def activity_type(kind: str) -> str:
    """The activity type of a tool kind: ``noetl.http``."""
    return f"noetl.{kind}"


def tool_queue(kind: str) -> str:
    """The queue of a tool kind where a submission names no other: ``noetl-http``."""
    return f"noetl-{kind}"
