"""The payload store over real connections: few of them, kept open, and no value read twice by one process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverClaim, StorageDriverRetrieveContext, StorageDriverStoreContext

from noetl_temporal.connection_pools import MAX_CONNECTIONS, Connection, run_on_pool
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.payloads import payload_store
from noetl_temporal.payloads.payload_store import SEGMENT_ENCODING, PayloadStore
from noetl_temporal.stack.addresses import Addresses

from .servers import Proxy, proxy_to

SIZE = 70_000


@pytest.fixture
async def proxy(servers: Addresses) -> AsyncGenerator[Proxy]:
    await migrate(servers.postgres)
    async with proxy_to(servers.postgres) as proxy_:
        yield proxy_


def values(count: int) -> list[Payload]:
    return [Payload(data=secrets.token_bytes(SIZE)) for _ in range(count)]


async def store(dsn: str, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
    return await PayloadStore(dsn).store(StorageDriverStoreContext(), payloads)


async def read(dsn: str, claims: Sequence[StorageDriverClaim]) -> list[Payload]:
    return await PayloadStore(dsn).retrieve(StorageDriverRetrieveContext(), claims)


async def count_database_reads(proxy: Proxy, claims: Sequence[StorageDriverClaim]) -> int:
    """The number of values that are read from the database instead of the cache."""
    await proxy.disconnect()
    results = await asyncio.gather(*(read(proxy.dsn, [claim]) for claim in claims), return_exceptions=True)
    await proxy.restore()
    return sum(isinstance(error, OSError) for error in results)


async def test_many_uses_at_once_share_a_few_connections(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_store, "CACHE_BYTES", 0)
    payloads = values(30)
    claim_lists = await asyncio.gather(*(store(proxy.dsn, [payload_]) for payload_ in payloads))
    assert await asyncio.gather(*(read(proxy.dsn, claims) for claims in claim_lists)) == [
        [payload_] for payload_ in payloads
    ]
    assert 1 <= proxy.connection_count <= MAX_CONNECTIONS


async def test_a_server_restart_is_survived(proxy: Proxy) -> None:
    await store(proxy.dsn, values(1))
    await proxy.disconnect()
    await proxy.restore()
    await store(proxy.dsn, values(1))
    assert proxy.connection_count == 2


async def test_a_statement_that_loses_its_connection_is_run_once_more_on_a_fresh_one(proxy: Proxy) -> None:
    backends: list[int] = []

    async def terminate_once(connection: Connection) -> Any:
        backends.append(connection.get_server_pid())
        if len(backends) == 1:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return await connection.fetchval("SELECT 7")

    assert await run_on_pool(proxy.dsn, terminate_once) == 7
    assert len(set(backends)) == 2


async def test_an_unreachable_server_raises(proxy: Proxy) -> None:
    await proxy.disconnect()
    with pytest.raises(ConnectionRefusedError):
        await store(proxy.dsn, values(1))


async def test_the_end_of_an_event_loop_closes_its_connections(servers: Addresses) -> None:
    name = f"ending_{secrets.token_hex(4)}"
    dsn = f"{servers.postgres}?application_name={name}"
    connection = await asyncpg.connect(servers.postgres)
    try:
        for _ in range(2):
            claims = await asyncio.to_thread(asyncio.run, store(dsn, values(2)))
            assert len(claims) == 2
            async with asyncio.timeout(30):
                while await connection.fetchval(
                    f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'"
                ):
                    await asyncio.sleep(0.05)
    finally:
        await connection.close()


async def test_a_process_reads_a_value_once(proxy: Proxy, servers: Addresses) -> None:
    payloads = values(3)
    claims = await store(servers.postgres, payloads)
    assert await read(proxy.dsn, claims) == payloads
    assert await count_database_reads(proxy, claims) == 0


async def test_a_process_does_not_read_what_it_has_stored(proxy: Proxy) -> None:
    assert await count_database_reads(proxy, await store(proxy.dsn, values(3))) == 0


async def test_the_cache_is_bounded_and_evicts_the_least_recently_used(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_store, "CACHE_BYTES", 5 * SIZE)
    claims = await store(proxy.dsn, values(8))
    assert await count_database_reads(proxy, claims) == 4
    assert await count_database_reads(proxy, claims[4:]) == 0


async def test_storing_a_cached_value_again_keeps_it_in_the_cache(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_store, "CACHE_BYTES", 5 * SIZE)
    payloads = values(4)
    claims = await store(proxy.dsn, payloads)
    await store(proxy.dsn, payloads[:1])
    await store(proxy.dsn, values(1))
    assert [await count_database_reads(proxy, [claim]) for claim in claims] == [0, 1, 0, 0]


async def test_a_value_that_would_evict_most_others_is_not_cached(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_store, "CACHE_BYTES", 3 * SIZE)
    assert await count_database_reads(proxy, await store(proxy.dsn, values(1))) == 1


async def test_segments_of_frames_are_not_cached(proxy: Proxy) -> None:
    """A loop of a million items has some 200 MB of them, each of which is read once."""
    segment = Payload(metadata={"encoding": SEGMENT_ENCODING}, data=secrets.token_bytes(SIZE))
    claims = await store(proxy.dsn, [segment, *values(1)])
    assert [await count_database_reads(proxy, [claim]) for claim in claims] == [1, 0]
    assert await read(proxy.dsn, claims[:1]) == [segment]
    assert await count_database_reads(proxy, claims[:1]) == 1


async def test_the_cache_is_per_database(proxy: Proxy, servers: Addresses) -> None:
    assert urlsplit(proxy.dsn).port != urlsplit(servers.postgres).port
    assert await count_database_reads(proxy, await store(servers.postgres, values(1))) == 1


async def test_a_cached_value_is_stored_again_after_its_row_was_deleted(proxy: Proxy) -> None:
    payloads = values(1)
    [claim] = await store(proxy.dsn, payloads)
    connection = await asyncpg.connect(proxy.dsn)
    try:
        key = claim.claim_data["key"]
        await connection.execute("DELETE FROM noetl.payload WHERE key = $1", key)
        assert await read(proxy.dsn, [claim]) == payloads
        await store(proxy.dsn, payloads)
        assert await connection.fetchval("SELECT count(*) FROM noetl.payload WHERE key = $1", key) == 1
    finally:
        await connection.close()


async def test_a_changed_row_is_not_accepted(proxy: Proxy, servers: Addresses) -> None:
    """A key is the digest of its value, so whoever has a signed key has the value that was signed."""
    signed_value, other_value = values(2)
    [claim] = await store(servers.postgres, [signed_value])
    connection = await asyncpg.connect(servers.postgres)
    try:
        changed_data, key = other_value.SerializeToString(deterministic=True), claim.claim_data["key"]
        await connection.execute("UPDATE noetl.payload SET data = $1 WHERE key = $2", changed_data, key)
        with pytest.raises(LookupError, match="removed or changed"):
            await read(proxy.dsn, [claim])
        await connection.execute("DELETE FROM noetl.payload WHERE key = $1", key)
    finally:
        await connection.close()
