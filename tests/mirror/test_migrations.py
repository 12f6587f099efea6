from __future__ import annotations

import asyncio

import asyncpg

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.store import migrate


async def test_a_second_time_there_is_nothing_to_apply(empty_dsn: str) -> None:
    assert await migrate(empty_dsn) == [name for name, _ in sql.migrations()]
    assert await migrate(empty_dsn) == []


async def test_two_that_migrate_at_once_apply_each_migration_once(empty_dsn: str) -> None:
    first, second = await asyncio.gather(migrate(empty_dsn), migrate(empty_dsn))
    assert sorted(first + second) == [name for name, _ in sql.migrations()]


async def test_the_event_table_has_the_columns_of_upstream_in_their_order(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    records = await connection.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'noetl' AND table_name = 'event' "
        "ORDER BY ordinal_position"
    )
    await connection.close()
    names = [record["column_name"] for record in records]
    assert names[:24] == [
        "execution_id",
        "catalog_id",
        "event_id",
        "parent_event_id",
        "parent_execution_id",
        "created_at",
        "event_type",
        "node_id",
        "node_name",
        "node_type",
        "status",
        "duration",
        "context",
        "result",
        "meta",
        "error",
        "current_index",
        "current_item",
        "worker_id",
        "distributed_state",
        "context_key",
        "context_value",
        "trace_component",
        "stack_trace",
    ]
    assert names[24:26] == ["tenant_id", "organization_id"]


async def test_ids_of_the_database_rise_and_are_of_this_decade(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    ids = [await connection.fetchval("SELECT noetl.snowflake_id()") for _ in range(3)]
    age = await connection.fetchval(
        "SELECT extract(epoch FROM now() - to_timestamp((($1::bigint >> 23) + 1704067200000) / 1000.0))", ids[0]
    )
    await connection.close()
    assert ids == sorted(set(ids))
    assert 0 <= age < 60
