"""Whether it is a certain process that listens on a port.

A port that was free a moment ago may have gone to another stack that starts at the same time: that something listens
there does not say that it is ours.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

__all__ = ["listens"]

PROC = Path("/proc")
LISTENING = "0A"


def listens(pid: int, port: int) -> bool:
    """Whether the process ``pid``, of this account, listens on ``port``. By /proc, else by ``lsof``."""
    if (PROC / "self").exists():
        return any(inode in _sockets(pid) for inode in _listening(pid, port))
    lsof = shutil.which("lsof") or "/usr/sbin/lsof"
    ask = [lsof, "-a", "-p", str(pid), f"-iTCP:{port}", "-sTCP:LISTEN", "-nPt"]
    return subprocess.run(ask, capture_output=True, check=False).returncode == 0


def _listening(pid: int, port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on ``port``."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / f"{pid}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets; files that close while they are looked at are not counted."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for file in (PROC / f"{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
    return found
