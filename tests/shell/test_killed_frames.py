"""A worker that is killed in the middle of a frame: each row once, no call repeated that a heartbeat reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import asyncpg
import msgspec
import pytest

from noetl_temporal.client import RunHandle
from noetl_temporal.config import connect_temporal
from noetl_temporal.messages.frame import FrameDetails
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from tests.audit import audit_execution
from tests.shell.servers import Site, site
from tests.shell.table import Base
from tests.shell.test_stored_once import submit
from tests.shell.worker_process import WorkerProcess, worker_process

ITEMS, AT_ONCE = 600, 8
ITEM_COUNT = 4_000
"""For more at once, as the first heartbeat may be seen late."""
SINK = 'sink: {tool: {kind: postgres, auth: pg_local, table: TABLE, data: {n: "{{ item }}"}}}'
LOOP = """
  - step: start
    loop:
      in: "{{ range(ITEMS) | list }}"
      iterator: item
      spec:
        mode: parallel
        max_in_flight: AT_ONCE
        frame: {max_rows: 5000, max_seconds: 600, row_concurrency: AT_ONCE}
    tool:
      - call: {kind: http, method: GET, url: "URL/size/{{ item }}", SINK}
"""


async def details_of(handle: RunHandle) -> FrameDetails:
    """What the server has of the frame's heartbeats."""
    description = await handle.workflow.describe()
    pending = description.raw_description.pending_activities
    payloads = [payload for activity in pending for payload in activity.heartbeat_details.payloads]
    return msgspec.json.decode(payloads[0].data, type=FrameDetails) if payloads else FrameDetails()


class Frames:
    """Runs the loop, whose workers are killed. ``known`` is what the last heartbeat before a kill had reported."""

    def __init__(self, servers: Addresses, web: Site, sink: str, at_once: int = AT_ONCE, items: int = ITEMS) -> None:
        self.details = FrameDetails()
        self._servers = servers
        self._web = web
        self._loop = (
            LOOP.replace("URL", web.url)
            .replace("SINK", sink)
            .replace("AT_ONCE", str(at_once))
            .replace("ITEMS", str(items))
        )
        self._items = items

    async def run(self, *kills: Callable[[], Awaitable[object]]) -> RunHandle:
        """One worker after the other is killed once its ``kill`` returns; the last one goes on to the end."""
        async with AsyncExitStack() as stack, asyncio.timeout(400):
            await self._web.answer_only(0)
            worker = await stack.enter_async_context(self._worker())
            self.handle = await submit(self._servers, self._loop)
            for kill in kills:
                await kill()
                worker.kill()
                await worker.wait_for_exit()
                worker = await stack.enter_async_context(self._worker())
            await self._web.answer_only(None)
            report = await self.handle.result()
            assert report.status == "completed"
            return self.handle

    def _worker(self) -> AbstractAsyncContextManager[WorkerProcess]:
        variables = self._servers.environment()
        credentials = {name: value for name, value in variables.items() if name.startswith("NOETL_CREDENTIAL_")}
        return worker_process(self._servers.temporal, self._servers.postgres, **credentials)

    async def in_the_middle(self) -> None:
        """A heartbeat has reported more items, and more calls were made since."""
        before, calls = self.details.ended, self._web.calls.total()
        await self._web.answer_only(calls + self._items // 4)
        while (details := await details_of(self.handle)).ended < before + 50:
            await asyncio.sleep(0.05)
        calls = self._web.calls.total()
        await self._web.answer_only(calls)
        while self._web.calls.total() == calls:
            await asyncio.sleep(0.01)
        assert details.ended < self._items
        self.details = details


@pytest.mark.parametrize(("at_once", "kills", "items"), [(AT_ONCE, 1, ITEMS), (64, 1, ITEM_COUNT)])
async def test_rows_of_a_killed_frame_are_stored_once(
    servers: Addresses, base: Base, at_once: int, kills: int, items: int
) -> None:
    """A call whose rows had been committed is taken from the ledger, so only what was under way is called again."""
    row_counts: dict[str, int] = {}
    async with site() as web:
        frames = Frames(servers, web, SINK.replace("TABLE", base.table), at_once, items)

        async def kill() -> None:
            await frames.in_the_middle()
            row_counts.update({path: web.calls[path] for path in [f"/size/{row}" for row in await base.rows()]})

        handle = await frames.run(*[kill] * kills)
        repeated_paths = {path for path, count in web.calls.items() if count > 1}
    assert await base.rows() == list(range(items))
    assert len(web.calls) == items
    assert len(repeated_paths) <= at_once * kills
    assert row_counts
    assert {path: web.calls[path] for path in row_counts} == row_counts
    await audit_run(servers, handle)


async def audit_run(servers: Addresses, handle: RunHandle) -> None:
    client = await connect_temporal(servers.temporal, dsn=servers.postgres)
    await follow_execution(client, servers.postgres, handle.workflow.id)
    assert await audit_execution(servers.postgres, handle.execution_id) == []


async def test_a_worker_that_is_killed_while_it_stores_a_batch_stores_nothing_of_it(
    servers: Addresses, base: Base
) -> None:
    """It has written the entries and waits for a lock with the rows when it is killed."""
    holder = await asyncpg.connect(servers.playbooks)
    blocked_query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = 'playbooks'"
    async with site() as web:
        frames = Frames(servers, web, SINK.replace("TABLE", base.table), 64)
        lock = holder.transaction()

        async def is_locked() -> None:
            while web.calls.total() < 64:
                await asyncio.sleep(0.01)
            await lock.start()
            await holder.execute(f"lock table {base.table} in share mode")
            await web.answer_only(64)
            while not await holder.fetchval(blocked_query):
                await holder.execute("select pg_stat_clear_snapshot()")  # a transaction keeps the first look
                await asyncio.sleep(0.005)

        async def let_go() -> None:
            await lock.rollback()
            assert await base.rows() == []
            await frames.in_the_middle()

        handle = await frames.run(is_locked, let_go)
    await holder.close()
    assert await base.rows() == list(range(ITEMS))
    assert max(web.calls.values()) <= 3
    await audit_run(servers, handle)


async def test_no_item_in_a_heartbeat_is_called_again(servers: Addresses) -> None:
    async with site() as web:
        frames = Frames(servers, web, "spec: {}")
        await frames.run(frames.in_the_middle)
    assert frames.details.ended_prefix > 0
    assert {web.calls[f"/size/{item}"] for item in range(frames.details.ended_prefix)} == {1}
    assert {web.calls[f"/size/{item}"] for item in range(ITEMS)} <= {1, 2}
