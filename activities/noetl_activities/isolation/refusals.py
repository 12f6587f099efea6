"""Hints for errors that the sandbox of a task causes, with the setting of the worker that extends it."""

from __future__ import annotations

import re

from noetl_activities.isolation.limits import MAX_PROCESSES
from noetl_activities.isolation.settings import TASK_DIRECTORIES_VARIABLE, TASK_MEMORY_VARIABLE, TASK_PORTS_VARIABLE

__all__ = ["refusal_hint"]

_HINTS = (
    (
        re.compile(r"\[Errno 13\] Permission denied: '"),
        f"a task uses files in its own folder and in the directories of {TASK_DIRECTORIES_VARIABLE} of the worker",
    ),
    (
        re.compile(r"\[Errno 13\] Permission denied|connect: Permission denied"),
        f"a task connects only to the TCP ports of {TASK_PORTS_VARIABLE} of the worker",
    ),
    (
        re.compile(r"^[\w.]*MemoryError\b|Cannot allocate memory|memory exhausted"),
        f"the memory of a task is limited by {TASK_MEMORY_VARIABLE} of the worker, in GiB",
    ),
    (
        re.compile(
            r"^BlockingIOError: \[Errno 11\]|can't start new thread|[Ff]ork: .*temporarily unavailable|Cannot fork"
        ),
        f"a task may have at most {MAX_PROCESSES} processes and threads, if that is why",
    ),
)
"""Patterns of messages of Python and of commands; the first that matches decides."""


def refusal_hint(message: str) -> str:
    """Return the hint for the error message of a task; "" if the sandbox does not cause such errors."""
    return next((hint for pattern, hint in _HINTS if pattern.search(message)), "")
