"""Servers as child processes: started with a log, watched until ready, never left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import StackError

__all__ = ["Account", "Guard", "Server", "end_leftovers", "free_port", "record", "start", "stop"]

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02

# Reads `stop PID` and `kill PID` lines until the pipe closes: only then does anything happen. Whoever works on the
# servers is killed before they stop, so that it cannot take their end for a failure of its work and report that.
GUARD = """
pids= services=
while read -r how pid; do
  case "$how" in kill) services="$services $pid" ;; *) pids="$pids $pid" ;; esac
done
[ -z "$services" ] || kill -KILL $services 2>/dev/null
[ -n "$pids" ] || exit 0
kill -INT $pids 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; kill -0 $pids 2>/dev/null || exit 0; done
kill -KILL $pids 2>/dev/null
"""


class Account(NamedTuple):
    """The system account a server runs as."""

    uid: int
    gid: int


class Server(NamedTuple):
    """A running child. ``marker`` is a text of its command line that no foreign process has.

    A ``service`` works on the servers and has no data of its own: when its owner is gone it is killed, not asked.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    marker: str
    service: bool = False

    def wait_ready(self, ready: Callable[[], bool]) -> None:
        """Return once ``ready()``. Raises StackError, with the end of the log, when that does not come."""
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            if self.process.poll() is not None:
                raise StackError(f"{self.name} ended while starting:\n{_tail(self.log)}")
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} was not ready after {READY_SECONDS:g} s:\n{_tail(self.log)}")
            time.sleep(POLL_SECONDS)

    def ask_to_stop(self) -> None:
        """Tell it to end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def wait_stopped(self) -> None:
        """Return once it has ended; it is killed when asking was not enough."""
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Guard:
    """Ends the servers when this process is gone, however it went."""

    def __init__(self) -> None:
        read, self._pipe = os.pipe()
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", GUARD],
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read)

    def watch(self, server: Server) -> None:
        """End ``server`` too."""
        how = "kill" if server.service else "stop"
        os.write(self._pipe, f"{how} {server.process.pid}\n".encode())

    def dismiss(self) -> None:
        """The servers have been stopped; there is nothing to guard."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._pipe)


def start(
    name: str,
    command: Sequence[str | Path],
    log: Path,
    marker: str,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Server:
    """Start ``command`` in ``folder`` and a session of its own, so that Ctrl-C in the terminal does not reach it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            env={**os.environ, **(environment or {})},
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


def record(path: Path, servers: Sequence[Server]) -> None:
    """Note which processes run, for a later owner to find should this one be killed."""
    noted = [[server.process.pid, server.marker, server.service] for server in servers]
    path.write_text(json.dumps(noted))


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


def _ended(pids: list[int], how: signal.Signals) -> list[int]:
    """Send a signal and wait; the processes that have not ended since."""
    for pid in pids:
        os.kill(pid, how)
    deadline = time.monotonic() + STOP_SECONDS
    while pids and time.monotonic() < deadline:
        pids = [pid for pid in pids if _command_line(pid)]
        time.sleep(POLL_SECONDS)
    return pids


def _command_line(pid: int) -> str:
    """A process's command line; empty when it does not run. ``ps`` where there is no /proc."""
    proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self").exists():
        try:
            return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    ps = ["ps", "-o", "args=", "-p", str(pid)]
    return subprocess.run(ps, capture_output=True, text=True, check=False).stdout


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-15:]) or f"(nothing in {log})"
