"""Loops over a cursor that repeat several steps, and those inside an iteration, on real servers (semantics 24)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.runs import RunHandle
from noetl_temporal.stack.addresses import Addresses
from tests.shell.conftest import Shell
from tests.shell.servers import Site, site
from tests.shell.table import Base
from tests.shell.test_cursor_runs import (
    CALL,
    LEASE,
    Jobs,
    has_expired_lease,
    jobs,
    rows_are_given_back_after_a_cancel,
    worker_of,
    working,
)
from tests.shell.test_stored_once import submit, until

__all__ = ["jobs"]  # the fixture

TOOL = f"    tool: {{kind: {CALL}}}\n"
STEPS = """\
    next: {arcs: [{step: first}]}
  - {step: first, tool: {kind: FIRST}, next: {arcs: [{step: second}]}}
  - {step: second, tool: {kind: SECOND}, next: {arcs: [{step: done}]}}
  - {step: done, spec: {end_loop: drain}}
"""
AROUND = """
  - {step: around, loop: {in: [1, 2], iterator: part, spec: {mode: parallel}}, next: {arcs: [{step: drain}]}}
"""


def over_steps(jobs: Jobs, spec: str, first: str = CALL, second: str = CALL) -> str:
    """A loop over rows that repeats two steps."""
    text = jobs.playbook(spec)
    assert TOOL in text
    return text.replace(TOOL, STEPS.replace("FIRST", first).replace("SECOND", second))


def inside(jobs: Jobs, spec: str, call: str = CALL) -> str:
    """A loop over rows in each of two iterations of another loop, at once."""
    text = jobs.playbook(spec, call=call).rstrip()
    end = "    next: {arcs: [{step: done}]}\n  - {step: done, spec: {end_loop: around}}\n"
    return f"{AROUND.rstrip()}{text}\n{end}"


def fetching(web: Site) -> str:
    return f'http, method: GET, url: "{web.url}/size/{{{{ iter.job.id }}}}"'


@pytest.fixture
async def lines(servers: Addresses, base: Base) -> AsyncGenerator[Jobs]:
    connection = await asyncpg.connect(servers.playbooks)
    yield Jobs(connection, f"{base.table}_lines")
    await connection.close()


async def test_a_row_that_fails_is_claimed_again_until_its_attempts_are_used_up(servers: Addresses, jobs: Jobs) -> None:
    """One fails always, one on its first two claims, each in its second step."""
    await jobs.make(6)
    call_counts = Counter[int]()

    async def answer(request: Request, _context: ToolContext) -> Any:
        row = int(request.input["n"])
        call_counts[row] += 1
        if call_counts[row] % 2 == 0 and (row == 2 or (row == 4 and call_counts[row] < 6)):
            return Outcome("error", error=ErrorInfo("exception", f"row {row} is broken"))
        return row

    spec = "max_in_flight: 1, frame: {max_attempts: 3}, policy: {failure: {mode: best_effort}}"
    async with working(servers, answer) as client:
        text = over_steps(jobs, spec).replace("on_row_error: ack", "on_row_error: release")
        report = await (await Shell.submit(client, text)).result()
    assert report.steps["drain"]["iterations"] == {"total": 10, "success": 5, "failed": 1, "skipped": 4}
    assert await jobs.acks() == list(range(1, 7))
    assert {row: status for row, (status, _) in (await jobs.states()).items() if status == "error"} == {2: "error"}
    assert call_counts[4] == 6


@pytest.mark.parametrize("form", [over_steps, inside], ids=["over steps", "inside"])
async def test_a_cancelled_run_releases_its_rows(form: Any, servers: Addresses, jobs: Jobs) -> None:
    text = form(jobs, "max_in_flight: 2, frame: {max_rows: 2}")
    await rows_are_given_back_after_a_cancel(servers, jobs, text, done=6)


async def test_calls_of_rows_inside_rows_renew_both_leases(servers: Addresses, jobs: Jobs, lines: Jobs) -> None:
    """The call lasts for three leases, and nobody gets either row meanwhile."""
    await jobs.make(1)
    await lines.make(1)
    has_begun, taken_jobs = asyncio.Event(), list[int]()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        has_begun.set()
        await asyncio.sleep(3 * LEASE)
        return "done"

    spec = f"max_in_flight: 1, frame: {{lease_seconds: {LEASE}}}"
    inner = lines.playbook(spec).replace("step: drain", "step: first").replace("iterator: job", "iterator: line")
    inner = inner.replace("iter.job.id", "iter.line.id").rstrip() + "\n    next: {arcs: [{step: done}]}\n"
    outer = jobs.playbook(spec).replace(TOOL, "    next: {arcs: [{step: first}]}\n")
    text = f"{outer.rstrip()}{inner}  - {{step: done, spec: {{end_loop: drain}}}}\n"
    async with working(servers, answer) as client:
        handle = await Shell.submit(client, text)
        await has_begun.wait()
        result = asyncio.create_task(handle.result())
        while not result.done():
            taken_jobs += [*await jobs.change_owner(), *await lines.change_owner()]
            await asyncio.sleep(0.2)
        assert (await result).status == "completed"
    assert taken_jobs == []
    assert (await jobs.acks(), await lines.acks()) == ([1], [1])


# ---- workers in processes of their own ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["over steps", "inside"])
async def test_a_worker_that_is_killed_in_the_middle(form: str, servers: Addresses, jobs: Jobs) -> None:
    """Two runs; the calls of the killed worker are made again by the next, under the same leases."""
    await jobs.make(30)
    spec = "max_in_flight: 4, frame: {max_rows: 2, lease_seconds: 60}"
    async with site() as web, asyncio.timeout(150):
        call = fetching(web)
        workflow = over_steps(jobs, spec, call, call) if form == "over steps" else inside(jobs, spec, call)
        await web.answer_only(15)
        async with worker_of(servers) as worker:
            handles = [await submit(servers, workflow) for _ in range(2)]
            await until(lambda: web.calls.total() > 15)
            worker.kill()
            await worker.wait_for_exit()
        await web.answer_only(None)
        async with worker_of(servers):
            reports = [await handle.result() for handle in handles]
    assert [report.status for report in reports] == ["completed", "completed"]
    assert sum(report.steps["drain"]["iterations"]["success"] for report in reports) == 30
    assert await jobs.acks() == list(range(1, 31))


async def test_a_worker_that_is_frozen_past_its_lease_in_a_step(servers: Addresses, jobs: Jobs) -> None:
    """Another claimer takes the rows meanwhile. What the frozen worker goes on with is refused."""
    await jobs.make(4)
    spec = f"max_in_flight: 2, frame: {{lease_seconds: {LEASE}}}, policy: {{failure: {{mode: best_effort}}}}"
    async with site() as web, asyncio.timeout(120), worker_of(servers) as worker:
        await web.answer_only(0)
        handle: RunHandle = await submit(servers, over_steps(jobs, spec, 'noop, input: {n: "{{ 1 }}"}', fetching(web)))
        await until(lambda: web.calls.total() >= 1)
        os.kill(worker.pid, signal.SIGSTOP)
        await until(lambda: has_expired_lease(jobs))
        taken_jobs = await jobs.change_owner()
        assert taken_jobs
        await web.answer_only(None)
        os.kill(worker.pid, signal.SIGCONT)
        report = await handle.result()
    counts = report.steps["drain"]["iterations"]
    assert (counts["failed"], counts["success"]) == (len(taken_jobs), 4 - len(taken_jobs))
    assert await jobs.acks() == [1, 2, 3, 4]
    assert {row for row, (status, _) in (await jobs.states()).items() if status == "other"} == set(taken_jobs)
