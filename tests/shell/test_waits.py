"""Waits on the real server: signals and decisions reach them, and nothing that is accepted is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, Interceptor, OutboundInterceptor, StartWorkflowUpdateInput
from temporalio.service import RPCError, RPCStatusCode

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.cli.describe_run import steps_from_log
from noetl_temporal.cli.event_log import log_connection
from noetl_temporal.client import NoetlClient
from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.waits.wait import Wait
from noetl_temporal.mirror.read import steps_of
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.runs import RequestRefusedError, RunHandle, RunOverError
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from noetl_temporal.workflows import workflow_host
from tests.shell.conftest import Shell

from .worker_process import worker_process

PAID = "  - step: start\n    tool: {kind: wait, signal: paid, timeout: 1h}\n"
TWO_WAITS = f"{PAID}    next: {{arcs: [{{step: again}}]}}\n" + PAID.replace("start", "again")
REVIEW = """\
  - step: start
    tool: {kind: approval, message: Pay it?, form: {amount: number}}
    next:
      arcs: [{step: pay, when: "{{ output.data.approved }}"}, {step: end}]
  - {step: pay, tool: {kind: noop}}
"""
ROUNDS = """\
  - step: start
    tool: {kind: wait, signal: go}
    next: {spec: {mode: inclusive}, arcs: [{step: round}]}
  - step: round
    tool: {kind: noop, message: round}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: round, when: "{{ ctx.n < 60 }}"}, {step: collect}]}
  - step: collect
    tool: {kind: wait, signal: paid}
    set: {ctx.paid: "{{ (ctx.paid | default([])) + [output.data] }}"}
    next: {arcs: [{step: collect, when: "{{ ctx.paid | length < 5 }}"}, {step: last}]}
  - {step: last, tool: {kind: noop, message: "{{ ctx.paid }}"}}
"""
ITEMS = """\
  - step: start
    loop: {in: [a, b, c], iterator: name, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: wait, signal: paid, key: "{{ name }}"}
"""


def answer(request: Request, _context: ToolContext) -> Any:
    return request.config.get("message")


async def until(handle: RunHandle, holds: Callable[[list[Wait]], bool]) -> list[Wait]:
    async with asyncio.timeout(20):
        while not holds(waits := await handle.waits()):
            await asyncio.sleep(0.05)
    return waits


async def waits_for(handle: RunHandle, *names: str) -> list[Wait]:
    return await until(handle, lambda waits: sorted(wait.name for wait in waits) == sorted(names))


@pytest.mark.parametrize("workflow", [PAID, ITEMS], ids=["a step", "items of a loop"])
async def test_a_step_that_waits_is_waiting_by_its_log(servers: Addresses, shell: Shell, workflow: str) -> None:
    async with shell.client(answer) as client, mirroring(client.temporal, servers.postgres):
        handle = await shell.submit(client, workflow)
        assert await step_by_log(servers, handle, "waiting")
        for key in ("a", "b", "c") if workflow == ITEMS else (None,):
            await handle.signal("paid", key=key)
        assert await step_by_log(servers, handle, "completed")


async def step_by_log(servers: Addresses, handle: RunHandle, status: str) -> bool:
    """Return when the step has this status."""
    async with asyncio.timeout(30):
        while True:
            async with log_connection(servers.postgres) as connection:
                steps = steps_from_log(await steps_of(connection, handle.execution_id), "running")
            if steps.get("start", {}).get("status") == status:
                return True
            await asyncio.sleep(0.05)


async def test_a_signal_ends_a_wait(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, PAID)
        await waits_for(handle, "start")
        with pytest.raises(RequestRefusedError, match="no step waits for the signal 'pade': its signals are paid"):
            await handle.signal("pade")
        await handle.signal("paid", {"amount": 3})
        report = await asyncio.wait_for(handle.result(), 30)
        with pytest.raises(RequestRefusedError, match="the run has ended"):
            await handle.signal("paid")
    assert (report.status, report.result) == ("completed", {"amount": 3})


async def test_of_two_approvals_at_once_one_is_refused(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, REVIEW)
        await waits_for(handle, "start")
        with pytest.raises(RequestRefusedError, match="no approval 'pay' is open; these are: start"):
            await handle.approve("pay", by="ann")
        with pytest.raises(RequestRefusedError, match=r"form\.amount must be a number"):
            await handle.approve(by="ann", form={"amount": "much"})
        decisions = await asyncio.gather(
            handle.approve(by="ann", form={"amount": 3}), handle.reject(by="bob"), return_exceptions=True
        )
        report = await asyncio.wait_for(handle.result(), 30)
    refusals = [decision for decision in decisions if isinstance(decision, BaseException)]
    assert len(refusals) == 1
    assert isinstance(refusals[0], RequestRefusedError)
    assert report.status == "completed"


async def test_a_run_that_waits_outlives_its_worker(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, REVIEW)
        await waits_for(handle, "start")
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(shell.address, tools=tools)
    async with serving(client.temporal, tools, shell.credentials):
        handle = await client.find(handle.execution_id)
        await handle.approve(by="ann")
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, report.steps["pay"]["status"]) == ("completed", "completed")


async def test_a_run_that_waits_outlives_the_kill_of_its_worker(servers: Addresses) -> None:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres)
    async with worker_process(servers.temporal, servers.postgres) as first:
        handle = await Shell.submit(
            client, ITEMS + "    next: {arcs: [{step: review}]}\n" + REVIEW.replace("start", "review")
        )
        await waits_for(handle, "start[0]", "start[1]", "start[2]")
        await handle.signal("paid", 1, key="a")
        first.kill()
        await first.wait_for_exit()
    async with worker_process(servers.temporal, servers.postgres):
        await handle.signal("paid", 2, key="b")
        await handle.signal("paid", 3, key="c")
        await waits_for(handle, "review")
        await handle.approve(by="ann", form={"amount": 6})
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, report.steps["pay"]["status"]) == ("completed", "completed")


async def test_kept_signals_survive_continue_as_new(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ROUNDS)
        await waits_for(handle, "start")
        request = new_execution_id()
        for number in range(4):
            await handle.signal("paid", number, id=request if number == 0 else None)
        await handle.signal("go")
        await waits_for(handle, "collect")
        await handle.signal("paid", 0, id=request)  # repeated, in another run of the workflow
        await handle.signal("paid", 4)
        report = await asyncio.wait_for(handle.result(), 60)
        description = await handle.workflow.describe()
    assert description.run_id != handle.workflow.first_execution_run_id
    assert (report.status, report.result) == ("completed", [0, 1, 2, 3, 4])


async def test_a_cancel_ends_waits_at_once(shell: Shell) -> None:
    async with shell.client(answer) as client:
        for workflow in (PAID, REVIEW, ITEMS):
            handle = await shell.submit(client, workflow)
            await until(handle, bool)
            await handle.cancel("enough")
            report = await asyncio.wait_for(handle.result(), 30)
            assert report.status == "cancelled"


@pytest.mark.parametrize("events", [20, 100_000], ids=["short runs", "one run"])
async def test_items_of_a_loop_are_handed_their_signals(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", events)
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ITEMS)
        await handle.signal("paid", "for b", key="b")  # before the loop has begun
        await until(handle, lambda waits: {wait.key for wait in waits} == {"a", "c"})
        await handle.signal("paid", "for c", key="c")
        await waits_for(handle, "start[0]")
        await handle.signal("paid", "for whom")
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, report.result["results"]) == ("completed", ["for whom", "for b", "for c"])


async def test_a_request_that_no_run_could_read_is_refused(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, PAID)
        unreadable: list[tuple[Callable[[], Awaitable[Any]], str]] = [
            (lambda: handle.signal("paid", "\ud800"), "not Unicode"),
            (lambda: handle.signal("paid", cast("str", object())), "type object is unsupported"),
            (lambda: handle.signal("paid", key=cast("str", 7)), r"Expected `str \| null`, got `int`"),
            (lambda: handle.signal("paid", key="k" * 1001), "at most 1,000 are allowed"),
            (lambda: handle.pause(by="a" * 201), "at most 200 are allowed"),
            (lambda: handle.pause(reason="r" * 4001), "at most 4,000 are allowed"),
            (lambda: handle.cancel("\ud800"), "not Unicode"),
            (lambda: handle.terminate("r" * 4001), "at most 4,000 are allowed"),
        ]
        for request, why in unreadable:
            with pytest.raises(RequestRefusedError, match=why):
                await request()
        await handle.signal("paid")
        assert (await handle.result()).status == "completed"
        stops: list[Callable[[], Awaitable[Any]]] = [handle.cancel, handle.terminate]
        for late_signal in stops:
            with pytest.raises(RunOverError):
                await late_signal()
        await remove(client.temporal, handle)
        for late_signal in [*stops, handle.suspensions, lambda: handle.approve(by="ann")]:
            with pytest.raises(RunOverError):
                await late_signal()


async def remove(client: Client, handle: RunHandle) -> None:
    run = WorkflowExecution(workflow_id=handle.workflow_id)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=run)
    await client.workflow_service.delete_workflow_execution(request)
    with suppress(RPCError):
        while await handle.workflow.describe():
            await asyncio.sleep(0.1)


async def test_signals_without_a_key_go_to_the_oldest_item_first(shell: Shell) -> None:
    workflow = """\
  - step: start
    loop: {in: [0, 1, 2, 3, 4, 5, 6, 7], iterator: n, spec: {mode: parallel}}
    tool: {kind: wait, signal: paid}
"""
    async with shell.client(answer) as client:
        handle = await shell.submit(client, workflow)
        await until(handle, lambda waits: len(waits) == 8)
        assert [wait.iteration for wait in await handle.waits()] == list(range(8))
        for number in range(8):
            await handle.signal("paid", number)
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.result["results"] == list(range(8))


async def test_an_item_that_times_out_gives_no_signal_away(shell: Shell) -> None:
    timed_items = ITEMS.replace('"{{ name }}"}', '"{{ name }}", timeout: 300ms}')
    again = "    next: {arcs: [{step: again, when: \"{{ event.name == 'loop.failed' }}\"}]}\n"
    async with shell.client(answer) as client:
        workflow = timed_items + again + "  - {step: again, tool: {kind: wait, signal: paid}}\n"
        handle = await shell.submit(client, workflow)
        await waits_for(handle, "again")
        await handle.signal("paid", "late", key="a")
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, report.result) == ("completed", "late")


async def test_a_retry_waits_until_somebody_has_fixed_it(shell: Shell) -> None:
    calls: list[int] = []

    def failing(_request: Request, _context: ToolContext) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("broken")
        return "mended"

    rule = "{when: \"{{ output.status == 'error' }}\", then: {do: retry, wait_for: fixed, timeout: 10m}}"
    async with shell.client(failing) as client:
        handle = await shell.submit(
            client, f"  - step: start\n    tool: {{kind: noop, spec: {{policy: {{rules: [{rule}]}}}}}}\n"
        )
        await waits_for(handle, "start")
        await handle.signal("fixed")
        report = await asyncio.wait_for(handle.result(), 30)
    assert (report.status, report.result, len(calls)) == ("completed", "mended", 2)


class Aborting(OutboundInterceptor):
    """Stands for a server that aborts the first requests of each id, as Temporal does where many come at once. The run
    has had them.
    """

    async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> Any:  # noqa: A002 - the SDK's name
        handle = await super().start_workflow_update(input)
        if input.update_id not in aborted_updates:
            aborted_updates.add(input.update_id)
            raise RPCError("workflow update was aborted", RPCStatusCode.UNAVAILABLE, b"")
        return handle


class Aborts(Interceptor):
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 - the SDK's name
        return Aborting(next)


aborted_updates: set[str | None] = set()


async def test_a_request_that_the_server_aborts_is_sent_again_and_counts_once(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, TWO_WAITS)
        await waits_for(handle, "start")
        config = client.temporal.config()
        config["interceptors"] = [*config["interceptors"], Aborts()]
        aborting = NoetlClient(Client(**config), None, {"noop"})
        through = await aborting.find(handle.execution_id)
        await through.signal("paid", 1)
        await waits_for(handle, "again")
        await through.signal("paid", 2)
        report = await asyncio.wait_for(handle.result(), 30)
    assert len(aborted_updates) == 2
    assert (report.status, report.result) == ("completed", 2)


async def test_a_run_that_gets_many_requests_continues_as_new_between_chunks(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal refuses the requests to one run after 2,000: the loop would wait for ever."""
    monkeypatch.setattr(chunks, "WHOLE_ITEMS", 4)
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 3)
    monkeypatch.setattr(workflow_host, "HARD_REQUESTS", 4)
    numbers = list(range(12))
    loop = f"  - step: start\n    loop: {{in: {numbers}, iterator: n}}\n    tool: {{kind: wait, signal: paid}}\n"
    async with shell.client(answer) as client:
        handle = await shell.submit(client, loop)
        first = (await handle.workflow.describe()).run_id
        for number in numbers:
            await waits_for(handle, f"start[{number}]")
            await handle.signal("paid", number)
        report = await asyncio.wait_for(handle.result(), 30)
        last = (await client.temporal.get_workflow_handle(handle.workflow_id).describe()).run_id
    assert report.result["results"] == numbers
    assert first != last
