"""Playbooks that call playbooks on the real server (semantics.md 27): each call is a run of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.inspection.replay import histories_of, replay
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.runs import Runs
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.submission.unsupported import UnsupportedError
from tests.shell.conftest import Shell
from tests.shell.test_stops import Calls

CHILD = """\
workload: {city: null, days: 3}
workflow:
  - step: start
    tool: {kind: noop, message: "{{ workload.city }} {{ workload.days }}"}
    next: {arcs: [{step: report}]}
  - step: report
    tool: {kind: noop, message: report}
"""
FAILING = """\
workflow:
  - step: start
    tool: {kind: noop, message: fail}
"""
SLOW = """\
workflow:
  - step: start
    tool: {kind: noop, message: wait}
  - step: end
    tool: {kind: noop, message: child clean}
"""
CALL = """\
  - step: start
    tool: {kind: playbook, path: tests/child, input: {city: Oslo}%s}
"""
CLEANUP = "  - step: end\n    tool: {kind: noop, message: clean}\n"


def book(path: str, body: str) -> Graph:
    head = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {path}, path: {path}}}\n"
    return compile_or_raise(head + body, f"{path.replace('/', '_')}.yaml")


def caller(workflow: str, head: str = "") -> Graph:
    return book("tests/shell", f"{head}workflow:\n{workflow}")


async def submit(client: NoetlClient, workflow: str, child: str = CHILD, **more: Any) -> RunHandle:
    return await client.submit(caller(workflow), more, playbooks={"tests/child": book("tests/child", child)})


def echo(request: Request, _context: ToolContext) -> Any:
    message = str(request.config.get("message", ""))
    if message.startswith("fail"):
        return Outcome("error", error=ErrorInfo("exception", "no weather today"))
    return {"said": message, **request.input}


async def children(client: NoetlClient, handle: RunHandle, at_least: int = 1) -> list[Any]:
    """The runs that this one called, once Temporal lists so many: it lists a new run a moment later."""
    query = f"WorkflowType = '{PLAYBOOK_WORKFLOW}' AND ParentWorkflowId = '{handle.workflow_id}'"
    async with asyncio.timeout(60):
        while len(runs := [workflow async for workflow in client.temporal.list_workflows(query)]) < at_least:
            await asyncio.sleep(0.05)
    return runs


async def executions(
    servers: Addresses, client: NoetlClient, handle: RunHandle
) -> Mapping[int, tuple[int | None, str]]:
    """Of a run and all below it: execution id -> (parent, status), from the event log."""
    await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
    connection = await asyncpg.connect(servers.postgres)
    try:
        rows = await connection.fetch(
            "WITH RECURSIVE below AS (SELECT * FROM noetl.execution WHERE execution_id = $1 UNION ALL "
            "SELECT e.* FROM noetl.execution e JOIN below b ON e.parent_execution_id = b.execution_id) "
            "SELECT execution_id, parent_execution_id, status FROM below",
            handle.execution_id,
        )
        wrong = await connection.fetch(
            "SELECT 1 FROM noetl.event v JOIN noetl.execution e USING (execution_id) "
            "WHERE v.parent_execution_id IS DISTINCT FROM e.parent_execution_id AND e.execution_id = ANY($1)",
            [row["execution_id"] for row in rows],
        )
    finally:
        await connection.close()
    assert not wrong
    return {row["execution_id"]: (row["parent_execution_id"], row["status"]) for row in rows}


async def test_a_call_returns_the_result_of_its_playbook_listed_above_its_caller(
    shell: Shell, servers: Addresses
) -> None:
    async with shell.client(echo) as client:
        handle = await submit(client, CALL % "")
        result = await handle.result()
        executions_logged = await executions(servers, client, handle)
        lists = [await Runs(client.temporal, dsn).list("tests/*", limit=2) for dsn in (None, servers.postgres)]
        histories = [history async for history in histories_of(client.temporal, handle.workflow_id)]
        verdicts = [await replay(history, client.temporal.data_converter) for history in histories]
    assert [verdict.problem for verdict in verdicts] == [None, None]
    assert (result.status, result.result) == ("completed", {"said": "report"})
    [child] = executions_logged.keys() - {handle.execution_id}
    assert [[run.execution_id for run in runs] for runs in lists] == [[child, handle.execution_id]] * 2
    assert executions_logged == {handle.execution_id: (None, "COMPLETED"), child: (handle.execution_id, "COMPLETED")}


async def test_a_call_returns_the_result_of_the_step_that_it_names(shell: Shell) -> None:
    async with shell.client(echo) as client:
        result = await (await submit(client, CALL % ", return_step: start")).result()
    assert result.result == {"said": "Oslo 3"}


async def test_a_failed_playbook_fails_its_call(shell: Shell) -> None:
    async with shell.client(echo) as client:
        result = await (await submit(client, CALL % "", FAILING)).result()
    [failure] = result.failures.detailed
    assert (result.status, failure.step, failure.line, failure.kind) == ("failed", "start", 6, "exception")
    assert failure.message.startswith("the playbook 'tests/child' failed: tests_child.yaml:6:")
    assert "no weather today" in failure.message


async def test_a_policy_retries_with_a_run_of_its_own(shell: Shell, servers: Addresses) -> None:
    tries: list[str] = []

    def second(request: Request, context: ToolContext) -> Any:
        tries.append(request.execution_id)
        return echo(request, context) if len(tries) == 1 else {"said": "dry"}

    rules = "[{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 0.1}}]"
    async with shell.client(second) as client:
        handle = await submit(client, CALL % f", spec: {{policy: {{rules: {rules}}}}}", FAILING)
        result = await handle.result()
        executions_logged = await executions(servers, client, handle)
    assert (result.status, result.result) == ("completed", {"said": "dry"})
    assert result.steps["start"]["attempts"] == 2
    assert len(set(tries)) == 2
    assert sorted(status for _, status in executions_logged.values()) == ["COMPLETED", "COMPLETED", "FAILED"]


async def test_a_failure_is_routed(shell: Shell) -> None:
    routed_call = CALL % "" + (
        "    next: {arcs: [{step: repair, when: \"{{ event.name == 'step.failed' }}\"}, {step: end}]}\n"
        '  - step: repair\n    tool: {kind: noop, message: "{{ start.error.kind }}"}\n'
    )
    async with shell.client(echo) as client:
        result = await (await submit(client, routed_call, FAILING)).result()
    assert (result.status, result.result) == ("completed", {"said": "exception"})


async def test_a_cancel_reaches_the_child_whose_cleanup_comes_first(shell: Shell, servers: Addresses) -> None:
    calls = _Waiting()
    async with shell.client(calls) as client:
        handle = await submit(client, CALL % "" + CLEANUP, SLOW)
        await calls.wait_for(1)
        await handle.cancel()
        result = await handle.result()
        executions_logged = await executions(servers, client, handle)
    assert result.status == "cancelled"
    assert calls.messages == ["wait", "child clean", "clean"]
    assert {status for _, status in executions_logged.values()} == {"CANCELLED"}


async def test_a_call_times_out_with_its_child(shell: Shell, servers: Addresses) -> None:
    calls = _Waiting()
    async with shell.client(calls) as client:
        handle = await submit(client, CALL % ", timeout: 1s", SLOW)
        result = await handle.result()
        executions_logged = await executions(servers, client, handle)
    assert result.status == "failed"
    assert [(failure.kind, failure.message) for failure in result.failures.detailed] == [
        ("timeout", "timed out after 1 s")
    ]
    assert calls.messages == ["wait", "child clean"]
    assert sorted(status for _, status in executions_logged.values()) == ["CANCELLED", "FAILED"]


POLLING = """\
workflow:
  - step: start
    tool:
      - name: poll
        kind: noop
        spec: {policy: {rules: [{when: "{{ true }}", then: {do: jump, to: poll}}]}}
"""


async def test_a_cancel_reaches_a_child_that_has_continued_as_new(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    calls = Calls()
    async with shell.client(calls) as client:
        handle = await submit(client, CALL % "", POLLING)
        await calls.wait_for(60)
        runs = await children(client, handle, at_least=2)
        await handle.cancel()
        assert (await handle.result()).status == "cancelled"
        assert (await (await client.handle(runs[0].id)).result()).status == "cancelled"


async def test_a_timeout_ends_a_child_that_has_continued_as_new(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    async with shell.client(Calls()) as client:
        handle = await submit(client, CALL % ", timeout: 5", POLLING)
        result = await handle.result()
        await children(client, handle, at_least=2)
    assert (result.status, result.failures.detailed[0].kind) == ("failed", "timeout")


async def test_a_child_that_is_cancelled_from_outside_fails_its_call(shell: Shell) -> None:
    calls = _Waiting()
    async with shell.client(calls) as client:
        handle = await submit(client, CALL % "", SLOW)
        await calls.wait_for(1)
        [child] = await children(client, handle)
        await (await client.handle(child.id)).cancel()
        result = await handle.result()
    assert (result.status, result.failures.detailed[0].kind) == ("failed", "cancelled")


async def test_a_child_that_is_not_waited_for_lives_on(shell: Shell) -> None:
    calls = _Waiting()
    async with shell.client(calls) as client:
        handle = await submit(client, CALL % ", wait: false", SLOW)
        result = await handle.result()
        assert result.status == "completed"
        child = await client.handle(result.result["workflow_id"])
        assert str(child.execution_id) == result.result["execution_id"]
        await calls.wait_for(1)
        assert (await child.workflow.describe()).status == WorkflowExecutionStatus.RUNNING
        calls.go.set()
        assert (await child.result()).status == "completed"


async def test_a_cancel_does_not_reach_a_child_that_is_not_waited_for(shell: Shell) -> None:
    calls = _Waiting()
    both = (
        CALL % ", wait: false"
        + "    next: {arcs: [{step: more}]}\n  - step: more\n    tool: {kind: noop, message: wait}\n"
    )
    async with shell.client(calls) as client:
        handle = await submit(client, both, SLOW)
        await calls.wait_for(2)
        [child] = await children(client, handle)
        await handle.cancel()
        assert (await handle.result()).status == "cancelled"
        assert (
            await client.temporal.get_workflow_handle(child.id).describe()
        ).status == WorkflowExecutionStatus.RUNNING
        calls.go.set()
        assert (await (await client.handle(child.id)).result()).status == "completed"


LOOP = """\
  - step: start
    loop: {in: "{{ range(12) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: playbook, path: tests/child, input: {city: "{{ n }}"}, return_step: start}
"""


async def test_a_loop_keeps_max_in_flight_playbooks_running(shell: Shell, servers: Addresses) -> None:
    now, max_running = [0], [0]

    async def count_running(request: Request, context: ToolContext) -> Any:
        now[0] += 1
        max_running[0] = max(max_running[0], now[0])
        await asyncio.sleep(0.05)
        now[0] -= 1
        return echo(request, context)

    async with shell.client(count_running) as client:
        handle = await submit(client, LOOP)
        result = await handle.result()
        executions_logged = await executions(servers, client, handle)
    assert result.status == "completed"
    assert [entry["said"] for entry in result.result["results"]] == [f"{n} 3" for n in range(12)]
    assert max_running[0] <= 3
    assert len(executions_logged) == 13
    assert {parent for parent, _ in executions_logged.values()} == {None, handle.execution_id}


@pytest.mark.parametrize("events", [15, 40])
async def test_parent_and_child_continue_as_new(shell: Shell, monkeypatch: pytest.MonkeyPatch, events: int) -> None:
    """A run in a parallel branch makes the parent long while a child runs: no call is lost and none is made twice."""
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", events)
    calls = Calls()
    rounds = """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: call}, {step: round}]}
  - step: call
    tool: {kind: playbook, path: tests/child}
  - step: round
    tool: {kind: noop, message: round}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: round, when: "{{ ctx.n < 30 }}"}, {step: end}]}
"""
    child = """\
workflow:
  - step: start
    tool: {kind: noop, message: child}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: start, when: "{{ ctx.n < 30 }}"}, {step: end}]}
"""
    async with shell.client(calls) as client:
        handle = await submit(client, rounds, child)
        result = await handle.result()
        last = (await client.temporal.get_workflow_handle(handle.workflow_id).describe()).run_id
    assert result.status == "completed"
    assert (calls.messages.count("round"), calls.messages.count("child")) == (30, 30)
    assert last != handle.run_id


RECURSIVE = """\
workload: {n: %d}
workflow:
  - step: start
    next: {arcs: [{step: again, when: "{{ workload.n > 0 }}"}, {step: last}]}
  - step: again
    tool: {kind: playbook, path: tests/shell, input: {n: "{{ workload.n - 1 }}"}}
  - step: last
    tool: {kind: noop, message: bottom}
"""


@pytest.mark.parametrize(("depth", "status"), [(3, "completed"), (20, "completed"), (21, "failed")])
async def test_recursion_ends_by_itself_or_at_the_limit(shell: Shell, depth: int, status: str) -> None:
    async with shell.client(echo) as client:
        graph = book("tests/shell", RECURSIVE % depth)
        result = await (await client.submit(graph, playbooks={"tests/shell": graph})).result()
    assert result.status == status
    if status == "failed":
        assert (result.failures.detailed[0].kind, "more than 20 deep" in result.failures.detailed[0].message) == (
            "budget",
            True,
        )
    else:
        assert result.result == {"said": "bottom"}


OPEN = '  - step: start\n    tool: {kind: playbook, path: "{{ payload.which }}"}\n'


async def test_a_path_that_is_a_template_is_found_at_the_call(shell: Shell) -> None:
    async with shell.client(echo) as client:
        result = await (await submit(client, OPEN, which="tests/child")).result()
        report = await (await submit(client, OPEN, which="tests/chil")).result()
    assert result.status == "completed"
    assert report.status == "failed"
    assert report.failures.detailed[0].kind == "not_found"
    assert report.failures.detailed[0].message == (
        "no playbook 'tests/chil' was submitted with this run: did you mean \"tests/child\"?"
    )


async def test_a_missing_playbook_is_refused(shell: Shell) -> None:
    async with shell.client(echo) as client:
        with pytest.raises(UnsupportedError, match=r"tests_shell.yaml:6:\d+: error: there is no playbook 'tests/chil'"):
            await submit(client, (CALL % "").replace("tests/child", "tests/chil"))


async def test_a_playbook_whose_tools_are_not_there_is_refused(shell: Shell) -> None:
    async with shell.client(echo) as client:
        with pytest.raises(UnsupportedError, match=r"tests_child.yaml:6:\d+: error: there is no tool 'shell'"):
            await submit(client, CALL % "", "workflow:\n  - step: start\n    tool: {kind: shell, command: ls}\n")


async def test_a_run_that_is_terminated_takes_its_children_along(shell: Shell) -> None:
    calls = _Waiting()
    async with shell.client(calls) as client:
        handle = await submit(client, CALL % "", SLOW)
        await calls.wait_for(1)
        [child] = await children(client, handle)
        await handle.terminate("enough")
        report = await asyncio.wait_for((await client.handle(child.id)).result(), 30)
    assert report.status == "cancelled"


class _Waiting(Calls):
    """Calls with the message ``wait`` wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def __call__(self, request: Request, context: ToolContext) -> Any:
        call = await super().__call__(request, context)
        if request.config.get("message") == "wait":
            while not self.go.is_set():
                context.heartbeat()
                await asyncio.sleep(0.05)
        return call


async def test_a_reset_replaces_the_child_of_the_run_before(shell: Shell) -> None:
    """The new run begins before the call, which it makes again."""
    calls = _Waiting()
    first = "  - step: start\n    tool: {kind: noop, message: before}\n    next: {arcs: [{step: call}]}\n"
    two = first + (CALL % "").replace("start", "call")
    async with shell.client(calls) as client:
        handle = await submit(client, two, SLOW)
        await calls.wait_for(2)
        [old] = await children(client, handle)
        await client.temporal.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=client.temporal.namespace,
                workflow_execution=ExecutionName(workflow_id=handle.workflow_id),
                reason="test",
                workflow_task_finish_event_id=4,
                request_id="reset",
            )
        )
        await calls.wait_for(4)
        calls.go.set()
        result = await handle.result()
        description = await client.temporal.get_workflow_handle(old.id, run_id=old.run_id).describe()
    assert result.status == "completed"
    assert description.status == WorkflowExecutionStatus.TERMINATED
    assert calls.messages.count("before") == 2
