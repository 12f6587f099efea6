"""Repeats work when one of its files changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["repeat_on_change"]

CHECK_SECONDS = 0.3
"""The interval between checks for changes."""

Stamps = dict[Path, tuple[int, int] | None]


def repeat_on_change(work: Callable[[], Iterable[Path]], list_files: Callable[[], Iterable[Path]]) -> None:
    """Call ``work``, and again when a file that it returns changes, or when ``list_files`` returns other files.

    Ends with KeyboardInterrupt only.
    """
    watched_files: set[Path] = set()
    while True:
        listed_files = set(list_files())
        stamps_before_work = _stamps(watched_files | listed_files)  # before the work, to notice changes during it
        watched_files = {*work(), *listed_files}
        stamps = {file: stamps_before_work.get(file, stamp) for file, stamp in _stamps(watched_files).items()}
        while _stamps(watched_files) == stamps and set(list_files()) == listed_files:
            time.sleep(CHECK_SECONDS)


def _stamps(files: Iterable[Path]) -> Stamps:
    return {file: _stamp(file) for file in files}


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return the time and size of a file, None for a missing one: editors replace files."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
