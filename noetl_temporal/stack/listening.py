"""Find the ports that a process listens on.

Another stack that starts at the same time, or an attacker, may listen on a port that was free a moment ago. So the
listening process is checked before a secret is sent to a port.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["listening_ports", "listens"]

PROC = Path("/proc")
LISTENING_STATE = "0A"
LSOF = "/usr/sbin/lsof"
"""The path of lsof on macOS, which has no /proc."""


class _Listener(NamedTuple):
    inode: str
    port: int
    uid: int


def listens(pid: int, port: int, uid: int | None = None) -> bool:
    """Whether the process ``pid`` listens on ``port``.

    Root without CAP_SYS_PTRACE, as in most containers, cannot see the open files of another account's process. If only
    our servers run as ``uid``, a socket of that account is proof as well.
    """
    if port in listening_ports(pid):
        return True
    return uid is not None and any(listener.port == port and listener.uid == uid for listener in _listeners(pid))


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which the process listens, from /proc or else from ``lsof``.

    Only root can read those of another account's process.
    """
    if (PROC / "self").exists():
        inodes = _socket_inodes(pid)
        return {listener.port for listener in _listeners(pid) if listener.inode in inodes}
    return _ports_from_lsof(pid)


def _listeners(pid: int) -> Iterator[_Listener]:
    """Yield every listening socket in the network namespace of ``pid``."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / f"{pid}/net/{name}").read_text().splitlines()[1:]:
                _, local_address, _, state, _, _, _, uid, _, inode, *_ = line.split()
                if state == LISTENING_STATE:
                    yield _Listener(inode, int(local_address.rpartition(":")[2], 16), int(uid))


def _ports_from_lsof(pid: int) -> set[int]:
    import subprocess  # every command imports this module, and few need it

    arguments = [LSOF, "-a", "-p", str(pid), "-iTCP", "-sTCP:LISTEN", "-nP", "-Fn"]
    lines = subprocess.run(arguments, capture_output=True, text=True, check=False).stdout.splitlines()
    return {int(line.rpartition(":")[2]) for line in lines if line.startswith("n")}


def _socket_inodes(pid: int) -> set[str]:
    """Return the inodes of the process's sockets. Files that are closed meanwhile are ignored."""
    inodes: set[str] = set()
    with contextlib.suppress(OSError):
        for file in (PROC / f"{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
    return inodes
