"""A tool that says how many of its calls may run at once: the others wait, alive, and their time has not begun."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.python import tool as python
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, Tool, ToolContext
from noetl_activities.tool_spec import ToolSpec
from noetl_compiler import compile_or_raise
from noetl_temporal.calls import tool_slots
from noetl_temporal.client import NoetlClient
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.naming import WORKFLOW_QUEUE
from noetl_temporal.playbook_tests.virtual_time import VirtualTimeLoop
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import HEAD
from .test_interrupted_attempts import CALL, Running


class Gate:
    """A tool that runs ``at_once`` calls, which end when ``open`` is set."""

    def __init__(self, at_once: int) -> None:
        self.running = self.max_running = 0
        self.has_entered = asyncio.Event()
        self.open = asyncio.Event()
        self.tool = FakeTool("noop", self._answer)
        self.tool.spec = ToolSpec("noop", "waits", max_concurrent=at_once)

    async def _answer(self, _request: Request, _context: ToolContext) -> Any:
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        self.has_entered.set()
        await self.open.wait()
        self.running -= 1


def start(gate: Gate, count: int, timeout: float | None = None) -> tuple[list[Running], list[asyncio.Task[ToolReport]]]:
    calls = [Running(msgspec.structs.replace(CALL, timeout=timeout), gate.tool, []) for _ in range(count)]
    return calls, [call.start() for call in calls]


async def test_no_more_run_than_the_tool_allows() -> None:
    gate = Gate(2)
    _, tasks = start(gate, 7)
    await gate.has_entered.wait()
    gate.open.set()
    reports = await asyncio.gather(*tasks)
    assert [report.outcome["status"] for report in reports] == ["ok"] * 7
    assert gate.max_running == 2


def test_a_call_that_waits_for_others_has_its_whole_timeout_afterwards() -> None:
    async def answer(_request: Request, _context: ToolContext) -> None:
        await asyncio.sleep(25)

    async def reports() -> list[ToolReport]:
        gate = Gate(1)
        gate.tool = FakeTool("noop", answer)
        gate.tool.spec = ToolSpec("noop", "takes a while", max_concurrent=1)
        _, tasks = start(gate, 5, timeout=60)
        return await asyncio.gather(*tasks)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert [report.outcome["status"] for report in runner.run(reports())] == ["ok"] * 5


async def test_a_waiting_call_sends_heartbeats_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.calls.heartbeats.HEARTBEAT_INTERVAL", timedelta(seconds=0.01))
    gate = Gate(1)
    [_, waiting], [first, second] = start(gate, 2)
    await gate.has_entered.wait()
    while not waiting.heartbeats:
        await asyncio.sleep(0.01)
    waiting.interrupt("cancel_requested")
    report = await second
    assert [(attempt.status, attempt.is_called) for attempt in report.attempts] == [("cancelled", False)]
    gate.open.set()
    await first
    assert gate.max_running == 1


PROCESSES = """workload: {folder: x}
workflow:
  - step: start
    loop: {in: [1, 2, 3, 4, 5, 6], iterator: n, spec: {mode: parallel, max_in_flight: 6}}
    tool:
      kind: python
      input: {n: "{{ iter.n }}", folder: "{{ workload.folder }}"}
      code: |
        import os, time
        with open(folder + "/" + str(n), "w") as file:
            file.write(str(time.monotonic()) + " ")
            while len(os.listdir(folder)) < 2:  # the first call waits for the second
                time.sleep(0.01)
            time.sleep(0.2)
            file.write(str(time.monotonic()))
        result = n
"""


@pytest.mark.parametrize("queues", [{}, {"python": WORKFLOW_QUEUE}], ids=["own", "shared"])
async def test_as_many_processes_of_python_as_processors(
    servers: Addresses, task_folder: Path, queues: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_slots, "_processors", lambda: 2)
    tools: dict[str, Tool] = {"python": python.TOOL}
    client = await NoetlClient.connect(servers.temporal, tools=tools)
    graph = compile_or_raise(f"{HEAD}{PROCESSES}")
    async with asyncio.timeout(120), serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await client.submit(graph, {"folder": str(task_folder)}, queues=queues)
        report = await handle.result()
    assert report.status == "completed", report.failures
    spans = times_in(task_folder)
    assert len(spans) == 6
    assert max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans) == 2


def times_in(folder: Path) -> list[list[float]]:
    """When each call began and ended."""
    return [[float(moment) for moment in path.read_text().split()] for path in folder.iterdir()]
