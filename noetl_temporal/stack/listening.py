"""Which ports a certain process listens on.

A port that was free a moment ago may have been taken by another stack that starts at the same time, or by an attacker.
So this is checked before a secret is sent to a port.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["listening_ports", "listens"]

PROC = Path("/proc")
LISTENING = "0A"
LSOF = "/usr/sbin/lsof"
"""The path of lsof on macOS, which has no /proc."""


class _Listener(NamedTuple):
    inode: str
    port: int
    account: int


def listens(pid: int, port: int, account: int | None = None) -> bool:
    """Whether the process ``pid`` listens on ``port``.

    Root without CAP_SYS_PTRACE, as in most containers, cannot see the files of a process of another account. Where
    ``account`` is one that only our servers have, its socket says as much."""
    if port in listening_ports(pid):
        return True
    return account is not None and any(
        listener.port == port and listener.account == account for listener in _listeners(pid)
    )


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which a process of this account, or as root any process, listens. By /proc, else by
    ``lsof``.
    """
    if (PROC / "self").exists():
        own = _sockets(pid)
        return {listener.port for listener in _listeners(pid) if listener.inode in own}
    return _by_lsof(pid)


def _listeners(pid: int) -> Iterator[_Listener]:
    """Yield every socket that listens where ``pid`` runs."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / f"{pid}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING:
                    yield _Listener(fields[9], int(fields[1].rpartition(":")[2], 16), int(fields[7]))


def _by_lsof(pid: int) -> set[int]:
    import subprocess  # every command imports this module, and few need it

    ask = [LSOF, "-a", "-p", str(pid), "-iTCP", "-sTCP:LISTEN", "-nP", "-Fn"]
    lines = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.splitlines()
    return {int(line.rpartition(":")[2]) for line in lines if line.startswith("n")}


def _sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets; files that close while they are looked at are not counted."""
    inodes: set[str] = set()
    with contextlib.suppress(OSError):
        for file in (PROC / f"{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
    return inodes
