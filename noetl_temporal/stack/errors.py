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

_CAUSE_LINE = re.compile(r"panic: .*|.*address already in use.*|.*(?:FATAL|Error|error):? .*")
"""Matches the line of a log that names the cause of a crash."""

_MAX_CAUSE_CHARS = 200


class StackError(Exception):
    """The embedded stack cannot be started or reached."""


class BusyError(StackError):
    """Another process owns this folder's stack."""


class NoSuchRunError(StackError):
    """No run, or more than one, has the ID on the command line."""


class NotStartedError(StackError):
    """A run was not started."""


class NoStackError(StackError):
    """The command needs a deployment, and none is running."""


class WrongArgumentError(StackError):
    """An argument of a command names something that does not exist, or is not possible."""


class CrashedError(StackError):
    """A server has ended unexpectedly. ``summary`` names the server and its exit status, ``log`` is the end of its log.

    ``was_killed``: it was killed with SIGKILL, so the log cannot contain the cause.
    """

    def __init__(self, summary: str, log: str, *, was_killed: bool = False) -> None:
        super().__init__(f"{summary}:\n{log}")
        self.summary, self.log, self._was_killed = summary, log, was_killed

    @property
    def one_line(self) -> str:
        """The summary and, unless the server was killed, the line of the log that names the cause."""
        if self._was_killed:
            return self.summary
        lines = self.log.splitlines()
        cause = next((line for line in lines if _CAUSE_LINE.fullmatch(line)), lines[-1])
        return f"{self.summary}: {cause.strip()[:_MAX_CAUSE_CHARS]}"
