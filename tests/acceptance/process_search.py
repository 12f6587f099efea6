"""What everybody may see of processes, and what their own account may: command lines and environments.

Processes are looked at again and again, by a thread, as many of them live for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PROC = Path("/proc")
WORKERS = (b"\0worker\0", b"\0run\0")
"""In command lines: ``noetl run`` with credentials of its own is its own worker."""

SECONDS = 0.02
"""Between two looks."""


class ProcessSearch:
    """All processes below ``roots``, while the block runs."""

    def __init__(self, *roots: int) -> None:
        self.roots = set(roots)
        self.workers: set[bytes] = set()
        """Command lines of the workers that were seen: their environments may hold secrets, not those below them."""
        self._commands: set[bytes] = set()
        self._environments: set[bytes] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    @property
    def commands(self) -> bytes:
        """The command lines, arguments divided by NUL."""
        return b"\n".join(sorted(self._commands))

    @property
    def environments(self) -> bytes:
        """Those of processes that workers have started."""
        return b"\n".join(sorted(self._environments))

    def __enter__(self) -> ProcessSearch:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(SECONDS):
            children = _children()
            for root in tuple(self.roots):
                self._visit(root, children, is_below_worker=False)

    def _visit(self, pid: int, children: dict[int, list[int]], *, is_below_worker: bool) -> None:
        """``is_below_worker`` when a worker has started it: a copy of the worker until its own program begins."""
        command = _read(pid, "cmdline")
        self._commands.add(command)
        is_worker = any(worker in command for worker in WORKERS)
        if is_worker:
            self.workers.add(command)
        elif is_below_worker:
            self._environments.add(_read(pid, "environ"))
        for child in children.get(pid, []):
            self._visit(child, children, is_below_worker=is_below_worker or is_worker)


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    return children


def _parents() -> Iterator[tuple[int, int]]:
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):
            yield int(process.name), int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _read(pid: int, name: str) -> bytes:
    """Empty for a process that is gone, or closed to us."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
