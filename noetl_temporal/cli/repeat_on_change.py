"""Repeats work whenever one of its files changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["repeat_on_change"]

LOOK_SECONDS = 0.3

Stamps = dict[Path, tuple[int, int] | None]


def repeat_on_change(work: Callable[[], Iterable[Path]], result_files: Callable[[], Iterable[Path]]) -> None:
    """Do the work, and repeat it whenever a file that it names changes, or the ``found`` files differ.

    Ends with KeyboardInterrupt only.
    """
    used: set[Path] = set()
    while True:
        there = set(result_files())
        earlier = _stamps(used | there)  # before the work: a change meanwhile counts
        used = {*work(), *there}
        before = {file: earlier.get(file, stamp) for file, stamp in _stamps(used).items()}
        while _stamps(used) == before and set(result_files()) == there:
            time.sleep(LOOK_SECONDS)


def _stamps(files: Iterable[Path]) -> Stamps:
    return {file: _stamp(file) for file in files}


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return the time and size of a file, None for a missing one: editors replace files."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
