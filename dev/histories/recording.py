"""The description of a recording: a playbook, a script that interferes with its run, and the expected events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dev.histories.session import Session

__all__ = ["HEAD", "Recording", "Script", "playbook_text"]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: replay, path: tests/replay}\n"

Script = Callable[[Session], Awaitable[None]]


@dataclass(frozen=True)
class Recording:
    """``workflow`` is the steps of a v10 playbook with ``head`` before them, or a whole playbook of any dialect.

    ``script`` interferes with the run. ``ends`` is the status of the run's report, ``shows`` the types of events that
    its histories have to have among them, without ``EVENT_TYPE_``; the first event of ``first[0]`` precedes
    the first of ``first[1]``. A recording that shows something else is refused.
    """

    workflow: str
    head: str = ""
    script: Script | None = None
    ends: str = "completed"
    shows: tuple[str, ...] = ()
    first: tuple[str, str] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    early: bool = False
    """Whether the script runs before the workers start, so that its requests are in the run's first workflow task."""
    alone: bool = False
    """Whether nothing else may be recorded at the same time, since it blocks the whole process."""
    scheduled: bool = False
    """Whether a schedule starts the run."""


def playbook_text(recording: Recording) -> str:
    """Return the text of the playbook."""
    if recording.workflow.startswith("apiVersion"):
        return recording.workflow
    return f"{HEAD}{recording.head}workflow:\n{recording.workflow}"
