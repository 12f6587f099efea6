"""A worker that is told to stop: calls go on within its grace, and are run again elsewhere after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

import pytest

from noetl_temporal.machine.call import AttemptCounts
from noetl_temporal.run_tool import MAX_LOST
from noetl_temporal.stack.addresses import Addresses

from .reports import reports_of
from .servers import Site, site
from .test_stored_once import submit, until
from .worker_process import worker_process

CALL = '  - step: start\n    tool: {{kind: http, method: POST, url: "{url}/size/1"{more}}}\n'


@pytest.fixture
async def web() -> AsyncGenerator[Site]:
    async with site() as found:
        found.open.clear()
        yield found


def has_calls(web: Site, number: int) -> bool:
    return web.calls.total() == number


async def test_a_call_ends_within_the_grace(servers: Addresses, web: Site) -> None:
    async with worker_process(servers.temporal, servers.postgres) as first:
        handle = await submit(servers, CALL.format(url=web.url, more=""))
        await until(lambda: web.calls.total() == 1)
        first.stop()
        await until(lambda: "stopping" in first.output)
        async with worker_process(servers.temporal, servers.postgres):
            web.open.set()
            report = await handle.result()
        assert report.status == "completed"
        assert await first.ended() == 0
    assert web.calls.total() == 1
    [call] = await reports_of(handle, servers.postgres)
    assert [one.status for one in call.attempts] == ["ok"]


async def test_deploys_neither_lose_a_call_nor_give_it_up(servers: Addresses, web: Site) -> None:
    handle = await submit(servers, CALL.format(url=web.url, more=""))
    deploys = MAX_LOST + 1
    for number in range(1, deploys + 1):
        async with worker_process(servers.temporal, servers.postgres, "--grace", "0.2") as worker:
            await until(partial(has_calls, web, number))
            worker.stop()
            assert await worker.ended() == 0
    web.open.set()
    async with worker_process(servers.temporal, servers.postgres):
        report = await handle.result()
    assert report.status == "completed"
    [call] = await reports_of(handle, servers.postgres)
    assert [one.status for one in call.attempts] == ["shutdown"] * deploys + ["ok"]
    assert call.counts == AttemptCounts(total=deploys + 1, used=1, ok=1, cut=deploys)


async def test_a_call_that_may_not_be_repeated_is_not_after_a_cut(servers: Addresses, web: Site) -> None:
    handle = await submit(servers, CALL.format(url=web.url, more=", spec: {idempotent: false}"))
    async with worker_process(servers.temporal, servers.postgres, "--grace", "0.2") as worker:
        await until(lambda: web.calls.total() == 1)
        worker.stop()
        assert await worker.ended() == 0
    async with worker_process(servers.temporal, servers.postgres):
        report = await handle.result()
    assert report.status == "failed"
    assert report.failures[0].kind == "unknown_outcome"
    assert web.calls.total() == 1
