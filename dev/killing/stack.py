"""The stack in a temporary folder whose processes are killed, and the HTTP service that counts calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import recorded_processes
from noetl_temporal.stack.process import free_port
from noetl_temporal.stack.use import running_stack

__all__ = ["PARTS", "Api", "Stack", "wait_until"]

ROOT = Path(__file__).parents[2]
PARTS = {
    "worker": "noetl_temporal.cli worker",
    "mirror": "noetl_temporal.cli mirror",
    "postgres": "unix_socket_directories=",
    "temporal": "temporal.db",
}
"""The marker in the command line of each part, as recorded in servers.json."""

REQUIRED_SERVERS = ("postgres", "temporal")
"""Without these the stack ends, and ``noetl dev up`` starts it again."""


def wait_until(holds: Callable[[], object], seconds: float, condition: str) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true after {seconds:g} s: {condition}")
        time.sleep(0.1)


class Stack:
    """The stack of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "stack")

    @property
    def addresses(self) -> Addresses:
        """Return the addresses of the stack. Raises RuntimeError if it is down."""
        addresses = running_stack(self.home)
        if addresses is None:
            raise RuntimeError("the stack is down")
        return addresses

    def up(self) -> None:
        """Start the stack, in up to three attempts, since another stack may take a port at the same time."""
        for attempt in range(3):
            completed = self._noetl("dev", "up")
            if completed.returncode == 0:
                return
            if attempt == 2:
                raise RuntimeError(f"noetl dev up: {completed.stdout}{completed.stderr}")
            time.sleep(1)

    def down(self) -> None:
        """Stop the stack and all its processes."""
        self._noetl("dev", "down")

    def kill(self, part: str) -> bool:
        """Send SIGKILL to one of its processes, and restart the stack if it ends; return False if it is not running."""
        pid = self._pid(part)
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        if part in REQUIRED_SERVERS:
            wait_until(lambda: self.home.owner() is None, 60, "the stack has ended with one of its servers")
            self.up()
        return True

    @contextmanager
    def spare_worker(self) -> Generator[None]:
        """Inside the block a second worker serves the stack, which is not killed."""
        environment = {**self._environment(), **self.addresses.environment()}
        command = [sys.executable, "-m", "noetl_temporal.cli", "worker", "--grace", "1"]
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def freeze(self, part: str, seconds: float) -> bool:
        """Stop one of its processes with SIGSTOP for ``seconds``; return False if it is not running."""
        pid = self._pid(part)
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)
        return True

    def _pid(self, part: str) -> int | None:
        process = next(
            (
                process
                for process in reversed(recorded_processes(self.home.processes_file))
                if PARTS[part] in process.marker
            ),
            None,
        )
        return process.pid if process and process.is_running() else None

    def _noetl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "noetl_temporal.cli", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True, check=False, timeout=200
        )

    def _environment(self) -> dict[str, str]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "NOETL_"))
        }
        return {**environment, "NOETL_HOME": str(self.home.root)}


class Api:
    """The service that playbooks call; it lives as long as the ``with`` block."""

    def __init__(self) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Api:
        command = [sys.executable, str(ROOT / "dev/testserver.py"), "--port", self.url.rpartition(":")[2]]
        self._process = subprocess.Popen(command)
        wait_until(lambda: self._json("/health"), 30, "the HTTP service answers")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def calls(self, path: str) -> dict[str, int]:
        """Return the number of requests for each query string."""
        counts = self._json("/__calls")
        return dict(counts["calls"][path]["queries"]) if counts and path in counts["calls"] else {}

    def _json(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as response:
                return json.load(response)
        except (OSError, ValueError):
            return None
