"""Runs are found whatever they are called, and their account is of all their runs."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.cli.describe_run import describe_run
from noetl_temporal.client import NoetlClient, UnknownRunError
from noetl_temporal.inspection.replay import NoHistoryError, histories_of, open_histories, parse_history, replay
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.read import events_of
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.search_attributes import PATH
from noetl_temporal.stack.addresses import Addresses
from tests.mirror.resets import reset

from .conftest import Shell, history_of

ONE_STEP = "  - step: start\n    tool: {kind: noop}\n"
LOOP = "  - step: start\n    loop: {in: [1, 2], iterator: n}\n    tool: {kind: noop}\n"
TWO = ONE_STEP + "    next: {arcs: [{step: later}]}\n  - step: later\n    tool: {kind: noop}\n"
TURNS = """
  - step: start
    tool: {kind: noop}
    set: {ctx.turn: "{{ (ctx.turn | default(0)) + 1 }}"}
    next: {arcs: [{step: start, when: "{{ ctx.turn < 30 }}"}]}
"""
NAMES = ["n" * 300, "ü" * 300, 'a"b/c#1~%', "c/1"]


@pytest.mark.parametrize("name", NAMES, ids=["long", "wide", "odd", "slash"])
async def test_playbooks_and_steps_of_any_name_run_and_are_found(shell: Shell, name: str) -> None:
    quoted_name = json.dumps(name, ensure_ascii=False)
    head = (
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {quoted_name}, path: {quoted_name}}}\nworkflow:\n"
    )
    steps = f"  - step: start\n    tool: {{kind: noop}}\n    next: {{arcs: [{{step: {quoted_name}}}]}}\n"
    loop = f"  - step: {quoted_name}\n    loop: {{in: [1, 2], iterator: n}}\n    tool: {{kind: noop}}\n"
    async with shell.client(lambda _request, _context: 1) as client:
        handle = await client.submit(compile_or_raise(head + steps + loop, "named.yaml"))
        async with asyncio.timeout(60):
            report = await handle.result()
        by_workflow, by_execution = await client.handle(handle.workflow_id), await client.find(handle.execution_id)
        attributes = (await handle.workflow.describe()).typed_search_attributes
    assert report.status == "completed"
    assert report.steps[name]["attempts"] == 2
    assert len(handle.workflow_id.encode()) <= 200
    assert by_workflow.execution_id == handle.execution_id
    assert by_execution.workflow_id == handle.workflow_id
    assert len(attributes[PATH].encode()) <= 255


async def test_two_loops_whose_names_hold_separators_run_at_once(shell: Shell) -> None:
    loops = "".join(
        f'  - step: "{name}"\n    loop: {{in: [1, 2], iterator: n}}\n    tool: {{kind: noop}}\n'
        for name in ("c/1", "c#1/0", "c")
    )
    fork = "  - step: start\n    tool: {kind: noop}\n    next: {spec: {mode: inclusive}, arcs: [{step: c/1}, "
    text = f'{fork}{{step: "c#1/0"}}, {{step: c}}]}}\n{loops}'
    async with shell.client(lambda _request, _context: 1) as client:
        handle = await shell.submit(client, text)
        async with asyncio.timeout(60):
            assert (await handle.result()).status == "completed"


async def test_a_run_that_is_not_there(servers: Addresses) -> None:
    client = await NoetlClient.connect(servers.temporal, tools={"noop": FakeTool("noop", lambda _request, _context: 1)})
    with pytest.raises(UnknownRunError, match="no run 7"):
        await client.find(7)
    with pytest.raises(UnknownRunError, match="no workflow 'nowhere'"):
        await client.handle("nowhere")


async def test_the_duration_is_that_of_all_its_runs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 40)

    async def answer(*_: object) -> int:
        await asyncio.sleep(0.02)
        return 1

    async with shell.client(answer) as client:
        handle = await shell.submit(client, TURNS)
        report = await handle.result()
        account = await describe_run(client, handle, None, "http://ui")
        last = await handle.workflow.describe()
        runs = [history async for history in histories_of(client.temporal, handle.workflow_id)]
        verdicts = [await replay(history, data_converter()) for history in runs]
    assert last.close_time is not None
    assert account.duration_seconds > 30 * 0.02 > 0
    assert account.duration_seconds > (last.close_time - last.start_time).total_seconds()
    assert account.duration_seconds == pytest.approx(last.close_time.timestamp() - report.started / 1000, abs=0.5)
    assert len(runs) > 1
    assert [verdict.problem for verdict in verdicts] == [None] * len(runs)


async def test_a_run_that_is_reset_meanwhile_is_followed_to_its_end(shell: Shell) -> None:
    has_entered, let_go = asyncio.Event(), asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> int:
        if "later#" in request.key:
            has_entered.set()
            await let_go.wait()
        return 1

    async with shell.client(answer) as client:
        handle = await shell.submit(client, TWO)
        waiting = asyncio.create_task(handle.result())
        await asyncio.wait_for(has_entered.wait(), 30)
        reset_run_id = await reset(client.temporal, handle.workflow, handle.run_id or "")
        let_go.set()
        report = await waiting
        assert (await describe_run(client, handle, None, None)).run_id == reset_run_id
    assert report.status == "completed"


async def test_a_loop_is_replayed_with_its_playbook_and_open_runs_are_found(shell: Shell) -> None:
    has_entered, let_go = asyncio.Event(), asyncio.Event()

    async def answer(*_: object) -> int:
        has_entered.set()
        await let_go.wait()
        return 1

    async with shell.client(answer) as client:
        handle = await shell.submit(client, LOOP)
        await asyncio.wait_for(has_entered.wait(), 30)
        ids = {history.workflow_id async for history in open_histories(client.temporal)}
        let_go.set()
        await handle.result()
        both = [history.workflow_id async for history in histories_of(client.temporal, handle.workflow_id)]
    assert len(both) == 2
    assert set(both) <= ids


async def test_a_history_of_another_build_does_not_replay(shell: Shell) -> None:
    async with shell.client(lambda _request, _context: 1) as client:
        handle = await shell.submit(client, ONE_STEP)
        await handle.result()
    text = (await history_of(handle)).to_json()
    assert (await replay(parse_history(text), data_converter())).problem is None
    other = parse_history(text.replace('"noetl.noop"', '"noetl.http"'))
    problem = (await replay(other, data_converter())).problem
    assert problem is not None
    assert "\n" not in problem
    for wrong in ("", "[]", "{}", '{"events": []}', '{"events": [{}]}'):
        with pytest.raises(NoHistoryError, match="not a workflow history: write one with `temporal workflow show"):
            parse_history(wrong)


async def test_events_come_from_history_where_there_is_no_event_log(
    shell: Shell, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as those of the mirror: of a loop in chunks, and of a run that continued as new."""
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 60)
    let_go = asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> int:
        if "later#" in request.key:
            await let_go.wait()
        return 1

    loop_then_turns = LOOP + "    next: {arcs: [{step: turn}]}\n" + TURNS.lstrip("\n").replace("start", "turn")
    async with shell.client(answer) as client:
        for text in (loop_then_turns, TWO):
            handle = await shell.submit(client, text)
            events = handle.events()
            first = await anext(events)
            assert first.event_type == "playbook.execution.requested"
            let_go.set()
            async with asyncio.timeout(60):
                events_read = [first] + [event async for event in events]
            assert events_read[-1].event_type == "playbook.completed"
            await migrate(servers.postgres)
            await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
            connection = await asyncpg.connect(servers.postgres)
            mirrored_events = await events_of(connection, handle.execution_id)
            await connection.close()
            assert sorted(events_read, key=lambda event: event.event_id) == mirrored_events
