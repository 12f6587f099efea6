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

from noetl_temporal.stack.files import read_text, write_atomically
from noetl_temporal.stack.identity import PROC, Identity, identity
from noetl_temporal.stack.process import POLL_SECONDS, Server

__all__ = ["ProcessRecord", "end_leftovers", "end_processes_in", "record_processes", "recorded_processes"]

STOP_SECONDS = 10.0
POSTGRES_PROGRAMS = ("postgres", "initdb")


class ProcessRecord(msgspec.Struct, frozen=True, array_like=True):
    """A process of the stack. Its command line contains ``marker``. A service is killed; a server gets SIGINT.

    Ids below 2 are rejected: 1 is init, and those below 1 mean process groups.
    """

    pid: Annotated[int, msgspec.Meta(gt=1)]
    marker: Annotated[str, msgspec.Meta(min_length=1)]
    is_service: bool
    uid: int
    start_time: Annotated[str, msgspec.Meta(min_length=1)]

    def is_running(self) -> bool:
        """Whether the recorded process is still running."""
        current = identity(self.pid)
        return current is not None and (current.uid, current.start_time) == (self.uid, self.start_time)

    def is_marked(self) -> bool:
        """Whether its command line contains the marker."""
        current = identity(self.pid)
        return current is not None and self.marker in current.command


def record_processes(path: Path, servers: Sequence[Server]) -> None:
    """Store which processes are running, for the next owner if this one is killed."""
    identities = [(server, identity(server.process.pid)) for server in servers]
    records = [_record_of(server, process) for server, process in identities if process]
    write_atomically(path, msgspec.json.encode(records).decode())


def recorded_processes(path: Path) -> list[ProcessRecord]:
    """Return the processes recorded in the file at ``path``; empty if it is missing or invalid.

    Raises OSError if others may have written it.
    """
    try:
        return msgspec.json.decode(read_text(path), type=list[ProcessRecord])
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def end_leftovers(path: Path) -> None:
    """End the processes recorded at ``path`` that are still running, and delete the record."""
    running = [process for process in recorded_processes(path) if process.is_running() and process.is_marked()]
    _signal_and_wait([process for process in running if process.is_service], signal.SIGKILL)
    stubborn = _signal_and_wait([process for process in running if not process.is_service], signal.SIGINT)
    _signal_and_wait(stubborn, signal.SIGKILL)
    path.unlink(missing_ok=True)


def end_processes_in(folder: Path) -> None:
    """Kill the programs of Postgres that run in the data folder ``folder``: the sessions of a killed server continue to
    write until they notice.

    Does nothing if the system does not report the working folders of processes.
    """
    _signal_and_wait(list(_postgres_processes_in(folder)), signal.SIGKILL)


def _record_of(server: Server, process: Identity) -> ProcessRecord:
    return ProcessRecord(server.process.pid, server.marker, server.is_service, process.uid, process.start_time)


def _postgres_processes_in(folder: Path) -> Iterator[ProcessRecord]:
    """Yield the programs of Postgres that run in the folder as its owner, but not others, such as a shell."""
    owner = folder.stat().st_uid
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not (process / "cwd").samefile(folder):
                continue
            pid, current = int(process.name), identity(int(process.name))
            if current and current.uid == owner and (program := _program(current)) in POSTGRES_PROGRAMS:
                yield ProcessRecord(pid, program, True, current.uid, current.start_time)


def _program(process: Identity) -> str:
    """Return ``postgres`` for the commands ``/usr/bin/postgres -D data`` and ``postgres: checkpointer``."""
    return Path(process.command.partition(" ")[0]).name.removesuffix(":")


def _signal_and_wait(processes: list[ProcessRecord], signal_number: signal.Signals) -> list[ProcessRecord]:
    """Send a signal, wait, and return the processes that are still running. SIGKILL is sent to their process groups."""
    for process in processes:
        if not process.is_running():
            continue
        with contextlib.suppress(ProcessLookupError):
            if signal_number == signal.SIGKILL and os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal_number)
            else:
                os.kill(process.pid, signal_number)
    deadline = time.monotonic() + STOP_SECONDS
    while processes and time.monotonic() < deadline:
        processes = [process for process in processes if process.is_running()]
        time.sleep(POLL_SECONDS)
    return processes
