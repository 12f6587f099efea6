"""``noetl worker`` in a process of its own, which tests stop or kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

__all__ = ["WorkerProcess", "worker_process"]


class WorkerProcess:
    """``output`` is what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    async def serves(self) -> None:
        """Return once it polls."""
        while "serving" not in self.output:
            assert self._process.returncode is None, self.output
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        """Tell it to stop, as a deploy does."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it where it is."""
        self._process.kill()

    async def wait_for_exit(self) -> int:
        """Wait until the process ends, and return its exit status."""
        return await asyncio.wait_for(self._process.wait(), 60)


@asynccontextmanager
async def worker_process(address: str, dsn: str, *options: str, **environment: str) -> AsyncGenerator[WorkerProcess]:
    """A worker of everything that keeps large values in ``dsn``; it is killed at the end if it still runs."""
    variables = {
        **os.environ,
        "TEMPORAL_ADDRESS": address,
        "NOETL_POSTGRES": dsn,
        "NOETL_HTTP_ALLOW": "127.0.0.0/8",
        **environment,
    }
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "worker.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "noetl_temporal.cli", "worker", *options,
                stdout=output, stderr=asyncio.subprocess.STDOUT, env=variables, cwd=folder,
            )  # fmt: skip
        worker = WorkerProcess(process, log)
        try:
            await worker.serves()
            yield worker
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
