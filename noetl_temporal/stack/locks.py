"""File locks (flock). The kernel releases a lock when its holder ends for any reason.

A lock proves only that some process holds the file. The content of the file is trusted only if it was written by the
process that it names (``identity.py``). Waits of more than a second are reported.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from noetl_temporal.stack.files import open_file

__all__ = ["POLL_SECONDS", "ReportedWait", "hold_lock", "is_locked"]

POLL_SECONDS = 0.01
REPORT_SECONDS = 1.0


class ReportedWait:
    """A wait that prints its message to stderr, once, if it takes more than a second."""

    def __init__(self, message: Callable[[], str]) -> None:
        self._message: Callable[[], str] | None = message
        self._due = time.monotonic() + REPORT_SECONDS

    def pause(self, seconds: float = POLL_SECONDS) -> None:
        """Sleep, and print the message if it is due."""
        if self._message and time.monotonic() >= self._due:
            sys.stderr.write(f"{self._message()}\n")
            sys.stderr.flush()
            self._message = None
        time.sleep(seconds)


@contextmanager
def hold_lock(path: Path, operation: int, seconds: float, wait: ReportedWait | None = None) -> Generator[int]:
    """Hold the lock of a file, which is created if necessary. Yields its descriptor.

    ``operation`` is LOCK_EX or LOCK_SH. Raises BlockingIOError if the lock is not free within ``seconds``, OSError."""
    wait = wait or ReportedWait(lambda: f"waiting for the lock {path}")
    deadline = time.monotonic() + seconds
    while (descriptor := _try_lock(path, operation)) is None:
        if time.monotonic() >= deadline:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process holds it", str(path))
        wait.pause()
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path, operation: int) -> bool:
    """Whether another process holds a lock that excludes ``operation``. Does not create the file."""
    try:
        descriptor = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _try_lock(path: Path, operation: int) -> int | None:
    descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        if os.path.samestat(path.lstat(), os.fstat(descriptor)):  # else the file was removed meanwhile
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
