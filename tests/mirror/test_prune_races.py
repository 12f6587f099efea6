"""A payload that somebody stores or owns while a prune is about to remove it, over connections of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverStoreContext

from noetl_temporal.mirror.prune import RemovedPayloads, delete_unowned
from noetl_temporal.mirror.sql import query
from noetl_temporal.payloads.payload_store import PayloadStore
from tests.mirror.conftest import Log

VALUE = Payload(data=b"a" * 5000)
SIZE = VALUE.ByteSize()

T = TypeVar("T")


@pytest.fixture
async def rival(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def _store(dsn: str) -> str:
    """By a process that has not stored it lately; the key."""
    [claim] = await PayloadStore(dsn).store(StorageDriverStoreContext(), [VALUE])
    return claim.claim_data["key"]


async def _stored_long_ago(dsn: str, database: asyncpg.Connection) -> str:
    key = await _store(dsn)
    await database.execute("UPDATE noetl.payload SET used_at = now() - interval '40 days'")
    return key


async def _delete(database: asyncpg.Connection) -> RemovedPayloads:
    cutoff: datetime = await database.fetchval("SELECT now() - $1::interval", timedelta(days=30))
    async with asyncio.timeout(60):
        return await delete_unowned(database, cutoff, set())


async def _is_there(database: asyncpg.Connection, key: str) -> bool:
    return bool(await database.fetchval("SELECT count(*) FROM noetl.payload WHERE key = $1", key))


async def _start_and_block(database: asyncpg.Connection, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The work, once it waits for this connection's transaction."""
    task = asyncio.create_task(work)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    async with asyncio.timeout(60):
        while not await database.fetchval(waiting):
            assert not task.done()
            await asyncio.sleep(0.01)
    return task


async def test_storing_a_payload_during_its_removal_inserts_it_again(
    dsn: str, log: Log, rival: asyncpg.Connection
) -> None:
    key = await _stored_long_ago(dsn, log.database)
    async with log.database.transaction():
        assert await _delete(log.database) == RemovedPayloads(1, SIZE)
        storing = await _start_and_block(log.database, _store(dsn))
    assert await storing == key
    assert await _is_there(rival, key)
    assert await _delete(rival) == RemovedPayloads()


async def test_a_payload_that_is_being_stored_again_is_not_removed(
    dsn: str, log: Log, rival: asyncpg.Connection
) -> None:
    key = await _stored_long_ago(dsn, log.database)
    async with rival.transaction():
        await rival.execute("UPDATE noetl.payload SET used_at = now()")
        assert await _delete(log.database) == RemovedPayloads()
    assert await _delete(log.database) == RemovedPayloads()
    assert await _is_there(log.database, key)


async def test_a_payload_that_was_stored_again_is_not_removed(dsn: str, log: Log) -> None:
    key = await _stored_long_ago(dsn, log.database)
    assert await _store(dsn) == key
    assert await _delete(log.database) == RemovedPayloads()


async def test_a_recently_stored_payload_is_not_written_again(dsn: str, log: Log) -> None:
    await _store(dsn)
    before = await log.database.fetchval("SELECT xmin FROM noetl.payload")
    await _store(dsn)
    assert await log.database.fetchval("SELECT xmin FROM noetl.payload") == before


async def test_a_payload_that_gets_an_owner_is_not_removed(dsn: str, log: Log, rival: asyncpg.Connection) -> None:
    key = await _stored_long_ago(dsn, log.database)
    async with rival.transaction():
        await rival.execute(query("add_owner"), 7, [key])
        assert await _delete(log.database) == RemovedPayloads()
    assert await _delete(log.database) == RemovedPayloads()
    assert await _is_there(log.database, key)


async def test_a_payload_that_is_being_removed_gets_no_owner(dsn: str, log: Log, rival: asyncpg.Connection) -> None:
    key = await _stored_long_ago(dsn, log.database)
    async with log.database.transaction():
        await _delete(log.database)
        owning = await _start_and_block(log.database, rival.execute(query("add_owner"), 7, [key]))
    await owning
    assert await rival.fetchval("SELECT count(*) FROM noetl.payload_owner") == 0


async def test_concurrent_removals_lose_no_stored_or_owned_payload(
    dsn: str, log: Log, rival: asyncpg.Connection
) -> None:
    for _ in range(60):
        key = await _stored_long_ago(dsn, log.database)
        await asyncio.gather(_delete(log.database), _store(dsn))
        assert await _is_there(log.database, key)
        await log.database.execute("UPDATE noetl.payload SET used_at = now() - interval '40 days'")
        removed_count, _ = await asyncio.gather(_delete(log.database), rival.execute(query("add_owner"), 7, [key]))
        is_owned = bool(await rival.fetchval("DELETE FROM noetl.payload_owner RETURNING 1"))
        assert is_owned == await _is_there(log.database, key) == (removed_count == RemovedPayloads())
