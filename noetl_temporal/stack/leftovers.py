"""Ends processes that a killed owner left running, from the records that it kept on disk.

Process ids are reused, so a signal is sent only to a process with the recorded id, account and start time, and with the
recorded text in its command line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from noetl_temporal.stack.files import read_text, write_whole
from noetl_temporal.stack.identity import PROC, Identity, identity
from noetl_temporal.stack.process import POLL_SECONDS, Server

__all__ = ["ProcessRecord", "end_leftovers", "end_processes_in", "record_processes", "recorded_processes"]

STOP_SECONDS = 10.0
POSTGRES = ("postgres", "initdb")


class ProcessRecord(msgspec.Struct, frozen=True, array_like=True):
    """A process of the stack. ``marker`` is a text in its command line. A ``service`` is killed; a server gets SIGINT.

    Ids below 2 are rejected: 1 is init, and 0 and below mean groups of processes."""

    pid: Annotated[int, msgspec.Meta(gt=1)]
    marker: Annotated[str, msgspec.Meta(min_length=1)]
    service: bool
    uid: int
    started: Annotated[str, msgspec.Meta(min_length=1)]

    def runs(self) -> bool:
        """Whether this very process still runs."""
        found = identity(self.pid)
        return found is not None and (found.uid, found.started) == (self.uid, self.started)

    def is_marked(self) -> bool:
        """Whether its command line still says that it is the stack's."""
        found = identity(self.pid)
        return found is not None and self.marker in found.command


def record_processes(path: Path, servers: Sequence[Server]) -> None:
    """Note which processes run, for a later owner to find should this one be killed."""
    found = [(server, identity(server.process.pid)) for server in servers]
    known = [_record_of(server, process) for server, process in found if process]
    write_whole(path, msgspec.json.encode(known).decode())


def recorded_processes(path: Path) -> list[ProcessRecord]:
    """Return the processes recorded in the file at ``path``; empty if it is missing or invalid.

    Raises OSError if others may have written it.
    """
    try:
        return msgspec.json.decode(read_text(path), type=list[ProcessRecord])
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def end_leftovers(path: Path) -> None:
    """End the processes noted at ``path`` that still run, and forget them."""
    running = [one for one in recorded_processes(path) if one.runs() and one.is_marked()]
    _ended([one for one in running if one.service], signal.SIGKILL)
    stubborn = _ended([one for one in running if not one.service], signal.SIGINT)
    _ended(stubborn, signal.SIGKILL)
    path.unlink(missing_ok=True)


def end_processes_in(folder: Path) -> None:
    """Kill the programs of Postgres that work in ``folder``, their data: when a server was killed, its sessions write
    until they notice.

    Does nothing if the system does not report the folders of processes."""
    _ended(list(_working_in(folder)), signal.SIGKILL)


def _record_of(server: Server, process: Identity) -> ProcessRecord:
    return ProcessRecord(server.process.pid, server.marker, server.service, process.uid, process.started)


def _working_in(folder: Path) -> Iterator[ProcessRecord]:
    """Yield programs of Postgres that run as the owner of the data; a person's shell may be in the folder too."""
    owner = folder.stat().st_uid
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not (process / "cwd").samefile(folder):
                continue
            pid, found = int(process.name), identity(int(process.name))
            if found and found.uid == owner and (program := _program(found)) in POSTGRES:
                yield ProcessRecord(pid, program, True, found.uid, found.started)


def _program(process: Identity) -> str:
    """``postgres`` of ``/usr/bin/postgres -D data``, and of ``postgres: checkpointer``."""
    return Path(process.command.partition(" ")[0]).name.removesuffix(":")


def _ended(processes: list[ProcessRecord], how: signal.Signals) -> list[ProcessRecord]:
    """Send a signal and wait; the processes that have not ended since. SIGKILL takes their groups along."""
    for one in processes:
        if not one.runs():
            continue
        with contextlib.suppress(ProcessLookupError):
            if how == signal.SIGKILL and os.getpgid(one.pid) == one.pid:
                os.killpg(one.pid, how)
            else:
                os.kill(one.pid, how)
    deadline = time.monotonic() + STOP_SECONDS
    while processes and time.monotonic() < deadline:
        processes = [one for one in processes if one.runs()]
        time.sleep(POLL_SECONDS)
    return processes
