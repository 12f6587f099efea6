"""A shell task ends with all that it has started: by itself, by a timeout or a cancel, and with its worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.shell.tool import TOOL
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

from .conftest import Context, request
from .test_python import is_running, read_finished_text

WORKER = """
import asyncio, sys
from noetl_activities.shell.tool import TOOL
from tests.activities.conftest import Context, request
asyncio.run(TOOL.run(request("shell", cmds=sys.argv[1], limit=None), Context()))
"""
"""A process that calls the tool, to be killed."""

STARTS = """
sleep 600 & echo $! > {file}.new
setsid sleep 600 & echo $! >> {file}.new
nohup bash -c 'trap "" TERM HUP INT; (sleep 600; true)' > /dev/null 2>&1 & echo $! >> {file}.new
(setsid bash -c 'echo $$ >> {file}.new; mv {file}.new {file}; sleep 600; true' &)
while ! test -f {file}; do sleep 0.01; done
"""
"""Starts a process in the background, one in a session of its own, one that ignores signals, and one without parent."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group ends")


@pytest.fixture
def pids(task_folder: Path) -> Iterator[Path]:
    """The file for the process ids of what the task has started."""
    file = task_folder / "pids"
    yield file
    for pid in filter(is_running, started_by(file)):
        os.kill(pid, signal.SIGKILL)


def started_by(file: Path) -> list[int]:
    return [int(pid) for pid in read_finished_text(file).split()]


async def all_started(file: Path) -> list[int]:
    async with asyncio.timeout(30):
        while len(started_by(file)) < 4:
            await asyncio.sleep(0.02)
    return started_by(file)


async def wait_until_gone(expected: list[int]) -> None:
    async with asyncio.timeout(30):
        while any(is_running(pid) for pid in expected):
            await asyncio.sleep(0.02)


async def test_processes_left_behind_end_with_the_call(pids: Path) -> None:
    outcome = await TOOL.run(request("shell", cmds=[STARTS.format(file=pids), "echo done"]), Context())
    assert outcome.result == {"exit_code": 0, "stdout": "done\n", "stderr": ""}
    await wait_until_gone(started_by(pids))
    assert len(started_by(pids)) == 4


@pytest.mark.parametrize("then", ["sleep 600", "while :; do :; done", "wait"])
async def test_a_cancel_ends_all_processes(pids: Path, then: str) -> None:
    running = asyncio.create_task(TOOL.run(request("shell", cmds=STARTS.format(file=pids) + then), Context()))
    processes = await all_started(pids)
    assert any(map(is_running, processes))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_until_gone(processes)


async def test_nothing_outlives_commands_that_kill_what_guards_them(pids: Path) -> None:
    commands = STARTS.format(file=pids) + "kill -9 $PPID; sleep 600"
    await asyncio.wait_for(TOOL.run(request("shell", cmds=commands), Context()), 60)
    assert len(started_by(pids)) == 4
    await wait_until_gone(started_by(pids))


async def test_a_timeout_ends_all_processes(pids: Path) -> None:
    activity = tool_activity(TOOL, CredentialSource(environment={}), ValueStore(data_converter()))
    config = {"cmds": STARTS.format(file=pids) + "sleep 600"}
    call = ToolCall("c", "1/k", "step", "task", "shell", 1, config=config, timeout=2.0)
    report = await ActivityEnvironment().run(activity, call)
    assert report.outcome["error"]["kind"] == "timeout"
    assert len(started_by(pids)) == 4
    await wait_until_gone(started_by(pids))


@pytest.mark.parametrize("work", ["sleep 600", "while :; do :; done"])
async def test_nothing_outlives_a_killed_worker(work: str, pids: Path) -> None:
    code = STARTS.format(file=pids) + work
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, code)
    processes = await all_started(pids)
    assert any(map(is_running, processes))
    worker.kill()
    await worker.wait()
    await wait_until_gone(processes)
