"""What an owner that was killed left running: noted on disk while it runs, ended by the next owner."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from noetl_temporal.stack.home import write_whole
from noetl_temporal.stack.process import POLL_SECONDS, Server

__all__ = ["end_leftovers", "end_processes_in", "record"]

STOP_SECONDS = 10.0
PROC = Path("/proc")


def record(path: Path, servers: Sequence[Server]) -> None:
    """Note which processes run, for a later owner to find should this one be killed."""
    noted = [[server.process.pid, server.marker, server.service] for server in servers]
    write_whole(path, json.dumps(noted))


def end_leftovers(path: Path) -> None:
    """End the processes noted at ``path`` that still run, and forget them."""
    try:
        noted: list[tuple[int, str, bool]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    running = [(pid, service) for pid, marker, service in noted if marker in _command_line(pid)]
    _ended([pid for pid, service in running if service], signal.SIGKILL)
    stubborn = _ended([pid for pid, service in running if not service], signal.SIGINT)
    _ended(stubborn, signal.SIGKILL)
    path.unlink()


def end_processes_in(folder: Path) -> None:
    """Kill what works in ``folder``: sessions of a Postgres that was killed, which write until they notice.

    Nothing where the system does not tell the folders of processes."""
    _ended(list(_working_in(folder)), signal.SIGKILL)


def _working_in(folder: Path) -> Iterator[int]:
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").samefile(folder):
                yield int(process.name)


def _ended(pids: list[int], how: signal.Signals) -> list[int]:
    """Send a signal and wait; the processes that have not ended since. SIGKILL takes their groups along."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if how == signal.SIGKILL and os.getpgid(pid) == pid:
                os.killpg(pid, how)
            else:
                os.kill(pid, how)
    deadline = time.monotonic() + STOP_SECONDS
    while pids and time.monotonic() < deadline:
        pids = [pid for pid in pids if _command_line(pid)]
        time.sleep(POLL_SECONDS)
    return pids


def _command_line(pid: int) -> str:
    """A process's command line; empty when it does not run. ``ps`` where there is no /proc."""
    if (PROC / "self").exists():
        try:
            return (PROC / f"{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    ps = ["ps", "-o", "args=", "-p", str(pid)]
    return subprocess.run(ps, capture_output=True, text=True, check=False).stdout
