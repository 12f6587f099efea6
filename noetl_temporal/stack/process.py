"""Servers as child processes: starts them with a log, waits until they are ready, and stops them."""

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

from noetl_activities.exit_status import exit_text
from noetl_temporal.stack.errors import CrashedError, StackError
from noetl_temporal.stack.files import open_log, read_text

__all__ = ["POLL_SECONDS", "Account", "Server", "free_port", "start", "stop"]

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
SERVICE_STOP_SECONDS = 15.0
"""Longer than the worker of the stack waits for calls in progress (serve.WORKER_GRACE_SECONDS)."""
POLL_SECONDS = 0.02
_LAST_LINES = 15

OWNER_ONLY_UMASK = 0o077
"""The umask of child processes: only their account can read the files that they create."""

# The program starts when a line arrives on stdin. If the owner dies before it has recorded this process, the pipe
# closes and the process ends, so no server ever runs unrecorded.
HOLD_SCRIPT = 'read -r _ && exec "$@" </dev/null'


class Account(NamedTuple):
    """The system account a server runs as."""

    uid: int
    gid: int


class Server(NamedTuple):
    """A child process, whose program starts when it is released. Only its command line contains ``marker``.

    ``is_service``: it uses the servers and has no data, so it is killed if its owner has ended.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    marker: str
    is_service: bool = False

    def release(self) -> None:
        """Start the program."""
        pipe = self.process.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(b"\n")
                pipe.close()

    def wait_ready(self, is_ready: Callable[[], bool]) -> None:
        """Wait until ``is_ready`` returns True.

        Raises CrashedError if the process ends first, StackError after READY_SECONDS.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            if self.process.poll() is not None:
                raise self.crash_error("ended while starting")
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} was not ready after {READY_SECONDS:g} s:\n{_last_lines(self.log)}")
            time.sleep(POLL_SECONDS)

    def crash_error(self, description: str) -> CrashedError:
        """Return the error for a server that has ended, with its exit status and the end of its log."""
        status = self.process.returncode
        summary = f"{self.name} {description} ({_exit_text(status)})"
        return CrashedError(summary, _last_lines(self.log), was_killed=status == -signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """Send SIGINT."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def wait_stopped(self) -> None:
        """Wait until the process has ended. Kills its process group if it takes too long."""
        try:
            self.process.wait(SERVICE_STOP_SECONDS if self.is_service else STOP_SECONDS)
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
    inherits_environment: bool = True,
    folder: Path | None = None,
    inherited_files: Sequence[int] = (),
    is_service: bool = False,
) -> Server:
    """Start a child process that waits for ``Server.release`` before it runs ``command``.

    It runs in ``folder``, by default the current one, in a separate session, which Ctrl-C in the terminal does not
    reach. Only its account can read the files that it creates. ``environment`` is added to the variables of this
    process, or replaces them unless ``inherits_environment``. ``inherited_files`` are descriptors.
    """
    with open_log(log) as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", HOLD_SCRIPT, "sh", *(str(part) for part in command)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            pass_fds=inherited_files,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            umask=OWNER_ONLY_UMASK,
            env={**(os.environ if inherits_environment else {}), **(environment or {})},
        )
    return Server(name, process, log, marker, is_service)


def stop(servers: Sequence[Server]) -> None:
    """Stop all servers at the same time, and wait until they have ended."""
    for server in servers:
        server.ask_to_stop()
    for server in servers:
        server.wait_stopped()


def free_port(preferred_port: int = 0) -> int:
    """Return ``preferred_port`` if nothing listens there on the loopback, else any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred_port))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _exit_text(status: int) -> str:
    return f"exit {exit_text(status)}" if status >= 0 else exit_text(status)


def _last_lines(log: Path) -> str:
    lines = read_text(log).splitlines()
    return "\n".join(lines[-_LAST_LINES:]) or f"(nothing in {log})"
