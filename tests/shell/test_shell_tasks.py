"""Shell tasks on the real server: policies see how a command has ended, and processes end with their run and worker."""

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
from .test_stored_once import submit, until
from .worker_process import worker_process

SLEEPS = """
  - step: start
    tool:
      kind: shell
      timeout: {limit}
      cmds:
        - setsid sleep 600 & echo $! >> {file}
        - test "$(wc -l < {file})" -ge {attempts} || sleep 600
        - echo done after $(wc -l < {file})
    next:
      arcs:
        - step: cleaned
          when: "{{{{ output.status == 'error' }}}}"
          set: {{ctx.kind: "{{{{ output.error.kind }}}}"}}
        - step: end
  - step: cleaned
    tool: {{kind: noop, result: "{{{{ ctx.kind }}}}"}}
"""
"""Starts a process in a session of its own, and sleeps in all attempts but the last."""


class Sleeping:
    """A run whose first step sleeps. ``pids`` are the processes that its attempts have left in the background."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def submit(self, servers: Addresses, attempts: int = 9, limit: str = "1h") -> RunHandle:
        return await submit(servers, SLEEPS.format(file=self.file, attempts=attempts, limit=limit))

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in self.file.read_text().split()] if self.file.exists() else []

    async def wait_until_started(self, count: int) -> None:
        await until(lambda: len(self.pids) == count)

    async def wait_until_ended(self) -> None:
        await until(lambda: not any(alive(pid) for pid in self.pids))


@pytest.fixture
def sleeping(task_folder: Path) -> Iterator[Sleeping]:
    processes = Sleeping(task_folder / "pids")
    yield processes
    for pid in filter(alive, processes.pids):
        os.kill(pid, signal.SIGKILL)


async def test_a_cancel_ends_all_processes_of_the_call(servers: Addresses, sleeping: Sleeping) -> None:
    handle = await sleeping.submit(servers)
    async with worker_process(servers.temporal, servers.postgres), asyncio.timeout(60):
        await sleeping.wait_until_started(1)
        await handle.cancel()
        assert (await handle.result()).status == "cancelled"
        await sleeping.wait_until_ended()
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["cancelled"]


async def test_a_timeout_ends_all_processes_of_the_call(servers: Addresses, sleeping: Sleeping) -> None:
    handle = await sleeping.submit(servers, limit="2s")
    async with worker_process(servers.temporal, servers.postgres), asyncio.timeout(60):
        report = await handle.result()
        assert (report.status, report.result) == ("completed", "timeout")
        await sleeping.wait_until_ended()
    assert len(sleeping.pids) == 1


async def test_a_killed_worker_takes_the_processes_along_and_another_calls_again(
    servers: Addresses, sleeping: Sleeping
) -> None:
    handle = await sleeping.submit(servers, attempts=2)
    async with worker_process(servers.temporal, servers.postgres) as first:
        await sleeping.wait_until_started(1)
        first.kill()
        await sleeping.wait_until_ended()
    async with worker_process(servers.temporal, servers.postgres), asyncio.timeout(120):
        report = await handle.result()
    assert (report.status, report.result["stdout"]) == ("completed", "done after 2\n")
    await sleeping.wait_until_ended()
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["lost", "ok"]


COUNTS = """
  - step: start
    tool:
      kind: shell
      command: echo x >> {file}; exit $((10 + $(wc -l < {file})))
      spec:
        policy:
          rules:
            - when: "{{{{ output.data.exit_code == 13 }}}}"
              then: {{do: continue, set: {{ctx.code: "{{{{ output.error.code }}}}"}}}}
            - when: "{{{{ output.status == 'error' }}}}"
              then: {{do: retry, attempts: 5, delay: 0.01}}
    next: {{arcs: [{{step: done}}]}}
  - step: done
    tool: {{kind: noop, result: "{{{{ ctx.code }}}}"}}
"""


async def test_rules_see_the_exit_status(servers: Addresses, task_folder: Path) -> None:
    handle = await submit(servers, COUNTS.format(file=task_folder / "lines"))
    async with worker_process(servers.temporal, servers.postgres), asyncio.timeout(60):
        report = await handle.result()
    assert report.status == "completed"
    [call, _] = await reports_of(handle, servers.postgres)
    codes = [attempt.error["code"] for attempt in call.attempts if attempt.error]
    assert codes == ["11", "12", "13"]
