"""Calls of a worker that ends, or is about to: a cancel reaches them, and their processes do not outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_temporal.client import RunHandle
from noetl_temporal.stack.addresses import Addresses
from tests.acceptance.processes import alive

from .reports import reports_of
from .servers import site
from .test_stored_once import submit, until
from .worker_process import worker_process

SPIN = """
  - step: start
    tool:
      kind: python
      code: |
        open({file!r}, "a").write(f"{{os.getpid()}}\\n")
        while True: pass
    next:
      arcs: [{{step: after}}]
  - step: after
    tool: {{kind: http, method: POST, url: "{url}/size/1"}}
"""


class Spinning:
    """A run whose first step never ends. ``pids`` are the processes of its attempts."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def submitted(self, servers: Addresses, url: str = "http://127.0.0.1:1") -> RunHandle:
        return await submit(servers, SPIN.format(file=str(self.file), url=url))

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in self.file.read_text().split()] if self.file.exists() else []


@pytest.fixture
def spinning(tmp_path: Path) -> Iterator[Spinning]:
    found = Spinning(tmp_path / "pids")
    yield found
    for pid in filter(alive, found.pids):
        os.kill(pid, signal.SIGKILL)


async def test_a_task_ends_with_its_killed_worker(servers: Addresses, spinning: Spinning) -> None:
    handle = await spinning.submitted(servers)
    async with worker_process(servers.temporal, servers.postgres) as worker:
        await until(lambda: len(spinning.pids) == 1)
        worker.kill()
        await until(lambda: not alive(spinning.pids[0]))
    await handle.terminate()


async def test_a_cancel_reaches_a_call_of_a_worker_that_waits_for_it(servers: Addresses, spinning: Spinning) -> None:
    async with site() as web:
        handle = await spinning.submitted(servers, web.url)
        async with worker_process(servers.temporal, servers.postgres) as worker:
            await until(lambda: len(spinning.pids) == 1)
            worker.stop()
            await until(lambda: "stopping" in worker.output)
            await handle.cancel()
            async with asyncio.timeout(60):
                assert (await handle.result()).status == "cancelled"
            assert await worker.ended() == 0
        assert not alive(spinning.pids[0])
        assert web.calls.total() == 0
    assert len(spinning.pids) == 1
    [call] = await reports_of(handle, servers.postgres)
    assert [one.status for one in call.attempts] == ["cancelled"]
