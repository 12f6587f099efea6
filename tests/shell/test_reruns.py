"""Reruns on the real server: from a step of a run that has ended (semantics.md 43)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowHistory

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads.encryption import ENCRYPTION_KEYS_VARIABLE, DecryptionError
from noetl_temporal.runs import RequestRefusedError, RunHandle
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_execution
from tests.shell.conftest import HEAD, Shell
from tests.shell.test_encrypted_runs import FIRST
from tests.shell.test_sub_playbooks import submit as submit_caller

CHAIN = """\
  - step: start
    tool: {kind: noop, message: {n: 1}}
    set: {ctx.total: "{{ start.n }}"}
    next: {arcs: [{step: middle}]}
  - step: middle
    tool: {kind: noop, message: {n: 2}}
    set: {ctx.total: "{{ ctx.total + middle.n }}"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ ctx.total }} {{ start.n }} {{ workload.city }}"}
"""
FORK = """\
  - step: start
    tool: {kind: noop, message: start}
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - {step: left, tool: {kind: noop, message: left}, next: {arcs: [{step: join}]}}
  - {step: right, tool: {kind: noop, message: right}, next: {arcs: [{step: join}]}}
  - {step: join, tool: {kind: noop, message: "{{ left }} {{ right }}"}}
"""
LOOP = """\
  - step: start
    loop: {in: "{{ range(6) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: noop, message: "{{ n }}"}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ start.results | sum }}"}}
"""
LARGE = """\
  - step: start
    tool: {kind: noop, message: big}
    set: {ctx.kept: "{{ start.text }}"}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ start.text | length }} {{ ctx.kept | length }}"}}
"""
REGION = """\
  - {step: start, tool: {kind: noop, message: start}, next: {arcs: [{step: each}]}}
  - {step: each, loop: {in: [1, 2], iterator: n}, next: {arcs: [{step: inner}]}}
  - {step: inner, tool: {kind: noop, message: "{{ n }}"}, next: {arcs: [{step: done}]}}
  - {step: done, spec: {end_loop: each}, next: {arcs: [{step: never, when: "{{ false }}"}]}}
  - {step: never, tool: {kind: noop, message: never}}
"""
CALL = """\
  - step: start
    tool: {kind: playbook, path: tests/child, input: {city: Oslo}}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "after {{ start }}"}}
"""
ONE_OF_MANY = """\
  - step: NAME
    tool: {kind: noop, message: NAME}
    set: {ctx.seen: "{{ (ctx.seen | default([])) + ['NAME'] }}"}
    next: {arcs: [{step: AFTER}]}
"""
BYTES = 200_000

HEAD_OF_STORED_RUNS = HEAD.replace("path: tests/shell", "path: tests/stored-reruns")
"""Of runs whose log cannot be read at the end of all tests, as their values or keys are gone."""


class World:
    """Answers each call with its message, and fails those that it is told to."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.failing: set[Any] = set()

    def answer(self, request: Request, _context: ToolContext) -> Any:
        config = request.config.get("message")
        self.messages.append(config)
        if config == "big":
            return {"text": "x" * BYTES}
        is_failing = isinstance(config, str) and config in self.failing
        return Outcome("error", error=ErrorInfo("exception", f"{config} fails")) if is_failing else config


async def result_of(handle: RunHandle) -> Any:
    return await asyncio.wait_for(handle.result(), 60)


async def test_a_failed_run_is_rerun_from_its_failed_step_once_the_cause_is_fixed(
    shell: Shell, servers: Addresses
) -> None:
    world = World()
    world.failing = {"3 1 Oslo"}
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, CHAIN, city="Oslo")
        assert (await result_of(handle)).status == "failed"
        world.failing.clear()
        world.messages.clear()
        rerun = await client.rerun(handle.execution_id, "last")
        report = await result_of(rerun)
    assert (report.status, report.result, world.messages) == ("completed", "3 1 Oslo", ["3 1 Oslo"])
    assert (report.rerun_of, report.rerun_from) == (handle.execution_id, "last")
    assert {name: bool(step.get("reused")) for name, step in report.steps.items()} == {
        "start": True,
        "middle": True,
        "last": False,
    }
    await migrate(servers.postgres)
    await follow_execution(client.temporal, servers.postgres, rerun.workflow_id)
    assert await audit_execution(servers.postgres, rerun.execution_id) == []
    log = await asyncpg.connect(servers.postgres)
    try:
        rows = await log.fetch(
            "SELECT event_type, node_name, status FROM noetl.event "
            "WHERE execution_id = $1 AND meta->>'rerun_of' = $2 ORDER BY event_id",
            rerun.execution_id,
            str(handle.execution_id),
        )
    finally:
        await log.close()
    assert [tuple(row)[:2] for row in rows] == [
        ("playbook.execution.requested", "tests/shell"),
        ("playbook.started", "tests/shell"),
        ("step.reused", "start"),
        ("step.reused", "middle"),
    ]


async def test_the_earlier_run_is_left_as_it_is_and_a_rerun_can_be_rerun(shell: Shell) -> None:
    world = World()
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, CHAIN, city="Oslo")
        await result_of(handle)
        events = len((await handle.workflow.fetch_history()).events)
        rerun = await client.rerun(str(handle.execution_id)[:16], "middle")
        await result_of(rerun)
        world.messages.clear()
        third = await client.rerun(rerun.execution_id, "last")
        report = await result_of(third)
        with pytest.raises(RequestRefusedError) as failure:
            await client.rerun(third.execution_id, "middle")
        assert len((await handle.workflow.fetch_history()).events) == events
    assert (report.result, report.rerun_of, world.messages) == ("3 1 Oslo", rerun.execution_id, ["3 1 Oslo"])
    assert str(failure.value) == (
        f"it reused step 'middle' from run {rerun.execution_id}: noetl rerun {rerun.execution_id} --from middle"
    )


async def test_branches_that_had_ended_are_reused(shell: Shell) -> None:
    world = World()
    world.failing = {"left right"}
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, FORK)
        assert (await result_of(handle)).status == "failed"
        world.failing.clear()
        world.messages.clear()
        report = await result_of(await client.rerun(handle.execution_id, "join"))
        assert (report.status, world.messages) == ("completed", ["left right"])
        report = await result_of(await client.rerun(handle.execution_id, "right"))
    assert report.status == "completed"
    assert sorted(world.messages[1:]) == ["left", "left right", "right"]


async def test_the_result_of_a_loop_is_reused(shell: Shell) -> None:
    world = World()
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, LOOP)
        await result_of(handle)
        world.messages.clear()
        rerun = await client.rerun(handle.execution_id, "after")
        report = await result_of(rerun)
        children = [
            event
            for event in (await rerun.workflow.fetch_history()).events
            if event.HasField("start_child_workflow_execution_initiated_event_attributes")
        ]
    assert (report.result, world.messages, children) == (15, [15], [])


async def test_the_result_of_a_called_playbook_is_reused(shell: Shell) -> None:
    def answer(request: Request, _context: ToolContext) -> Any:
        messages.append(request.config.get("message"))
        return "said"

    messages: list[Any] = []
    async with shell.client(answer) as client:
        handle = await submit_caller(client, CALL)
        await result_of(handle)
        assert messages[:2] == ["Oslo 3", "report"]
        messages.clear()
        rerun = await client.rerun(handle.execution_id, "after")
        assert (await result_of(rerun)).status == "completed"
        whole = await client.rerun(handle.execution_id, "start")
        assert (await result_of(whole)).status == "completed"
    assert messages == ["after said", "Oslo 3", "report", "after said"]


async def test_a_run_that_continued_as_new_is_read_through(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 20)
    names = [f"s{n}" for n in range(12)]
    steps = "".join(
        ONE_OF_MANY.replace("NAME", name).replace("AFTER", after)
        for name, after in zip(names, [*names[1:], "last"], strict=True)
    )
    steps += "  - {step: last, tool: {kind: noop, message: \"{{ ctx.seen | join(' ') }}\"}}\n"
    world = World()
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, steps)
        report = await result_of(handle)
        workflow_execution_info = (await handle.workflow.describe()).raw_description.workflow_execution_info
        assert workflow_execution_info.first_run_id != workflow_execution_info.execution.run_id
        assert report.result == " ".join(names)
        for step, count in (("last", 1), ("s9", 4), ("s1", 12)):
            world.messages.clear()
            rerun_from = await client.rerun(handle.execution_id, step)
            assert (await result_of(rerun_from)).result == report.result
            assert len(world.messages) == count
        rerun = await result_of(rerun_from)
    assert (rerun.rerun_of, rerun.rerun_from) == (handle.execution_id, "s1")


async def test_impossible_reruns_are_refused_with_the_reason(shell: Shell) -> None:
    world = World()
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, REGION)
        await result_of(handle)

        async def refusal(step: str) -> str:
            with pytest.raises(RequestRefusedError) as failure:
                await client.rerun(handle.execution_id, step)
            return str(failure.value)

        assert await refusal("strat") == "the playbook has no step 'strat': did you mean \"start\"?"
        assert await refusal("inner") == (
            "step 'inner' runs once for each item of the loop 'each', so it has no single state before it: "
            "rerun from 'each'"
        )
        assert await refusal("never") == "it never reached step 'never': it can be rerun from start, each, done"
        world.messages.clear()
        assert (await result_of(await client.rerun(handle.execution_id, "done"))).status == "completed"
    assert world.messages == []


async def test_a_run_that_is_still_going_on_is_refused(shell: Shell) -> None:
    steps = "  - {step: start, tool: {kind: wait, signal: paid, timeout: 1h}}\n"
    async with shell.client(World().answer) as client:
        handle = await shell.submit(client, steps)
        with pytest.raises(RequestRefusedError, match="the run is still running"):
            await client.rerun(handle.execution_id, "start")
        await handle.cancel("enough")
        assert (await result_of(handle)).status == "cancelled"
        with pytest.raises(RequestRefusedError, match=r"the run was already stopping \(cancel\) when 'end' started"):
            await client.rerun(handle.execution_id, "end")
        rerun = await client.rerun(handle.execution_id, "start")
        await rerun.signal("paid", {"amount": 3})
        assert (await result_of(rerun)).result["amount"] == 3


async def test_a_branch_in_progress_is_named(shell: Shell) -> None:
    gate = asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        config = request.config.get("message")
        if config == "right":
            await gate.wait()
        elif config == "second":
            gate.set()
        return config

    steps = FORK.replace("left}, next: {arcs: [{step: join}]}}", "left}, next: {arcs: [{step: more}]}}")
    steps += "  - {step: more, tool: {kind: noop, message: second}, next: {arcs: [{step: join}]}}\n"
    async with shell.client(answer) as client:
        handle = await shell.submit(client, steps)
        assert (await result_of(handle)).status == "completed"
        with pytest.raises(RequestRefusedError) as failure:
            await client.rerun(handle.execution_id, "more")
    assert str(failure.value) == (
        "step 'right' was still running when 'more' first started, so it had no result to reuse: "
        "it can be rerun from start, left, right, join"
    )


# ---- values in the payload store -------------------------------------------------------------------------------------


@asynccontextmanager
async def storing_client(servers: Addresses) -> AsyncGenerator[NoetlClient]:
    """A client and a worker with a payload store."""
    tools = {"noop": FakeTool("noop", World().answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        yield client


async def large_run(client: NoetlClient) -> RunHandle:
    handle = await client.submit(compile_or_raise(f"{HEAD_OF_STORED_RUNS}workflow:\n{LARGE}"), {}, content="text")
    assert (await result_of(handle)).status == "completed"
    return handle


async def test_large_values_stay_references_and_are_the_new_runs_as_well(servers: Addresses) -> None:
    await migrate(servers.postgres)
    async with storing_client(servers) as client:
        handle = await large_run(client)
        rerun = await client.rerun(handle.execution_id, "after")
        assert (await result_of(rerun)).result == f"{BYTES} {BYTES}"
        for case in (handle, rerun):
            await follow_execution(client.temporal, servers.postgres, case.workflow_id)
            assert await audit_execution(servers.postgres, case.execution_id) == []
        started = (await rerun.workflow.fetch_history()).events[0].ByteSize()
    log = await asyncpg.connect(servers.postgres)
    try:
        query = """
            SELECT octet_length(data) AS bytes, array_agg(o.execution_id) AS owners
            FROM noetl.payload JOIN noetl.payload_owner o USING (key)
            WHERE o.execution_id = ANY($1) AND octet_length(data) > 100000 GROUP BY key
        """
        rows = await log.fetch(query, [handle.execution_id, rerun.execution_id])
    finally:
        await log.close()
    assert [sorted(row["owners"]) for row in rows if row["bytes"] < 2 * BYTES] != []
    assert {handle.execution_id, rerun.execution_id} in [set(row["owners"]) for row in rows]
    assert started < BYTES / 4


async def test_pruned_values_are_detected_before_anything_starts(servers: Addresses) -> None:
    await migrate(servers.postgres)
    async with storing_client(servers) as client:
        handle = await large_run(client)
        earlier = await client.earlier_run(handle.execution_id, "after")
        assert earlier.reused_steps == {"start": "completed"}
        log = await asyncpg.connect(servers.postgres)
        try:
            deletion = "DELETE FROM noetl.payload WHERE octet_length(data) BETWEEN $1 AND $1 + 1000 RETURNING key, data"
            removed_rows = [(row["key"], row["data"]) for row in await log.fetch(deletion, BYTES)]
            with pytest.raises(RequestRefusedError, match="1 large value has been pruned"):
                await client.rerun(handle.execution_id, "after")
            await log.executemany(
                "INSERT INTO noetl.payload (key, data) VALUES ($1, $2)", removed_rows
            )  # for the audit
        finally:
            await log.close()


# ---- what is signed and encrypted ------------------------------------------------------------------------------------


async def test_facts_that_were_changed_are_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    async with shell.client(world.answer) as client:
        handle = await shell.submit(client, CHAIN, city="Oslo")
        await result_of(handle)
        fetch = WorkflowHandle[Any, Any].fetch_history

        async def fetch_changed_history(workflow: WorkflowHandle[Any, Any]) -> WorkflowHistory:
            answer = await fetch(workflow)
            for event in answer.events:
                for payload in event.activity_task_completed_event_attributes.result.payloads:
                    payload.data = payload.data.replace(b'"n":1', b'"n":7')
            return answer

        monkeypatch.setattr(WorkflowHandle, "fetch_history", fetch_changed_history)
        world.messages.clear()
        with pytest.raises(RequestRefusedError, match=r"its history was changed, .* and cannot be replayed"):
            await client.rerun(handle.execution_id, "last")
        monkeypatch.undo()
        assert world.messages == []


async def test_a_run_of_another_key_is_refused(
    shell: Shell, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell.client(World().answer) as client:
        handle = await shell.submit(client, CHAIN, city="Oslo")
        await result_of(handle)
        monkeypatch.delenv(SIGNING_KEY_VARIABLE)
        unsigned_run = await shell.submit(await NoetlClient.connect(servers.temporal, tools={"noop"}), CHAIN)
        with pytest.raises(WorkflowFailureError):
            await unsigned_run.workflow.result()
        with pytest.raises(RequestRefusedError, match="is refused: this run is not signed"):
            await client.rerun(unsigned_run.execution_id, "last")


async def test_an_encrypted_run_needs_its_key(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, FIRST)
    async with storing_client(servers) as client:
        handle = await large_run(client)
        rerun = await client.rerun(handle.execution_id, "after")
        assert (await result_of(rerun)).result == f"{BYTES} {BYTES}"
        monkeypatch.delenv(ENCRYPTION_KEYS_VARIABLE)
        without = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools={"noop"})
        with pytest.raises(DecryptionError, match="first"):
            await without.rerun(handle.execution_id, "after")


async def test_a_rerun_takes_a_timeout(shell: Shell) -> None:
    async with shell.client(World().answer) as client:
        handle = await shell.submit(client, CHAIN, city="Oslo")
        await result_of(handle)
        rerun = await client.rerun(handle.execution_id, "last", execution_timeout=timedelta(minutes=5))
        workflow_execution_started_event_attributes = (
            (await rerun.workflow.fetch_history()).events[0].workflow_execution_started_event_attributes
        )
        await result_of(rerun)
    assert workflow_execution_started_event_attributes.workflow_execution_timeout.ToTimedelta() == timedelta(minutes=5)
