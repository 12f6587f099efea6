"""Errors of the embedded stack; the message contains the remedy."""

from __future__ import annotations

import re

__all__ = [
    "BusyError",
    "CrashedError",
    "NoStackError",
    "NoSuchRunError",
    "NotStartedError",
    "StackError",
    "WrongArgumentError",
]

# The line of a log that names the cause of a crash.
_CAUSE = re.compile(r"panic: .*|.*address already in use.*|.*(?:FATAL|Error|error):? .*")
MAX_LINE = 200


class StackError(Exception):
    """The embedded stack cannot be started or reached."""


class BusyError(StackError):
    """Another process owns this folder's stack."""


class NoSuchRunError(StackError):
    """The ID of a command names no run, or several."""


class NotStartedError(StackError):
    """A run was not started, because there is no stack for it."""


class NoStackError(StackError):
    """A command needs a deployment, and none is running."""


class WrongArgumentError(StackError):
    """An argument of a command names what does not exist, or what is not possible."""


class CrashedError(StackError):
    """A server has ended unexpectedly. ``summary`` names the server and its exit status, ``log`` has its last lines.

    ``was_killed``: by SIGKILL, so its log cannot have the cause.
    """

    def __init__(self, summary: str, log: str, *, was_killed: bool = False) -> None:
        super().__init__(f"{summary}:\n{log}")
        self.summary, self.log, self._was_killed = summary, log, was_killed

    @property
    def line(self) -> str:
        """The error in one line: the summary and, unless it was killed, the line of the log that names the cause."""
        if self._was_killed:
            return self.summary
        lines = self.log.splitlines()
        cause = next((line for line in lines if _CAUSE.fullmatch(line)), lines[-1])
        return f"{self.summary}: {cause.strip()[:MAX_LINE]}"
