"""Identifies processes. Ids are reused, so a signal is sent only to a process that is known to be the same."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["PROC", "Identity", "identity"]

PROC = Path("/proc")
PS = "/bin/ps"
ENDED_STATES = ("Z", "X")
"""The states of a process that has ended, but whose parent has not read its exit status."""


class Identity(NamedTuple):
    """The identity of a process.

    ``uid`` is its real user id. ``start_time`` is in the format of the system; no two processes with the same id have
    the same. ``command`` is its command line, which only the process itself can change.
    """

    uid: int
    start_time: str
    command: str


def identity(pid: int) -> Identity | None:
    """Return the identity of the process with this id; None if there is none, for init, and for invalid ids.

    Uses /proc, or else ``ps``.
    """
    if pid <= 1:
        return None
    return _from_proc(pid) if (PROC / "self/stat").exists() else _from_ps(pid)


def _from_proc(pid: int) -> Identity | None:
    folder = PROC / str(pid)
    try:
        uid = re.search(r"^Uid:\s+(\d+)", (folder / "status").read_text(errors="replace"), re.MULTILINE)
        # The second field, the name in brackets, may contain spaces and brackets. The 22nd field is the start in ticks
        # since boot, so it is the 20th after the name.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    if uid is None or fields[0].startswith(ENDED_STATES):
        return None
    return Identity(int(uid[1]), fields[19], command.strip())


def _from_ps(pid: int) -> Identity | None:
    import subprocess  # every command imports this module, and few need it

    arguments = [PS, "-ww", "-o", "ruid=,stat=,lstart=,args=", "-p", str(pid)]
    result = subprocess.run(
        arguments, capture_output=True, text=True, errors="replace", check=False, env={**os.environ, "LC_ALL": "C"}
    )
    fields = result.stdout.split(maxsplit=7)
    if len(fields) < 7 or fields[1].startswith(ENDED_STATES):
        return None
    return Identity(int(fields[0]), " ".join(fields[2:7]), "".join(fields[7:]).strip())
