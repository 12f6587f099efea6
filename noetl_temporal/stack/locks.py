"""File locks (flock): the kernel releases one however its holder dies.

A lock proves only that some process holds the file. Its content is trusted only if the process that it names is known
to have written it (``identity.py``). Every wait for a lock is reported.
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

__all__ = ["POLL_SECONDS", "Wait", "is_locked", "locked"]

POLL_SECONDS = 0.01
TELL_SECONDS = 1.0


class Wait:
    """A wait that says what for on stderr, once, when it takes more than a second."""

    def __init__(self, what: Callable[[], str]) -> None:
        self._what: Callable[[], str] | None = what
        self._due = time.monotonic() + TELL_SECONDS

    def pause(self, seconds: float = POLL_SECONDS) -> None:
        """Sleep."""
        if self._what and time.monotonic() >= self._due:
            sys.stderr.write(f"{self._what()}\n")
            sys.stderr.flush()
            self._what = None
        time.sleep(seconds)


@contextmanager
def locked(path: Path, how: int, seconds: float, wait: Wait | None = None) -> Generator[int]:
    """Hold the lock of a file, which is created if necessary. Yields its descriptor.

    ``how`` is LOCK_EX or LOCK_SH. Raises BlockingIOError when it was not free within ``seconds``, OSError."""
    wait = wait or Wait(lambda: f"waiting for the lock {path}")
    deadline = time.monotonic() + seconds
    while (descriptor := _acquired(path, how)) is None:
        if time.monotonic() >= deadline:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process holds it", str(path))
        wait.pause()
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path, how: int) -> bool:
    """Whether another process holds the lock in a way that excludes ``how``. Does not create the file."""
    try:
        descriptor = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _acquired(path: Path, how: int) -> int | None:
    descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        if os.path.samestat(path.lstat(), os.fstat(descriptor)):  # else it was removed while it was waited for
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
