"""A framed loop gives what the same loop gives unframed: the result, and the rows of the log but for ids and times."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import asyncpg
import msgspec
import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.messages.frame import FRAME_ACTIVITY
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads import payload_store
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import frame_worker, tool_worker, workflow_worker
from tests.audit import audit_execution
from tests.shell.conftest import Shell, history_of
from tests.shell.servers import proxy_to

TASK = "tool: {kind: noop, input: {n: '{{ item }}'}}"
RETRY = "{when: '{{ output.status == \"error\" }}', then: {do: retry, attempts: 3, delay: 0.01}}"


def policy(*rules: str) -> str:
    return f"tool: {{kind: noop, input: {{n: '{{{{ item }}}}'}}, spec: {{policy: {{rules: [{', '.join(rules)}]}}}}}}"


def fails(request: Request, attempt: int) -> Any:
    """3 fails always, 4 twice."""
    n = request.input["n"]
    failing = n == 3 or (n == 4 and attempt < 3)
    return Outcome("error", error=ErrorInfo("http", "busy", retryable=True)) if failing else {"n": n}


TOLERANT = "policy: {failure: {mode: best_effort}}"
PIPELINE = """tool:
      - first:
          kind: noop
          input: {n: "{{ item }}"}
          spec: {policy: {rules: [{when: "{{ item > 4 }}", then: {do: break}}, {else: {then: {do: continue}}}]}}
      - second: {kind: noop, input: {n: "{{ item }}"}}"""

CASES = {
    "plain": (TASK, ""),
    "sequential": (TASK, "mode: sequential"),
    "failing": (policy(RETRY), ""),
    "best effort": (policy(RETRY), TOLERANT),
    "retries": (policy(RETRY, "{else: {then: {do: continue}}}"), ""),
    "a delay that is not short": (policy(RETRY.replace("0.01", "1.2")), TOLERANT),
    "set": (
        policy("{else: {then: {do: continue, set: {ctx.last: '{{ item }}'}}}}"),
        TOLERANT,
    ),
    "break": (PIPELINE, ""),
    "a circuit breaker": (
        TASK[:-1] + ", spec: {policy: {circuit: {failures: 1}, on_unmatched: fail}}}",
        f"mode: sequential, {TOLERANT}",
    ),
    "pages": (
        policy(
            "{when: '{{ output.status == \"ok\" and page < 3 }}', then: {do: again, delay: 0.01}}",
            "{else: {then: {do: continue}}}",
        ),
        "",
    ),
    "chunks": (TASK, "mode: chunked, chunk_size: 3"),
}


class Run(NamedTuple):
    status: str
    result: Any
    failures: list[Any]
    rows: Counter[str]
    calls: Counter[str]


async def run(shell: Shell, client: NoetlClient, dsn: str, calls: Counter[str], step: str) -> Run:
    calls.clear()
    handle = await shell.submit(client, step)
    try:
        report = await handle.result()
    finally:
        await follow_execution(client.temporal, dsn, handle.workflow.id)
    rows = await rows_of(dsn, handle.execution_id)
    assert await audit_execution(dsn, handle.execution_id) == []
    failures = [msgspec.structs.replace(failure, line=0, col=0) for failure in report.failures.detailed]
    return Run(report.status, report.result, failures, rows, Counter(calls))


async def rows_of(dsn: str, execution_id: int) -> Counter[str]:
    """The rows without what no two runs have in common."""
    connection = await asyncpg.connect(dsn)
    try:
        records = await connection.fetch("SELECT * FROM noetl.event WHERE execution_id = $1", execution_id)
    finally:
        await connection.close()
    return Counter(_plain(dict(record), execution_id) for record in records)


def _plain(row: dict[str, Any], execution_id: int) -> str:
    fields = {
        name: row[name] for name in ("event_type", "node_name", "node_type", "status", "context", "result", "error")
    }
    meta = msgspec.json.decode(row["meta"]) if isinstance(row["meta"], str) else dict(row["meta"])
    for name in ("temporal", "execution", "ends", "source"):
        meta.pop(name, None)
    text = msgspec.json.encode({**fields, "meta": meta}, order="sorted").decode()
    text = text.replace(str(execution_id), "EXECUTION")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return re.sub(r"\b\d{17,19}\b", "ID", text)


@pytest.mark.parametrize("frame", ["row_concurrency: 3", "row_concurrency: 1, max_rows: 2"])
@pytest.mark.parametrize("case", CASES)
async def test_a_framed_loop_is_the_same_loop(
    case: str, frame: str, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    task, spec = CASES[case]
    calls: Counter[str] = Counter()

    def answer(request: Request, context: ToolContext) -> Any:
        calls[str(request.input["n"])] += 1
        return fails(request, context.attempt)

    mode = "" if "mode: s" in spec or "mode: c" in spec else "mode: parallel, max_in_flight: 3, "
    step = (
        f'  - step: many\n    loop: {{in: "{{{{ range(8) | list }}}}", iterator: item, spec: {{{mode}{spec}}}}}\n'
        f"    {task}\n    next: {{arcs: [{{step: after}}]}}\n"
        '  - step: after\n    tool: {kind: noop, input: {n: "{{ ctx.last | default(0) }}"}}\n'
    )
    shell = Shell(servers.temporal)
    async with shell.client(answer) as client:
        unframed_run = await run(shell, client, servers.postgres, calls, step)
        framed_step = step.replace("spec: {", f"spec: {{frame: {{{frame}}}, ", 1)
        framed_run = await run(shell, client, servers.postgres, calls, framed_step)
    assert (framed_run.status, framed_run.result, framed_run.failures) == (
        unframed_run.status,
        unframed_run.result,
        unframed_run.failures,
    )
    assert framed_run.calls == unframed_run.calls
    assert framed_run.rows.total() > 30
    assert framed_run.rows - unframed_run.rows == Counter()
    assert unframed_run.rows - framed_run.rows == Counter()


async def test_a_frame_is_one_activity(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    shell = Shell(servers.temporal)
    step = (
        '  - step: many\n    loop: {in: "{{ range(300) | list }}", iterator: item, spec: {mode: parallel, frame: {}}}\n'
        f"    {TASK}\n"
    )
    async with shell.client(lambda _request, _context: 1) as client:
        handle = await shell.submit(client, step)
        assert (await handle.result()).status == "completed"
        assert await scheduled_in(handle) == [FRAME_ACTIVITY]


async def scheduled_in(handle: RunHandle) -> list[str]:
    """The types of the activities of a run, in order."""
    history = await history_of(handle)
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


async def test_a_cancelled_run_ends_its_frame_and_logs_it(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    shell, waiting, never = Shell(servers.temporal), asyncio.Event(), asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        if request.input["n"] == 5:
            waiting.set()
            await never.wait()
        return 1

    step = (
        '  - step: many\n    loop: {in: "{{ range(9) | list }}", iterator: item, spec: {frame: {}}}\n'
        f"    {TASK}\n"
    )
    async with shell.client(answer) as client:
        handle = await shell.submit(client, step)
        await waiting.wait()
        await handle.workflow.cancel()
        assert (await handle.result()).status == "cancelled"
        await follow_execution(client.temporal, servers.postgres, handle.workflow.id)
    rows = await rows_of(servers.postgres, handle.execution_id)
    types = Counter(msgspec.json.decode(row)["event_type"] for row in rows.elements())
    assert (types["loop.iteration.done"], types["loop.iteration.cancelled"], types["task.cancelled"]) == (5, 1, 1)
    assert await audit_execution(servers.postgres, handle.execution_id) == []


async def test_a_framed_loop_runs_without_frames_where_nothing_can_be_stored(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOETL_POSTGRES", raising=False)
    shell = Shell(servers.temporal)
    step = f"  - step: many\n    loop: {{in: [1, 2], iterator: item, frame: {{}}}}\n    {TASK}\n"
    async with shell.client(lambda request, _context: request.input["n"]) as client:
        handle = await shell.submit(client, step)
        report = await handle.wait()
        warnings = [event.error async for event in handle.events() if event.event_type == "warning"]
    assert report.status == "completed"
    assert report.result["results"] == [1, 2]
    [warning] = warnings
    assert "submitted without NOETL_POSTGRES" in str(warning)


async def test_a_worker_that_stops_leaves_its_items_to_another(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    waiting, let_go, calls = asyncio.Event(), asyncio.Event(), Counter[int]()

    async def answer(request: Request, _context: ToolContext) -> Any:
        calls[request.input["n"]] += 1
        if request.input["n"] == 5:
            waiting.set()
            await let_go.wait()
        return request.input["n"]

    step = (
        '  - step: many\n    loop: {in: "{{ range(20) | list }}", iterator: item, spec: {frame: {}}}\n'
        f"    {TASK}\n    next: {{arcs: [{{step: last}}]}}\n"
        "  - step: last\n    tool: {kind: noop, input: {n: 99}}\n"
    )
    shell, tools = Shell(servers.temporal), {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, tools=tools)
    other = await NoetlClient.connect(servers.temporal, tools=tools)  # the SDK has one worker of a queue for a client
    source = shell.credentials
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        await stack.enter_async_context(workflow_worker(client.temporal))
        await stack.enter_async_context(tool_worker(client.temporal, tools["noop"], source))
        first = await stack.enter_async_context(frame_worker(client.temporal, tools, source))
        handle = await shell.submit(client, step)
        await waiting.wait()
        stopping = asyncio.create_task(first.shutdown())
        await stack.enter_async_context(frame_worker(other.temporal, tools, source))
        let_go.set()
        await stopping
        assert (await handle.result()).status == "completed"
        await follow_execution(client.temporal, servers.postgres, handle.workflow.id)
    assert calls == {**dict.fromkeys(range(20), 1), 99: 1}
    history = await history_of(handle)
    frames = [
        event
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == FRAME_ACTIVITY
    ]
    assert len(frames) == 2
    assert await audit_execution(servers.postgres, handle.execution_id) == []


async def test_a_frame_with_missing_items_is_a_lost_loop(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    """The items are removed before a worker takes the frame, and no process remembers them."""
    monkeypatch.setattr(payload_store, "CACHE_BYTES", 0)
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    shell, tools = Shell(servers.temporal), {"noop": FakeTool("noop", lambda _request, _context: 1)}
    client = await NoetlClient.connect(servers.temporal, tools=tools)
    step = (
        f'  - step: many\n    loop: {{in: "{{{{ workload.items }}}}", iterator: item, spec: {{frame: {{}}}}}}\n'
        f"    {TASK}\n"
    )
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        await stack.enter_async_context(workflow_worker(client.temporal))
        handle = await shell.submit(client, step, "workload: {items: []}\n", items=["x" * 50_000, "y" * 50_000])
        while await scheduled_in(handle) != [FRAME_ACTIVITY]:
            await asyncio.sleep(0.05)
        key = await items_of_frame(handle)
        connection = await asyncpg.connect(servers.postgres)
        assert await connection.execute("DELETE FROM noetl.payload WHERE key = $1", key) == "DELETE 1"
        await connection.close()
        await stack.enter_async_context(frame_worker(client.temporal, tools, shell.credentials))
        report = await handle.result()
    assert report.status == "failed"
    [failure] = report.failures.detailed
    assert failure.kind == "loop_lost"
    assert failure.message.startswith("the loop's frame: ")
    assert key in failure.message


async def items_of_frame(handle: RunHandle) -> str:
    """The key under which the items of a run's only frame lie."""
    history = await history_of(handle)
    [scheduled_attributes] = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    key: str = msgspec.json.decode(scheduled_attributes.input.payloads[0].data)["input"]["stored_items"]["key"]
    return key


async def test_a_frame_whose_input_cannot_be_read_yet_waits_for_the_store(servers: Addresses) -> None:
    """The worker of frames is cut off from the store before it gets an input over 64 KB."""
    tools = {"noop": FakeTool("noop", lambda _request, _context: 1)}
    source = CredentialSource(environment={})
    frame = "loop: {in: '{{ range(3) | list }}', iterator: item, spec: {frame: {}}}"
    step = f"  - step: many\n    {frame}\n    tool: {{kind: noop, message: {'x' * 70_000}}}\n"
    async with proxy_to(servers.postgres) as proxy, asyncio.timeout(120):
        client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
        distant = await NoetlClient.connect(servers.temporal, dsn=proxy.dsn, tools=tools)
        await proxy.disconnect()
        async with workflow_worker(client.temporal), frame_worker(distant.temporal, tools, source):
            handle = await Shell.submit(client, step)
            while await frame_attempts(handle) != 1:
                await asyncio.sleep(0.1)
            await asyncio.sleep(2 * payload_store.RETRIEVE_SECONDS)
            assert await frame_attempts(handle) == 1
            await proxy.restore()
            report = await handle.result()
    assert (report.status, report.result["results"]) == ("completed", [1, 1, 1])


async def frame_attempts(handle: RunHandle) -> int:
    """Of the frame that is pending; 0 when none is."""
    pending = (await handle.workflow.describe()).raw_description.pending_activities
    return max((attempt.attempt for attempt in pending if attempt.HasField("last_started_time")), default=0)
