"""Sinks inside of ``pooling`` share connections; a lost one is not lent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest

from noetl_activities import postgres_pool
from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.postgres_pool import MAX_CONNECTIONS, lent, pooling
from noetl_temporal.stack.addresses import Addresses


class Context:
    """A call's surroundings."""

    attempt = 1

    def __init__(self, servers: Addresses) -> None:
        self._credentials = Credentials(CredentialSource(environment=servers.environment()))

    def heartbeat(self) -> None: ...

    async def credential(self, auth: Any) -> Any:
        return await self._credentials.resolve(auth)


@pytest.fixture
def context(servers: Addresses) -> Context:
    return Context(servers)


@pytest.fixture
async def other(servers: Addresses) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(servers.playbooks)
    yield connection
    await connection.close()


async def process(context: Context) -> int:
    """The server process that a use is served by."""
    async with lent("pg_local", {}, context) as connection:
        await asyncio.sleep(0.01)
        return int(await connection.fetchval("select pg_backend_pid()"))


async def test_uses_one_after_the_other_share_a_connection(context: Context) -> None:
    async with pooling():
        assert await process(context) == await process(context)


async def test_without_a_pool_each_use_connects(context: Context) -> None:
    assert await process(context) != await process(context)


async def test_uses_at_once_are_bounded(context: Context) -> None:
    async with pooling():
        assert len(set(await asyncio.gather(*(process(context) for _ in range(30))))) == MAX_CONNECTIONS


async def test_a_connection_whose_use_failed_is_not_lent_again(context: Context) -> None:
    async with pooling():
        first = await process(context)
        with pytest.raises(asyncpg.PostgresError):
            async with lent("pg_local", {}, context) as connection:
                await connection.execute("select 1 / 0")
        assert await process(context) != first


async def test_a_connection_that_the_server_ended_is_not_lent_again(
    context: Context, other: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "CHECK_SECONDS", 0)
    async with pooling():
        first = await process(context)
        await other.execute("select pg_terminate_backend($1)", first)
        assert await process(context) != first


async def test_the_pool_closes_what_it_lent(context: Context, other: asyncpg.Connection[asyncpg.Record]) -> None:
    async with pooling():
        first = await process(context)
    async with asyncio.timeout(30):
        while await other.fetchval("select count(*) from pg_stat_activity where pid = $1", first):
            await asyncio.sleep(0.02)
