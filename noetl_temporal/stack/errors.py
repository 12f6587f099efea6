"""What can go wrong with the embedded stack; the message says what to do."""

from __future__ import annotations

import re

__all__ = ["BusyError", "FellError", "NotStartedError", "StackError"]

# A Go program that panics says why first, then where; a log of ours says it last.
_CAUSE = re.compile(r"panic: .*|.*address already in use.*|.*(?:FATAL|Error|error):? .*")
MAX_LINE = 200


class StackError(Exception):
    """The embedded stack cannot be started or reached."""


class BusyError(StackError):
    """Another process owns this folder's stack."""


class NotStartedError(StackError):
    """A run was not started, because there is no stack for it."""


class FellError(StackError):
    """A server has ended by itself. ``how`` says which and how, ``log`` has the last lines it wrote."""

    def __init__(self, how: str, log: str) -> None:
        super().__init__(f"{how}:\n{log}")
        self.how, self.log = how, log

    @property
    def line(self) -> str:
        """All of it in one line, with the line of the log that tells the cause."""
        lines = self.log.splitlines()
        cause = next((line for line in lines if _CAUSE.fullmatch(line)), lines[-1])
        return f"{self.how}: {cause.strip()[:MAX_LINE]}"
