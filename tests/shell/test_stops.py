"""Stopping on the real server: no call is scheduled after the stop stands in the workflow's own history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from noetl_activities.tool import Request, ToolContext
from noetl_temporal.machine.failure_log import MAX_DETAILED
from tests.shell.conftest import Shell, history_of

CLEANUP = "  - step: end\n    tool: {kind: noop, message: clean}\n"
POLLS = """\
  - step: start
    tool:
      - name: poll
        kind: noop
        spec: {policy: {rules: [{when: "{{ true }}", then: {do: jump, to: poll}}]}}
"""
LOOPED_POLLS = POLLS.replace("start\n", "start\n    loop: {in: [1], iterator: n}\n")
PAGES = """\
  - step: start
    tool:
      - name: fetch
        kind: noop
        spec: {policy: {rules: [{when: "{{ true }}", then: {do: again, attempts: 100000}}]}}
"""
ROUNDS = """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: round}%s]}
  - step: round
    tool: {kind: noop, message: round}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: round, when: "{{ ctx.n < 60 }}"}, {step: end}]}
"""


class Calls:
    """Answers at once, and counts what it is asked for."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._changed = asyncio.Condition()

    async def __call__(self, request: Request, _context: ToolContext) -> Any:
        async with self._changed:
            self.messages.append(str(request.config.get("message", "")))
            self._changed.notify_all()
        return {"n": len(self.messages)}

    async def wait_for(self, count: int) -> None:
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: len(self.messages) >= count), 60)


def calls_after_the_stop(history: WorkflowHistory) -> list[str]:
    is_stopped, calls = False, list[str]()
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            is_stopped = True
        if is_stopped and event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            calls.append(event.activity_task_scheduled_event_attributes.activity_id)
    return calls


@pytest.mark.parametrize("workflow", [POLLS, PAGES, LOOPED_POLLS], ids=["poll", "pages", "loop"])
@pytest.mark.parametrize("events", [60, 100_000], ids=["short runs", "one run"])
async def test_a_cancel_is_not_lost(shell: Shell, monkeypatch: pytest.MonkeyPatch, workflow: str, events: int) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", events)
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await shell.submit(client, workflow + CLEANUP)
        await calls.wait_for(30)
        await handle.cancel()
        result = await handle.result()
    assert result.status == "cancelled"
    assert calls.messages[-1] == "clean"
    assert calls.messages.count("clean") == 1
    last = await client.temporal.get_workflow_handle(handle.workflow_id).fetch_history()
    assert calls_after_the_stop(last) == ["end#1:end_task:1"]


async def test_a_poll_ends_at_the_timeout_of_its_playbook(shell: Shell) -> None:
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await shell.submit(client, POLLS + CLEANUP, "executor: {spec: {timeout: 2s}}\n")
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, [failure.kind for failure in report.failures.detailed]) == ("failed", ["timeout"])
    assert calls.messages[-1] == "clean"


async def test_a_timer_blocks_no_continue_as_new(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await shell.submit(client, ROUNDS % "" + CLEANUP, "executor: {spec: {timeout: 1h}}\n")
        report = await asyncio.wait_for(handle.result(), 120)
        description = await handle.workflow.describe()
    assert report.status == "completed"
    assert calls.messages.count("round") == 60
    assert description.run_id != handle.workflow.first_execution_run_id


async def test_a_branch_that_waits_for_its_call_blocks_no_other(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    others = Calls()
    rounds_done = asyncio.Event()

    async def answer(request: Request, context: ToolContext) -> Any:
        if request.config.get("message") == "slow":
            await asyncio.wait_for(rounds_done.wait(), 100)
            return "slow"
        outcome = await others(request, context)
        if others.messages.count("round") == 60:
            rounds_done.set()
        return outcome

    slow = "  - step: slow\n    tool: {kind: noop, message: slow}\n"
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ROUNDS % ", {step: slow}" + slow + CLEANUP)
        report = await asyncio.wait_for(handle.result(), 120)
    assert report.status == "completed"


async def test_near_the_hard_limit_a_run_logs_that_it_waits(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.HARD_EVENTS", 90)
    others, release = Calls(), asyncio.Event()

    async def answer(request: Request, context: ToolContext) -> Any:
        if request.config.get("message") == "slow":
            await asyncio.wait_for(release.wait(), 100)
            return "slow"
        return await others(request, context)

    slow = "  - step: slow\n    tool: {kind: noop, message: slow}\n"
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ROUNDS % ", {step: slow}" + slow + CLEANUP)
        while not (await handle.workflow.query("state")).get("is_idling"):
            await asyncio.sleep(0.1)
        release.set()
        report = await asyncio.wait_for(handle.result(), 120)
        first_run = client.temporal.get_workflow_handle(
            handle.workflow_id, run_id=handle.workflow.first_execution_run_id
        )
        first = (await first_run.fetch_history()).events
    assert report.status == "completed"
    assert others.messages.count("round") == 60
    assert first[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


async def test_a_cancelled_loop_child_fails_its_step(shell: Shell) -> None:
    has_entered = asyncio.Event()

    async def answer(_request: Request, context: ToolContext) -> None:
        has_entered.set()
        while True:
            await asyncio.sleep(0.05)
            context.heartbeat()

    loop = "  - step: start\n    loop: {in: [1, 2], iterator: item}\n    tool: {kind: noop}\n"
    async with shell.client(answer) as client:
        handle = await shell.submit(client, loop)
        await asyncio.wait_for(has_entered.wait(), 30)
        await client.temporal.get_workflow_handle(f"{handle.workflow_id}/start/1").cancel()
        report = await asyncio.wait_for(handle.result(), 60)
    assert (report.status, report.failures.detailed[0].kind) == ("failed", "cancelled")


async def test_more_branches_than_temporal_takes_at_once(shell: Shell) -> None:
    names = [f"b{number}" for number in range(600)]
    arcs = ", ".join(f"{{step: {name}}}" for name in names)
    branches = "".join(f"  - step: {name}\n    tool: {{kind: noop}}\n" for name in names)
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await shell.submit(
            client, f"  - step: start\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n{branches}"
        )
        report = await asyncio.wait_for(handle.result(), 120)
    assert report.status == "completed"
    assert len(calls.messages) >= 600  # a loaded machine may lose an attempt


async def test_items_larger_than_one_message_are_sent_one_after_the_other(shell: Shell) -> None:
    loop = """\
  - step: start
    loop: {in: "{{ range(120) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 120}}
    tool: {kind: noop, message: "{{ 'x' * 40000 }}"}
"""
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await shell.submit(client, loop)
        report = await asyncio.wait_for(handle.result(), 120)
    assert report.status == "completed"
    assert len(calls.messages) >= 120


async def test_many_items_that_fail_before_any_call_lose_no_row(shell: Shell) -> None:
    loop = """\
  - step: start
    loop: {in: "{{ range(3000) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 100}}
    tool: {kind: noop, message: "{{ nothing }}"}
"""
    async with shell.client(Calls()) as client:
        handle = await shell.submit(client, loop)
        report = await asyncio.wait_for(handle.result(), 120)
    assert report.status == "failed"
    assert (report.failures.total, len(report.failures.detailed)) == (3000, 2 * MAX_DETAILED)


async def test_a_where_over_many_items_is_asked_in_several_workflow_tasks(shell: Shell) -> None:
    loop = """\
  - step: start
    loop: {in: "{{ range(60000) | list }}", iterator: item, where: "{{ item % 20000 == 0 }}"}
    tool: {kind: noop}
"""
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await shell.submit(client, loop)
        report = await asyncio.wait_for(handle.result(), 120)
        history = await history_of(handle)
    assert report.status == "completed"
    assert len(calls.messages) == 3
    assert any(event.event_type == EventType.EVENT_TYPE_TIMER_FIRED for event in history.events)
