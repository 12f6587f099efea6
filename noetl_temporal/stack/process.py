"""Servers as child processes: started with a log, watched until ready, never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import CrashedError, StackError
from noetl_temporal.stack.files import open_log, read_text

__all__ = ["POLL_SECONDS", "Account", "Server", "free_port", "start", "stop"]

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
SERVICE_STOP_SECONDS = 15.0
"""More than a worker of the stack gives its calls (serve.py)."""
POLL_SECONDS = 0.02
FOR_THE_OWNER = 0o077
"""The umask of what is started: only its account reads the files it makes."""

# The program begins when a line comes. Should the owner die before it has noted this process, the pipe closes and
# this process ends by itself: so no server ever runs that is not recorded.
HOLD = 'read -r _ && exec "$@" </dev/null'


class Account(NamedTuple):
    """The system account a server runs as."""

    uid: int
    gid: int


class Server(NamedTuple):
    """A child, held until it is released. ``marker`` is a text of its command line that no foreign process has.

    A ``service`` works on the servers and has no data of its own: when its owner is gone it is killed, not asked.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    marker: str
    service: bool = False

    def release(self) -> None:
        """Let the program begin."""
        pipe = self.process.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(b"\n")
                pipe.close()

    def wait_ready(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready()``. Raises CrashedError if the process ends before, StackError if it takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            if self.process.poll() is not None:
                raise self.crash_error("ended while starting")
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} was not ready after {READY_SECONDS:g} s:\n{_tail(self.log)}")
            time.sleep(POLL_SECONDS)

    def crash_error(self, how: str) -> CrashedError:
        """Return the error of an ended server, with the exit status and the end of the log."""
        return CrashedError(f"{self.name} {how} ({_exit_text(self.process.returncode)})", _tail(self.log))

    def ask_to_stop(self) -> None:
        """Tell it to end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def wait_stopped(self) -> None:
        """Wait until the process has ended. Kills its process group if it takes too long."""
        try:
            self.process.wait(SERVICE_STOP_SECONDS if self.service else STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def start(
    name: str,
    command: Sequence[str | Path],
    log: Path,
    marker: str,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
    inherits: bool = True,
    folder: Path | None = None,
    files: Sequence[int] = (),
) -> Server:
    """Start ``command``, held, in ``folder``, in a session of its own that a terminal's Ctrl-C does not reach.

    Only its account reads the files that it makes. ``environment`` is added to this process's own, unless it
    ``inherits`` none of that; ``files`` are open files that it inherits in any case."""
    with open_log(log) as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", HOLD, "sh", *(str(part) for part in command)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            pass_fds=files,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            umask=FOR_THE_OWNER,
            env={**(os.environ if inherits else {}), **(environment or {})},
        )
    return Server(name, process, log, marker)


def stop(servers: Sequence[Server]) -> None:
    """End all of them at once, and wait until they have."""
    for server in servers:
        server.ask_to_stop()
    for server in servers:
        server.wait_stopped()


def free_port(preferred: int = 0) -> int:
    """``preferred`` when nothing listens there on the loopback, else any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _exit_text(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


def _tail(log: Path) -> str:
    lines = read_text(log).splitlines()
    return "\n".join(lines[-15:]) or f"(nothing in {log})"
