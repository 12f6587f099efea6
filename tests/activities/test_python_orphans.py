"""A python task whose worker is killed ends with it, whatever it is at, and takes along what it has started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_python import is_running, read_finished_text

WORKER = """
import asyncio, sys
from noetl_activities.python.tool import TOOL
from tests.activities.conftest import Context, request
asyncio.run(TOOL.run(request("python", code=sys.argv[1], limit=None), Context()))
"""
"""A process that calls the tool, to be killed."""

STARTS = """
import os, subprocess, sys
started = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session={escapes})
print(os.getpid(), started.pid, file=open({file!r}, 'w'))
"""


class Pids:
    """Those that a task has written to ``file``: its own, and that of a process it started."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def started(self) -> list[int]:
        while not read_finished_text(self.file):
            await asyncio.sleep(0.02)
        return self.all

    @property
    def all(self) -> list[int]:
        return [int(pid) for pid in read_finished_text(self.file).split()]


@pytest.fixture
def pids(task_folder: Path) -> Iterator[Pids]:
    pids = Pids(task_folder / "pids")
    yield pids
    for pid in filter(is_running, pids.all):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "work",
    [
        "while True: pass",
        "sum(range(10**15))",  # nothing else of the process runs meanwhile, no thread and no handler of a signal
        "import time; time.sleep(600)",
        "import signal; signal.pause()",
        "started.wait()",
        "os._exit(0)",
    ],
)
async def test_nothing_outlives_a_killed_worker(work: str, pids: Pids) -> None:
    code = STARTS.format(file=str(pids.file), escapes=sys.platform == "linux") + work
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, code)
    async with asyncio.timeout(30):
        started = await pids.started()
        worker.kill()
        await worker.wait()
        while any(is_running(pid) for pid in started):
            await asyncio.sleep(0.02)
