"""What a process of another account tries with a server of the stack, as a program: ``... nobody.py UID GID PID``.

It changes to that account, tries to get at the process PID and the folder it works in, and prints what came of each
attempt as JSON. It changes nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path


def main() -> None:
    """Change the account, try, and print."""
    uid, gid, pid = map(int, sys.argv[1:])
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    sys.stdout.write(json.dumps({name: _came_of(attempt, pid) for name, attempt in ATTEMPTS.items()}))


def _came_of(attempt: Callable[[int], object], pid: int) -> str:
    try:
        attempt(pid)
    except OSError as error:
        return type(error).__name__
    return "done"


def _list(pid: int) -> None:
    """Its working directory is the cluster."""
    list(Path(f"/proc/{pid}/cwd/").iterdir())


def _edit(pid: int) -> None:
    """Open for writing what says who logs in."""
    Path(f"/proc/{pid}/cwd/pg_hba.conf").open("r+b").close()


def _reload(pid: int) -> None:
    """Ask whether it may send a signal, SIGHUP for one."""
    os.kill(pid, 0)


def _read_memory(pid: int) -> None:
    Path(f"/proc/{pid}/mem").open("rb").close()


def _read_environment(pid: int) -> None:
    Path(f"/proc/{pid}/environ").read_bytes()


ATTEMPTS: dict[str, Callable[[int], object]] = {
    "list": _list,
    "edit": _edit,
    "reload": _reload,
    "read memory": _read_memory,
    "read environment": _read_environment,
}

if __name__ == "__main__":
    main()
