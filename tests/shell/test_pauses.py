"""Pause, resume, retry and skip on the real server, of runs, their loops and the playbooks they call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient
from noetl_temporal.messages.control_requests import OpenWaits
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.read import steps_of
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.runs import RequestRefusedError, RunHandle, Runs
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.mirror.resets import reset
from tests.shell.conftest import Shell
from tests.shell.test_sub_playbooks import CALL, book, caller

STEPS = """\
  - step: start
    timeout: 20s
    tool: {kind: noop, message: start}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: after}}
"""
LOOP = """\
  - step: start
    loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: sequential}}
    tool: {kind: noop, message: "{{ n }}"}
"""
HELD = """\
  - step: start
    on_failure: {do: hold, for: 1h}
    loop: {in: [a, b, c], iterator: name, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: noop, message: "{{ name }}"}
    next: {arcs: [{step: after}]}
  - {step: after, on_failure: hold, tool: {kind: noop, message: after}}
"""


FRAMED_LOOP = """\
  - step: start
    loop:
      in: "{{ range(200) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 1, frame: {max_rows: 200, row_concurrency: 1}}
    tool: {kind: noop, message: "{{ n }}"}
"""


class Gate:
    """A tool whose calls wait until the test lets them end."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.failing: set[Any] = set()
        self._open = asyncio.Event()

    def open(self) -> None:
        self._open.set()

    async def answer(self, request: Request, _context: ToolContext) -> Any:
        config = request.config.get("message")
        self.messages.append(config)
        await self._open.wait()
        return Outcome("error", error=ErrorInfo("exception", f"{config} fails")) if config in self.failing else config


class Slow(Gate):
    """A tool whose calls take a moment."""

    async def answer(self, request: Request, _context: ToolContext) -> Any:
        self.messages.append(request.config.get("message"))
        await asyncio.sleep(0.05)
        return None


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


async def wait_for_suspensions(handle: RunHandle, holds: Callable[[OpenWaits], bool]) -> OpenWaits:
    async with asyncio.timeout(60):
        while not holds(suspensions := await handle.suspensions()):
            await asyncio.sleep(0.05)
    return suspensions


async def until_paused(handle: RunHandle) -> None:
    await wait_for_suspensions(handle, lambda status: status.pause is not None)


async def until_children_are_paused(client: NoetlClient, handle: RunHandle) -> None:
    """Return once each child of the run has completed a workflow task after the signal that pauses it."""
    for child in (await handle.workflow.describe()).raw_description.pending_children:
        workflow = client.temporal.get_workflow_handle(child.workflow_id)
        is_signalled = False
        async with asyncio.timeout(60):
            async for event in workflow.fetch_history_events(wait_new_event=True):
                is_signalled = is_signalled or event.HasField("workflow_execution_signaled_event_attributes")
                if is_signalled and event.HasField("workflow_task_completed_event_attributes"):
                    break


async def until_calls_are_interrupted(handle: RunHandle) -> None:
    """Return once the calls, which hear of a pause with a heartbeat, have stopped."""
    interrupted = PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
    async with asyncio.timeout(60):
        while {call.state for call in await pending_calls(handle)} != {interrupted}:
            await asyncio.sleep(0.05)


async def test_a_paused_run_begins_nothing_and_continues(shell: Shell) -> None:
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await handle.pause(by="ann", reason="why")
        await until_paused(handle)
        gate.open()
        with pytest.raises(RequestRefusedError, match="the run is paused already"):
            await handle.pause(by="bob")
        await asyncio.sleep(1)
        assert gate.messages == ["start"]
        await handle.resume(by="bob")
        report = await asyncio.wait_for(handle.result(), 60)
        with pytest.raises(RequestRefusedError, match="the run has ended"):
            await handle.resume()
    assert (report.status, gate.messages) == ("completed", ["start", "after"])


async def test_a_cancel_of_a_paused_run_is_accepted(shell: Shell) -> None:
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await handle.pause()
        gate.open()
        await until_paused(handle)
        await handle.cancel("enough")
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages) == ("cancelled", ["start"])


async def test_a_loop_pauses_with_its_playbook(shell: Shell) -> None:
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, LOOP)
        await until(lambda: gate.messages == [0])
        await handle.pause()
        await until_children_are_paused(client, handle)
        gate.open()
        await asyncio.sleep(1)
        assert gate.messages == [0]
        await handle.resume()
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.status == "completed"
    assert gate.messages == list(range(6))


async def test_a_pause_and_a_resume_at_the_same_moment_leave_no_call_paused(shell: Shell) -> None:
    """Whichever the run takes first: a run that is not paused has no call that is."""
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        for _ in range(5):
            await asyncio.gather(handle.pause(now=True), handle.resume(), return_exceptions=True)
            if (await handle.suspensions()).pause is not None:
                await handle.resume()
            assert [call for call in await pending_calls(handle) if call.paused] == []
        gate.open()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, set(gate.messages)) == ("completed", {"start", "after"})


async def pending_calls(handle: RunHandle) -> list[PendingActivityInfo]:
    return list((await handle.workflow.describe()).raw_description.pending_activities)


async def test_calls_that_are_paused_at_once_are_made_again(shell: Shell) -> None:
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await handle.pause(now=True)
        await until_calls_are_interrupted(handle)
        await handle.pause(now=True)  # as somebody repeats it whose first command was killed half way
        gate.open()
        await asyncio.sleep(1)
        assert gate.messages == ["start"]
        await handle.resume()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages) == ("completed", ["start", "start", "after"])


async def test_a_call_that_must_not_be_repeated_is_not_interrupted(shell: Shell) -> None:
    gate = Gate()
    once = STEPS.replace("kind: noop", "kind: noop, spec: {idempotent: false}", 1)
    assert once != STEPS
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, once)
        await until(lambda: gate.messages == ["start"])
        await handle.pause(now=True)
        await asyncio.sleep(4)  # the call hears of it with a heartbeat
        gate.open()
        await asyncio.sleep(1)
        assert gate.messages == ["start"]
        await handle.resume()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages) == ("completed", ["start", "after"])


async def test_a_held_loop_is_retried_and_a_held_step_skipped(shell: Shell) -> None:
    gate = Gate()
    gate.failing = {"b", "after"}
    gate.open()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, HELD)
        [held] = (await wait_for_suspensions(handle, lambda status: bool(status.held))).held
        assert (held.run, held.step) == ("start#1", "start")
        with pytest.raises(RequestRefusedError, match="step 'after' is not held: held are 'start'"):
            await handle.skip("after")
        with pytest.raises(RequestRefusedError, match="the playbook has no step 'strat'"):
            await handle.retry("strat")
        gate.failing = {"after"}
        gate.messages.clear()
        assert await handle.retry(by="ann") == "start"
        [held] = (
            await wait_for_suspensions(handle, lambda status: bool(status.held) and status.held[0].step == "after")
        ).held
        assert gate.messages == ["b", "after"]
        assert "after fails" in held.message
        assert await handle.skip("after", {"n": 1}, by="ann") == "after"
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, report.result) == ("completed", {"n": 1})


async def test_a_pause_outlives_its_worker(shell: Shell) -> None:
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await handle.pause()
        gate.open()
        await asyncio.sleep(0.5)
    async with shell.client(gate.answer) as client:
        handle = await client.find(handle.execution_id)
        await until_paused(handle)
        assert gate.messages == ["start"]
        await handle.resume()
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.status == "completed"


async def test_a_loop_continues_where_a_reset_has_dropped_its_pause(shell: Shell) -> None:
    gate = Gate()
    async with shell.client(gate.answer) as client:
        handle = await shell.submit(client, LOOP)
        await until(lambda: len(gate.messages) == 1)
        await handle.pause()
        await until_children_are_paused(client, handle)
        assert handle.run_id is not None
        await reset(client.temporal, handle.workflow, handle.run_id, with_updates=False)
        gate.open()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages) == ("completed", [0, 1, 2, 3, 4, 5])


async def test_a_called_playbook_pauses_with_its_caller(shell: Shell) -> None:
    gate = Gate()
    child = book("tests/child", "workflow:\n" + STEPS)
    async with shell.client(gate.answer) as client:
        handle = await client.submit(caller(CALL % ""), {}, playbooks={"tests/child": child})
        await until(lambda: gate.messages == ["start"])
        await handle.pause()
        await until_children_are_paused(client, handle)
        gate.open()
        await asyncio.sleep(1)
        assert gate.messages == ["start"]
        await handle.resume()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages) == ("completed", ["start", "after"])


async def test_a_pause_does_not_count_for_the_timeout_of_a_called_playbook(shell: Shell) -> None:
    gate = Gate()
    child = book("tests/child", "workflow:\n" + STEPS)
    async with shell.client(gate.answer) as client:
        handle = await client.submit(caller(CALL % ", timeout: 6s"), {}, playbooks={"tests/child": child})
        await until(lambda: gate.messages == ["start"])
        await handle.pause()
        await asyncio.sleep(7)
        await handle.resume()
        gate.open()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages) == ("completed", ["start", "after"])


async def test_called_playbooks_and_loops_receive_pauses_in_order(shell: Shell) -> None:
    gate = Gate()
    child = book("tests/child", "workflow:\n" + STEPS)
    loop_step = CALL % "" + "    loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel}}\n"
    async with shell.client(gate.answer) as client:
        handle = await client.submit(caller(loop_step), {}, playbooks={"tests/child": child})
        await until(lambda: gate.messages == ["start"] * 4)
        for _ in range(20):
            await asyncio.gather(handle.pause(), handle.resume(), return_exceptions=True)
        if (await handle.suspensions()).pause is not None:
            await handle.resume()
        gate.open()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, gate.messages.count("after")) == ("completed", 4)


@asynccontextmanager
async def logging_client(servers: Addresses, gate: Gate) -> AsyncGenerator[NoetlClient]:
    """A client with an event log, beside a worker."""
    await migrate(servers.postgres)
    tools = {"noop": FakeTool("noop", gate.answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, Shell(servers.temporal).credentials):
        yield client


async def iterations_in_log(servers: Addresses, handle: RunHandle, step: str) -> dict[str, int | None]:
    async with asyncpg.create_pool(servers.postgres, min_size=1, max_size=1) as pool:
        summary = next(summary for summary in await steps_of(pool, handle.execution_id) if summary.step == step)
    return {"total": summary.iterations_total, "ended": summary.iterations_ended, "failed": summary.iterations_failed}


@pytest.mark.parametrize("failing", [{"b"}, {"a", "b", "c"}], ids=["one item", "all items"])
async def test_each_item_of_a_retried_loop_counts_once(servers: Addresses, shell: Shell, failing: set[str]) -> None:
    """In the report of the run and in the event log, however often it was retried."""
    gate = Gate()
    gate.failing = {*failing, "after"}
    gate.open()
    async with logging_client(servers, gate) as client:
        handle = await shell.submit(client, HELD)
        following = asyncio.create_task(follow_execution(client.temporal, servers.postgres, handle.workflow_id))
        await wait_for_suspensions(handle, lambda status: bool(status.held))
        await handle.retry("start")
        await wait_for_suspensions(handle, lambda status: [held.run for held in status.held] == ["start#2"])
        gate.failing = {"after"}
        await handle.retry("start")
        await wait_for_suspensions(handle, lambda status: [held.step for held in status.held] == ["after"])
        await handle.skip("after")
        report = await asyncio.wait_for(handle.result(), 60)
        await asyncio.wait_for(following, 30)
    assert report.steps["start"]["iterations"] == {"total": 3, "success": 3, "failed": 0, "skipped": 0}
    assert await iterations_in_log(servers, handle, "start") == {"total": 3, "ended": 3, "failed": 0}


async def status_in_log(servers: Addresses, handle: RunHandle) -> str:
    connection = await asyncpg.connect(servers.postgres)
    try:
        status = await connection.fetchval(
            "SELECT status FROM noetl.execution WHERE execution_id = $1", handle.execution_id
        )
    finally:
        await connection.close()
    return str(status)


async def test_lists_show_what_is_paused(servers: Addresses, shell: Shell) -> None:
    gate = Gate()
    async with logging_client(servers, gate) as client:
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await handle.pause()
        await until_paused(handle)
        following = asyncio.create_task(follow_execution(client.temporal, servers.postgres, handle.workflow_id))
        async with asyncio.timeout(60):
            while await status_in_log(servers, handle) != "PAUSED":
                await asyncio.sleep(0.1)
        paused_ids = [run.execution_id for run in await client.list(status="paused")]
        paused_ids_in_temporal = [run.execution_id for run in await Runs(client.temporal, None).list(status="paused")]
        assert handle.execution_id in paused_ids
        assert handle.execution_id in paused_ids_in_temporal
        gate.open()
        await handle.resume()
        await asyncio.wait_for(handle.result(), 60)
        await asyncio.wait_for(following, 30)
        assert await status_in_log(servers, handle) == "COMPLETED"


async def test_a_frame_pauses_with_its_playbook(servers: Addresses, shell: Shell) -> None:
    gate = Slow()
    async with logging_client(servers, gate) as client:
        handle = await shell.submit(client, FRAMED_LOOP)
        await until(lambda: len(gate.messages) > 5)
        await handle.pause()
        await until_calls_are_interrupted(handle)
        so_far = len(gate.messages)
        await asyncio.sleep(1)
        assert len(gate.messages) == so_far < 200
        await handle.resume()
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.status == "completed"
    assert report.result["stats"]["success"] == 200
