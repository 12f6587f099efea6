"""Connections that a worker keeps for the next call: the same one, as good as new, and never one in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import asyncpg
import pytest

from noetl_activities.outcome import Outcome
from noetl_activities.postgres import pool as postgres_pool
from noetl_activities.postgres import tool as postgres_tool
from noetl_activities.postgres.pool import Connection, ConnectionPool, pooled_connections
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context, request

PID = "select pg_backend_pid() as pid"
SLEEP = "select pg_sleep(60) as kept"
ASLEEP = f"state = 'active' and query = '{SLEEP}'"


@pytest.fixture
async def kept_connections() -> AsyncGenerator[None]:
    async with pooled_connections():
        yield


@pytest.fixture
def context(postgres: Context) -> Context:
    return postgres


@pytest.fixture
async def owner(servers: Addresses) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(servers.postgres)
    yield connection
    await connection.close()


async def run(context: Context, sql: str) -> Outcome:
    return await postgres_tool.TOOL.run(request("postgres", "pg", query=sql), context)


async def value(context: Context, sql: str) -> Any:
    result: Any = (await run(context, sql)).result
    [row] = result["rows"]
    [value] = row.values()
    return value


async def test_each_call_has_a_connection_of_its_own_where_no_worker_serves(context: Context) -> None:
    assert await value(context, PID) != await value(context, PID)


@pytest.mark.usefixtures("kept_connections")
async def test_the_next_call_has_the_same_connection(context: Context) -> None:
    assert await value(context, PID) == await value(context, PID)


@pytest.mark.usefixtures("kept_connections")
async def test_calls_at_the_same_time_have_one_each(context: Context) -> None:
    slow = "select pg_backend_pid() as pid, pg_sleep(0.2)::text as slept"
    results: list[Any] = [answer.result for answer in await asyncio.gather(*(run(context, slow) for _ in range(3)))]
    assert len({result["rows"][0]["pid"] for result in results}) == 3


@pytest.mark.usefixtures("kept_connections")
@pytest.mark.parametrize(
    ("left", "query", "clean"),
    [
        ("set search_path to nowhere", "select current_setting('search_path') as x", '"$user", public'),
        ("create role kept_guest; set role kept_guest", "select current_user = session_user as x", True),
        ("create temp table leftover (a int)", "select to_regclass('leftover')::text as x", None),
        ("prepare leftover as select 1", "select count(*) as x from pg_prepared_statements where name = 'leftover'", 0),
        (
            "select pg_advisory_lock(4711)",
            "select count(*) as x from pg_locks where locktype = 'advisory' and objid = 4711",
            0,
        ),
    ],
    ids=["setting", "role", "table", "statement", "lock"],
)
async def test_nothing_of_a_call_is_seen_by_the_next(context: Context, left: str, query: str, clean: Any) -> None:
    if "role" in left:
        await run(context, "drop role if exists kept_guest")
    before = await value(context, PID)
    assert (await run(context, left)).status == "ok"
    assert await value(context, query) == clean
    assert await value(context, PID) == before


@pytest.mark.usefixtures("kept_connections")
@pytest.mark.parametrize("sql", ["select 1/0", "vacuum; begin; select 1"], ids=["failed", "open transaction"])
async def test_a_connection_in_doubt_is_not_kept(context: Context, sql: str) -> None:
    before = await value(context, PID)
    await run(context, sql)
    assert await value(context, PID) != before


@pytest.mark.usefixtures("kept_connections")
async def test_a_cancelled_call_leaves_no_connection(
    context: Context, owner: asyncpg.Connection[asyncpg.Record]
) -> None:
    pid = await value(context, PID)
    task = asyncio.create_task(run(context, SLEEP))
    assert await sleeping(owner) == pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await value(context, PID) != pid


@pytest.mark.usefixtures("kept_connections")
@pytest.mark.parametrize("trusted", [0.0, 60.0], ids=["asked", "trusted"])
async def test_a_connection_that_the_server_ended_is_not_used(
    context: Context,
    owner: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
    trusted: float,
) -> None:
    """One that is trusted is used until this process has noticed, which is some time after the server has ended it."""
    returned = given_back(monkeypatch)
    monkeypatch.setattr(postgres_pool, "TRUSTED_SECONDS", trusted)
    pid = await value(context, PID)
    await owner.execute("select pg_terminate_backend($1)", pid)
    await wait_until_gone(owner, pid)
    async with asyncio.timeout(30):
        while trusted and not returned[-1].is_closed():
            await asyncio.sleep(0.01)
    assert await value(context, PID) != pid


def given_back(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The connections that calls give back."""
    connections: list[Connection] = []
    really = ConnectionPool.release

    async def release(self: ConnectionPool, arguments: Mapping[str, Any], connection: Connection) -> None:
        connections.append(connection)
        await really(self, arguments, connection)

    monkeypatch.setattr(ConnectionPool, "release", release)
    return connections


async def sleeping(owner: asyncpg.Connection[asyncpg.Record]) -> int:
    """The process of Postgres that executes SLEEP, once it does."""
    async with asyncio.timeout(30):
        while not (pid := await owner.fetchval(f"select pid from pg_stat_activity where {ASLEEP}")):
            await asyncio.sleep(0.01)
    return int(pid)


async def is_there(owner: asyncpg.Connection[asyncpg.Record], pid: int) -> bool:
    return bool(await owner.fetchval("select true from pg_stat_activity where pid = $1", pid))


async def wait_until_gone(owner: asyncpg.Connection[asyncpg.Record], pid: int) -> None:
    async with asyncio.timeout(30):
        while await is_there(owner, pid):
            await asyncio.sleep(0.01)


async def test_they_are_closed_when_the_worker_ends(
    context: Context, owner: asyncpg.Connection[asyncpg.Record]
) -> None:
    async with pooled_connections():
        async with pooled_connections():
            pid = await value(context, PID)
        assert await value(context, PID) == pid
    await wait_until_gone(owner, pid)


async def test_one_that_is_idle_for_long_is_closed(
    context: Context, owner: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "IDLE_SECONDS", 0.05)
    async with pooled_connections():
        await wait_until_gone(owner, await value(context, PID))


@pytest.mark.usefixtures("kept_connections")
async def test_few_idle_ones_are_kept(
    context: Context, owner: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "MAX_IDLE", 1)
    slow = "select pg_backend_pid() as pid, pg_sleep(0.2)::text as slept"
    results: list[Any] = [answer.result for answer in await asyncio.gather(*(run(context, slow) for _ in range(3)))]
    pids = [result["rows"][0]["pid"] for result in results]
    async with asyncio.timeout(10):
        while sum([await is_there(owner, pid) for pid in pids]) != 1:
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("kept_connections")
async def test_a_call_waits_while_as_many_are_open_as_may_be(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_pool, "MAX_OPEN", 2)
    slow = "select pg_backend_pid() as pid, pg_sleep(0.05)::text as slept"
    results: list[Any] = [answer.result for answer in await asyncio.gather(*(run(context, slow) for _ in range(8)))]
    assert len({result["rows"][0]["pid"] for result in results}) == 2


async def test_a_cancel_is_not_lost_where_the_connection_cannot_be_closed_in_time(
    context: Context, owner: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncpg's TimeoutError took the place of the cancel, and was reported as that of a server out of reach."""
    task = asyncio.create_task(run(context, SLEEP))
    await sleeping(owner)
    monkeypatch.setattr(postgres_pool, "CLOSE_SECONDS", 1e-6)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
