"""Failed steps of an iteration that are held, on the real server (semantics 42)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.runs import RequestRefusedError
from noetl_temporal.search_attributes import STATUS
from noetl_temporal.stack.addresses import Addresses
from tests.audit import audit_execution
from tests.shell.conftest import Shell
from tests.shell.servers import site
from tests.shell.test_cursor_runs import worker_of
from tests.shell.test_pauses import wait_for_suspensions
from tests.shell.test_reset_loops import reset
from tests.shell.test_stored_once import submit

STEPS = """\
  - step: start
    loop: {in: [a, b, c], iterator: name, spec: {mode: parallel, max_in_flight: 3}}
    next: {arcs: [{step: load}]}
  - step: load
    on_failure: {do: hold, for: 1h}
    tool: {kind: noop, message: "{{ name }}"}
    next: {arcs: [{step: met}]}
  - {step: met, spec: {end_loop: start}, next: {arcs: [{step: report}]}}
  - {step: report, tool: {kind: noop, message: "{{ start.results | map(attribute='load') | list }}"}}
"""


class Failing:
    """A tool that fails for some of its messages, until they are healed."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.call_counts = Counter[str]()

    def answer(self, request: Request, _context: ToolContext) -> Any:
        message = str(request.config.get("message"))
        self.call_counts[message] += 1
        return Outcome("error", error=ErrorInfo("exception", f"{message} fails")) if message in self.names else message


async def test_items_are_retried_and_skipped_one_by_one(servers: Addresses, shell: Shell) -> None:
    tool = Failing("a", "c")
    async with shell.client(tool.answer) as client:
        handle = await shell.submit(client, STEPS)
        held_status = await wait_for_suspensions(handle, lambda status: len(status.held) == 2)
        assert sorted(held.run for held in held_status.held) == ["start/1/0/load#1", "start/1/2/load#1"]
        assert {problem.message for problem in held_status.held} == {"a fails", "c fails"}
        assert held_status.waits == []
        with pytest.raises(RequestRefusedError, match="2 steps and items are held: name one of"):
            await handle.retry("load")
        tool.names.clear()
        assert await handle.retry("start/1/0/load#1", by="ann") == "load[0]"
        await wait_for_suspensions(handle, lambda status: len(status.held) == 1)
        status = (await handle.workflow.describe()).typed_search_attributes.get(STATUS)
        await handle.skip("load", "by hand", by="bob")
        report = await asyncio.wait_for(handle.result(), 30)
    assert status == "paused"
    assert report.status == "completed"
    assert tool.call_counts == {"a": 2, "b": 1, "c": 1, "['a', 'b', 'by hand']": 1}
    async with asyncio.timeout(30):
        await migrate(servers.postgres)
        await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
    log = await asyncpg.connect(servers.postgres)
    actions = await log.fetch(
        "select meta->>'action' as action, meta->>'by' as by, meta->>'iteration' as item from noetl.event "
        "where execution_id = $1 and event_type = 'step.released' order by event_id",
        handle.execution_id,
    )
    await log.close()
    assert [tuple(row) for row in actions] == [("retry", "ann", "0"), ("skip", "bob", "2")]
    assert await audit_execution(servers.postgres, handle.execution_id) == []


async def test_a_cancel_ends_a_held_item(shell: Shell) -> None:
    async with shell.client(Failing("a").answer) as client:
        handle = await shell.submit(client, STEPS)
        await wait_for_suspensions(handle, lambda status: bool(status.held))
        await handle.cancel("enough")
        report = await asyncio.wait_for(handle.result(), 30)
    assert report.status == "cancelled"


async def test_an_item_without_a_decision_fails(shell: Shell) -> None:
    async with shell.client(Failing("a").answer) as client:
        handle = await shell.submit(client, STEPS.replace("for: 1h", "for: 1s"))
        report = await asyncio.wait_for(handle.result(), 30)
    assert report.status == "failed"
    assert report.steps["start"]["iterations"] == {"total": 3, "success": 2, "failed": 1, "skipped": 0}


async def test_a_reset_before_a_loop_with_a_held_item(shell: Shell) -> None:
    """The chunk that holds the item is terminated; that of the new run begins anew."""
    tool = Failing("a")
    async with shell.client(tool.answer) as client:
        handle = await shell.submit(client, STEPS)
        await wait_for_suspensions(handle, lambda status: bool(status.held))
        tool.names.clear()
        reset_run = await reset(client, handle, 0)
        report = await asyncio.wait_for(reset_run.result(), 30)
    assert report["status"] == "completed"
    assert tool.call_counts["a"] == 2


async def test_a_held_item_outlives_its_worker(servers: Addresses) -> None:
    call = "http, method: GET, url: \"URL/size/{{ 1 if name == 'a' else 2 }}\""
    async with site() as web, asyncio.timeout(120):
        text = STEPS.replace('noop, message: "{{ name }}"', call.replace("URL", web.url))
        text = text.replace("http, method: GET, url:", "http, method: GET, timeout: 1s, url:")
        await web.answer_only(0)
        async with worker_of(servers) as worker:
            handle = await submit(servers, text)
            await wait_for_suspensions(handle, lambda status: len(status.held) == 3)
            worker.kill()
            await worker.wait_for_exit()
        await web.answer_only(None)
        async with worker_of(servers):
            for item in range(3):
                await handle.retry(f"load[{item}]")
            report = await handle.result()
    assert report.status == "completed"
    assert report.steps["start"]["iterations"]["success"] == 3
