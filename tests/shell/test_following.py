"""What ``noetl run`` says of a run whose time is up."""

from __future__ import annotations

import asyncio
import io
from itertools import pairwise

import asyncpg
import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.cli.console import PrintableConsole
from noetl_temporal.cli.describe_run import describe_run
from noetl_temporal.cli.event_log import log_connection, open_event_log
from noetl_temporal.cli.interrupts import Interrupts
from noetl_temporal.cli.past_run import describe_past_run
from noetl_temporal.cli.run_follower import RunFollower
from noetl_temporal.cli.view import LineView, QuietView
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.mirror.announcements import listening
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.read import Database, Event, EventTail, events_of
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.stack.addresses import Addresses

from .conftest import HEAD, Shell

ONE_STEP = "  - step: start\n    tool: {kind: noop}\n"


class LateHandle(RunHandle):
    """Asks the run to stop when it has ended, as happens when it ends just after its time is up."""

    let_go: asyncio.Event

    async def cancel(self, reason: str = "") -> bool:
        self.let_go.set()
        await self.result()
        return await super().cancel(reason)


async def test_a_run_that_completes_when_its_time_is_up_is_completed(shell: Shell) -> None:
    out, let_go = io.StringIO(), asyncio.Event()

    async def answer(*_: object) -> int:
        await let_go.wait()
        return 1

    async with shell.client(answer) as client:
        run = await shell.submit(client, ONE_STEP)
        late_run = LateHandle(client.temporal, run.workflow, run.execution_id, None)
        late_run.let_go = let_go
        graph = compile_or_raise(f"{HEAD}workflow:\n{ONE_STEP}", "shell.yaml")
        view = LineView(PrintableConsole(file=out))
        summary, was_interrupted = await RunFollower(client, late_run, None, view, graph, 0.01, Interrupts()).follow(
            None
        )
    assert (summary.status, was_interrupted) == ("completed", False)
    assert out.getvalue().splitlines() == [
        "timed out after 0.01 s",
        "cancelling; waiting for the cleanup of step end",
    ]


async def test_the_events_of_a_run_are_counted_when_the_log_has_all_of_them(shell: Shell, servers: Addresses) -> None:
    await migrate(servers.postgres)
    async with shell.client(lambda _request, _context: 1) as worker_client, open_event_log(servers.postgres) as log:
        client = NoetlClient(worker_client.temporal, servers.postgres, {})
        run = await shell.submit(worker_client, ONE_STEP)
        handle = RunHandle(client.temporal, run.workflow, run.execution_id, servers.postgres)
        await handle.result()
        assert (await describe_run(client, handle, log, None)).events_complete is False
        graph = compile_or_raise(f"{HEAD}workflow:\n{ONE_STEP}", "shell.yaml")
        view = QuietView(PrintableConsole(file=io.StringIO()))
        following = RunFollower(client, handle, log, view, graph, None, Interrupts())
        following_task = asyncio.create_task(following.follow(None))
        await follow_execution(client.temporal, servers.postgres, run.workflow_id)
        summary, _ = await following_task
    assert summary.events_complete
    async with log_connection(servers.postgres) as connection:
        assert summary.events == len(await events_of(connection, run.execution_id)) > 0
    past = await describe_past_run(servers.postgres, data_converter(servers.postgres), run.execution_id)
    assert past is not None
    assert (past.events, past.events_complete, past.problems) == (summary.events, True, ())


async def test_the_wait_for_a_missing_log_ends(
    shell: Shell, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.cli.run_follower.SETTLE_SECONDS", 0.5)
    await migrate(servers.postgres)
    async with shell.client(lambda _request, _context: 1) as worker_client, open_event_log(servers.postgres) as log:
        client = NoetlClient(worker_client.temporal, servers.postgres, {})
        run = await shell.submit(worker_client, ONE_STEP)
        graph = compile_or_raise(f"{HEAD}workflow:\n{ONE_STEP}", "shell.yaml")
        view = QuietView(PrintableConsole(file=io.StringIO()))
        summary, _ = await RunFollower(client, run, log, view, graph, None, Interrupts()).follow(None)
    assert (summary.status, summary.events_complete) == ("completed", False)
    assert msgspec.json.decode(summary.json())["events_complete"] is False


async def test_a_run_that_is_followed_is_announced_and_looked_at_often_only_at_first(
    shell: Shell, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, let_go = list[float](), asyncio.Event()
    read = EventTail.read

    async def read_events(tail: EventTail, database: Database) -> list[Event]:
        looks.append(asyncio.get_running_loop().time())
        return await read(tail, database)

    async def answer(*_: object) -> int:
        await let_go.wait()
        return 1

    monkeypatch.setattr(EventTail, "read", read_events)
    await migrate(servers.postgres)
    pool = asyncpg.create_pool(servers.postgres, min_size=1, max_size=1)
    async with (
        asyncio.timeout(90),
        shell.client(answer) as worker_client,
        open_event_log(servers.postgres) as log,
        pool,
        listening(pool) as announcements,
    ):
        client = NoetlClient(worker_client.temporal, servers.postgres, {})
        run = await shell.submit(worker_client, ONE_STEP)
        graph = compile_or_raise(f"{HEAD}workflow:\n{ONE_STEP}", "shell.yaml")
        following = RunFollower(
            client, run, log, QuietView(PrintableConsole(file=io.StringIO())), graph, None, Interrupts()
        )
        following_task = asyncio.create_task(following.follow(None))
        assert await announcements.get() == WorkflowRun("default", run.workflow_id, run.run_id or "", PLAYBOOK_WORKFLOW)
        while len(looks) < 20:
            await asyncio.sleep(0.05)
        pauses = [later - earlier for earlier, later in pairwise(looks)]
        let_go.set()
        await run.result()
        await follow_execution(client.temporal, servers.postgres, run.workflow_id)
        assert (await following_task)[0].events_complete
    assert min(pauses[-5:]) > 2 * min(pauses[:5])


async def test_a_value_error_in_the_block_of_a_connection_is_raised_as_it_is(servers: Addresses) -> None:
    with pytest.raises(ValueError, match="not a number"):
        async with log_connection(servers.postgres):
            raise ValueError("not a number")
