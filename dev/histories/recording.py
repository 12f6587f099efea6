"""What is recorded: a playbook, who interferes with its run, and what its histories have to show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dev.histories.session import Session

__all__ = ["HEAD", "Recording", "Script", "whole"]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: replay, path: tests/replay}\n"

Script = Callable[[Session], Awaitable[None]]


@dataclass(frozen=True)
class Recording:
    """``workflow`` is the steps of a v10 playbook with ``head`` before them, or a whole playbook of any dialect.

    ``script`` interferes with the run. ``ends`` is the status of the run's report, ``shows`` the types of events that
    its histories have to have among them, without ``EVENT_TYPE_``; of ``first`` the one stands before any of the other.
    A recording that shows something else is refused.
    """

    workflow: str
    head: str = ""
    script: Script | None = None
    ends: str = "completed"
    shows: tuple[str, ...] = ()
    first: tuple[str, str] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    early: bool = False
    """Whether the script comes before the workers: what it does stands in the run's first workflow task."""
    alone: bool = False
    """Whether it must be the only one that is recorded: it holds up the whole process."""
    scheduled: bool = False
    """Whether a schedule starts the run."""


def whole(recording: Recording) -> str:
    """The playbook's text."""
    if recording.workflow.startswith("apiVersion"):
        return recording.workflow
    return f"{HEAD}{recording.head}workflow:\n{recording.workflow}"
