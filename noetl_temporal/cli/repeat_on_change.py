"""Repeats work when one of its files changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["repeat_on_change"]

LOOK_SECONDS = 0.3

Stamps = dict[Path, tuple[int, int] | None]


def repeat_on_change(work: Callable[[], Iterable[Path]], result_files: Callable[[], Iterable[Path]]) -> None:
    """Call ``work``, and again when a file that it returns changes, or when ``result_files`` returns other files.

    Ends with KeyboardInterrupt only.
    """
    used: set[Path] = set()
    while True:
        current_files = set(result_files())
        stamps_before_work = _stamps(used | current_files)  # before the work, to notice changes during it
        used = {*work(), *current_files}
        stamps = {file: stamps_before_work.get(file, stamp) for file, stamp in _stamps(used).items()}
        while _stamps(used) == stamps and set(result_files()) == current_files:
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
