"""Whole runs on Temporal: results, failures, retries, loops, cancellation, and what history shows of them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import msgspec
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import RunHandle
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.messages.packed_trail import from_payload, unpack
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.naming import TRAIL
from noetl_temporal.submission.unsupported import UnsupportedError

from .conftest import HEAD, Shell, history_of

RETRYING = """
  - step: start
    tool:
      kind: noop
      spec: {policy: {rules: [{when: "{{ output.error.retryable }}", then: {do: retry, attempts: 4, delay: 0.05}}]}}
"""

TWO_STEPS = """
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop}
"""


def busy() -> Outcome:
    return Outcome("error", error=ErrorInfo("http", "busy", "HTTP_503", retryable=True, status=503))


async def activities(handle: RunHandle) -> list[Any]:
    """(scheduled, closed) of every activity."""
    events = {event.event_id: event for event in (await history_of(handle)).events}
    completed_events = [
        event for event in events.values() if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
    ]
    return [
        (events[event.activity_task_completed_event_attributes.scheduled_event_id], event) for event in completed_events
    ]


def report(completion: Any) -> ToolReport:
    data = completion.activity_task_completed_event_attributes.result.payloads[0].data
    return msgspec.json.decode(data, type=ToolReport)


async def test_a_playbook_runs_and_its_result_comes_back(shell: Shell) -> None:
    async with shell.client(lambda request, _context: request.config["message"]) as client:
        text = '  - step: start\n    tool: {kind: noop, message: "hello {{ workload.who }}"}\n'
        handle = await shell.submit(client, text, who="you")
        report = await handle.result()
    assert (report.status, report.result) == ("completed", "hello you")
    assert report.steps["start"]["status"] == "completed"
    description = await handle.workflow.describe()
    pairs: list[Any] = list(description.typed_search_attributes)
    values = {pair.key.name: pair.value for pair in pairs}
    assert values["NoetlPath"] == "tests/shell"
    assert values["NoetlStatus"] == "completed"
    assert values["NoetlExecutionId"] == handle.execution_id
    assert await description.static_summary() == "tests/shell"


async def test_rules_see_null_where_the_log_has_null(shell: Shell) -> None:
    """NaN was a number for the rules and sinks of its call, and null everywhere else."""
    rules = """[{when: "{{ output.data.n is none }}", then: {do: fail, message: "no number"}}]"""
    text = f"  - step: start\n    tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n"
    async with shell.client(lambda _request, _context: {"n": math.nan}) as client:
        handle = await shell.submit(client, text)
        assert "no number" in str(await handle.result())
    [(_, completion)] = await activities(handle)
    assert report(completion).outcome["meta"]["warning"].startswith("a number of the result is NaN or infinite")


async def test_a_failed_playbook_fails_its_workflow_with_the_place(shell: Shell) -> None:
    async with shell.client(lambda _request, _context: busy()) as client:
        handle = await shell.submit(client, "  - step: start\n    tool: {kind: noop}\n")
        result = await handle.result()
    assert result.status == "failed"
    assert [(failure.step, failure.line) for failure in result.failures.detailed] == [("start", 6)]
    last = (await history_of(handle)).events[-1]
    failure = last.workflow_execution_failed_event_attributes.failure
    assert failure.message == "shell.yaml:6:11: step 'start' failed: busy"
    assert failure.stack_trace == "", "it would show the SDK"
    assert failure.application_failure_info.type == "PlaybookFailed"


async def test_every_attempt_is_in_the_report_of_one_activity(shell: Shell) -> None:
    def answer(_request: Request, context: ToolContext) -> Any:
        return busy() if context.attempt < 3 else "at last"

    async with shell.client(answer) as client:
        handle = await shell.submit(client, RETRYING)
        result = await handle.result()
    assert (result.result, result.steps["start"]["attempts"]) == ("at last", 3)
    [(schedule, completion)] = await activities(handle)
    attempts = report(completion).attempts
    assert [attempt.status for attempt in attempts] == ["error", "error", "ok"]
    assert [attempt.delay for attempt in attempts] == [0.05, 0.05, None]
    assert [attempt.rule for attempt in attempts] == [0, 0, None]
    assert schedule.user_metadata.summary.data == b'"start [noop]"'


async def test_attempts_end_with_the_last_error(shell: Shell) -> None:
    async with shell.client(lambda _request, _context: busy()) as client:
        handle = await shell.submit(client, RETRYING)
        result = await handle.result()
    assert result.status == "failed"
    [(_, completion)] = await activities(handle)
    assert report(completion).exhausted
    assert len(report(completion).attempts) == 4


async def test_a_tool_that_raises_fails_its_task_not_the_worker(shell: Shell) -> None:
    def answer(request: Request, _context: ToolContext) -> Any:
        if request.config["message"] == 1:
            raise ConfigError("a url is missing")
        raise ZeroDivisionError("oops")

    text = '  - step: start\n    tool: {kind: noop, message: "{{ workload.n }}"}\n'
    async with shell.client(answer) as client:
        first = await (await shell.submit(client, text, n=1)).result()
        second = await (await shell.submit(client, text, n=2)).result()
    assert [
        (failure.failures.detailed[0].kind, failure.failures.detailed[0].message) for failure in (first, second)
    ] == [
        ("config", "a url is missing"),
        ("internal", "ZeroDivisionError: oops"),
    ]


async def test_a_timeout_is_an_error_outcome(shell: Shell) -> None:
    async def answer(_request: Request, _context: ToolContext) -> None:
        await asyncio.sleep(30)

    async with shell.client(answer) as client:
        handle = await shell.submit(client, "  - step: start\n    tool: {kind: noop, spec: {timeout: 0.2}}\n")
        result = await handle.result()
    assert result.failures.detailed[0].kind == "timeout"


async def test_secrets_never_leave_the_activity(shell: Shell) -> None:
    async def answer(request: Request, context: ToolContext) -> Any:
        credential = await context.credential(request.auth)
        return {"echo": f"Bearer {credential['token']}"}

    async with shell.client(answer) as client:
        handle = await shell.submit(client, "  - step: start\n    tool: {kind: noop, auth: secret}\n")
        result = await handle.result()
    assert result.result == {"echo": "Bearer ***"}
    assert "hush-hush" not in (await history_of(handle)).to_json()
    assert "Bearer ***" in str(log := await log_of(handle, result))
    assert "hush-hush" not in str(log)


async def log_of(handle: RunHandle, report: RunReport) -> list[dict[str, Any]]:
    """The domain events that history carries of a completed run."""
    logged_events: list[dict[str, Any]] = []
    for event in (await history_of(handle)).events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            logged_events += unpack(from_payload(event.activity_task_scheduled_event_attributes.header.fields[TRAIL]))
    assert report.trail is not None
    return [*logged_events, *unpack(report.trail)]


LOOP = """
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: noop, message: "{{ iter.item }}"}
"""


async def test_a_loop_runs_in_a_child_workflow_within_its_bound(shell: Shell) -> None:
    running: list[int] = []
    max_running: list[int] = []

    async def answer(request: Request, _context: ToolContext) -> Any:
        running.append(1)
        max_running.append(len(running))
        await asyncio.sleep(0.02)
        running.pop()
        return request.config["message"]

    async with shell.client(answer) as client:
        handle = await shell.submit(client, LOOP, "workload: {items: []}\n", items=list(range(20)))
        result = await handle.result()
    assert result.result["results"] == list(range(20))
    assert max(max_running) <= 4
    assert result.steps["start"]["attempts"] == 20
    assert _children(await history_of(handle)) == [f"{handle.workflow_id}/start/1"]


async def test_a_chunk_with_a_long_history_returns_items_that_have_not_begun(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    calls: list[Any] = []

    def answer(request: Request, _context: ToolContext) -> Any:
        calls.append(request.config["message"])
        return calls[-1]

    async with shell.client(answer) as client:
        handle = await shell.submit(client, LOOP, "workload: {items: []}\n", items=list(range(50)))
        result = await handle.result()
        children = _children(await history_of(handle))
        runs = [await client.temporal.get_workflow_handle(id_).describe() for id_ in children]
    assert result.result["results"] == list(range(50))
    assert set(calls) == set(range(50))
    assert len(children) > 2
    assert all(run.raw_description.workflow_execution_info.first_run_id == run.run_id for run in runs)


async def test_a_single_item_with_many_calls_continues_as_new(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 40)
    pages = """\
  - step: start
    loop: {in: [1, 2], iterator: item, spec: {mode: sequential}}
    tool:
      - name: fetch
        kind: noop
        spec: {policy: {rules: [{when: "{{ output.data % 30 != 0 }}", then: {do: jump, to: fetch}}]}}
"""
    calls: list[int] = []

    def answer(_request: Request, _context: ToolContext) -> int:
        calls.append(1)
        return len(calls)

    async with shell.client(answer) as client:
        handle = await shell.submit(client, pages)
        result = await handle.result()
        first = client.temporal.get_workflow_handle(_children(await history_of(handle))[0])
        execution_info = (await first.describe()).raw_description.workflow_execution_info
    assert result.status == "completed"
    assert execution_info.first_run_id != execution_info.execution.run_id


async def test_a_loop_larger_than_a_chunk_is_whole_and_in_order(shell: Shell) -> None:
    loop = """\
  - step: start
    loop: {in: "{{ range(900) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 60}}
    tool: {kind: noop, message: "{{ iter.item }}"}
"""
    async with shell.client(lambda request, _context: request.config["message"]) as client:
        handle = await shell.submit(client, loop)
        result = await handle.result()
        children = _children(await history_of(handle))
    assert result.result["results"] == list(range(900))
    assert len(children) >= 4


def _children(history: WorkflowHistory) -> list[str]:
    children = (event.start_child_workflow_execution_initiated_event_attributes for event in history.events)
    return [workflow.workflow_id for workflow in children if workflow.workflow_id]


async def test_cancelling_ends_the_run_and_what_it_runs(shell: Shell) -> None:
    has_entered = asyncio.Event()
    was_cancelled = asyncio.Event()

    async def answer(_request: Request, context: ToolContext) -> None:
        has_entered.set()
        try:
            while True:
                await asyncio.sleep(0.05)
                context.heartbeat()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    async with shell.client(answer) as client:
        handle = await shell.submit(client, TWO_STEPS)
        await asyncio.wait_for(has_entered.wait(), 30)
        await handle.cancel()
        result = await handle.result()
    assert result.status == "cancelled"
    assert was_cancelled.is_set()
    events = (await history_of(handle)).events
    memos = [e for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED]
    memo = memos[-1].workflow_properties_modified_event_attributes.upserted_memo
    trail = unpack(from_payload(memo.fields[TRAIL]))
    assert [event["type"] for event in trail][-1] == "playbook.cancelled"


async def test_the_log_is_in_headers_complete_and_in_order(shell: Shell) -> None:
    async with shell.client(lambda _request, _context: 1) as client:
        handle = await shell.submit(client, TWO_STEPS)
        result = await handle.result()
    types = [event["type"] for event in await log_of(handle, result)]
    assert types[:4] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "playbook.started",
        "workflow.started",
    ]
    assert types[-2:] == ["workflow.finished", "playbook.completed"]
    assert types.count("step.started") == 3


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("tool: {kind: http, url: 'http://x'}", "x.yaml:6:11: error: there is no tool 'http' here: the tools are noop"),
        (
            "loop: {cursor: {kind: mysql, auth: pg, claim: select 1}, iterator: row}\n    tool: {kind: noop}",
            (
                "x.yaml:6:11: error: a cursor claims rows of postgres only: "
                "write kind: postgres, or read the rows in a step and loop over them"
            ),
        ),
    ],
)
async def test_unsupported_playbooks_are_refused_before_anything_starts(shell: Shell, step: str, problem: str) -> None:
    graph = compile_or_raise(f"{HEAD}workflow:\n  - step: start\n    {step}\n", "x.yaml")
    async with shell.client(lambda _request, _context: 1) as client:
        with pytest.raises(UnsupportedError) as failure:
            await client.submit(graph)
    assert failure.value.problems == [problem]
