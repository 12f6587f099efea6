"""Sinks: exactly once, whatever happens between commit and report."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from noetl_activities import postgres as postgres_tool
from noetl_activities.errors import ConfigError, SinkError
from noetl_activities.sinks import Stored, store

from .conftest import Context, request


async def rows(context: Context, sql: str) -> Any:
    outcome = await postgres_tool.TOOL.run(request("postgres", "pg", query=sql), context)
    assert outcome.error is None, outcome.error
    return outcome.result["rows"]


@pytest.fixture
async def table(postgres: Context) -> str:
    name = f"sunk_{uuid.uuid4().hex[:8]}"
    await rows(
        postgres, f"create table {name} (id int primary key, name text, at timestamptz, doc jsonb, score float8)"
    )
    return name


async def sink(
    context: Context, config: dict[str, Any], result: Any = None, mode: str = "insert", key: str = ""
) -> Stored:
    return await store("postgres", config, mode, key or uuid.uuid4().hex, result, "pg", context)


async def test_the_same_key_stores_once(postgres: Context, table: str) -> None:
    """A crash between commit and report, or a retry, comes with the same key."""
    first = await sink(postgres, {"table": table}, [{"id": 1}, {"id": 2}], key=f"once {table}")
    second = await sink(postgres, {"table": table}, [{"id": 3}], key=f"once {table}")
    assert (first.rows, first.duplicate) == (2, False)
    assert (second.rows, second.duplicate) == (0, True)
    assert await rows(postgres, f"select count(*) as n from {table}") == [{"n": 2}]


async def test_rivals_with_the_same_key_store_once(postgres: Context, table: str) -> None:
    rivals = (sink(postgres, {"table": table, "data": {"id": n}}, key=f"rival {table}") for n in range(8))
    found = await asyncio.gather(*rivals)
    assert sorted(one.duplicate for one in found) == [False] + [True] * 7
    assert await rows(postgres, f"select count(*) as n from {table}") == [{"n": 1}]


async def test_a_failed_sink_leaves_neither_rows_nor_key(postgres: Context, table: str) -> None:
    twice = {"table": table, "data": [{"id": 1}, {"id": 1}]}
    with pytest.raises(SinkError, match="23505"):
        await sink(postgres, twice, key=f"failed {table}")
    assert (await sink(postgres, {"table": table, "data": {"id": 1}}, key=f"failed {table}")).rows == 1


async def test_values_fit_their_columns(postgres: Context, table: str) -> None:
    data = {"id": "7", "name": 5, "at": "2026-01-02T03:04:05Z", "doc": {"a": 1}, "score": 2}
    await sink(postgres, {"table": table, "data": data})
    [row] = await rows(postgres, f"select * from {table}")
    assert row == {"id": 7, "name": "5", "at": "2026-01-02T03:04:05+00:00", "doc": {"a": 1}, "score": 2.0}


async def test_text_is_bound_never_spliced(postgres: Context, table: str) -> None:
    evil = f"'); drop table {table}; --"
    await sink(postgres, {"table": table, "data": {"id": 1, "name": evil}})
    assert await rows(postgres, f"select name from {table}") == [{"name": evil}]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("upsert", [(1, "new"), (2, "old")]),
        ("merge", [(1, "new"), (2, "old")]),
        ("replace", [(1, "new")]),
    ],
)
async def test_modes(postgres: Context, table: str, mode: str, expected: list[tuple[int, str]]) -> None:
    await sink(postgres, {"table": table, "data": [{"id": 1, "name": "old"}, {"id": 2, "name": "old"}]})
    await sink(postgres, {"table": table, "key": "id", "data": {"id": 1, "name": "new"}}, mode=mode)
    found = await rows(postgres, f"select id, name from {table} order by id")
    assert [(one["id"], one["name"]) for one in found] == expected


async def test_a_statement_runs_once_for_each_row(postgres: Context, table: str) -> None:
    sql = f"insert into {table} (id, name) values (:id, :name::text)"
    found = await sink(postgres, {"statement": sql}, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    assert found.rows == 2
    assert await rows(postgres, f"select id, name from {table} order by id") == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"table": "no_such_table", "data": {"id": 1}}, "there is no table no_such_table"),
        ({"table": "x; drop table y", "data": {"id": 1}}, "write table or schema.table"),
        ({"data": {"id": 1}}, "write table or schema.table"),
        ({"statement": "select :nope", "data": {"id": 1}}, "names :nope"),
    ],
)
async def test_wrong_sinks_say_what_to_do(postgres: Context, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await sink(postgres, config)


async def test_an_unknown_column_is_named(postgres: Context, table: str) -> None:
    with pytest.raises(ConfigError, match="no column 'nope': it has at, doc, id, name, score"):
        await sink(postgres, {"table": table, "data": {"id": 1, "nope": 2}})


async def test_upsert_needs_a_key(postgres: Context, table: str) -> None:
    with pytest.raises(ConfigError, match="needs key"):
        await sink(postgres, {"table": table, "data": {"id": 1}}, mode="upsert")


async def test_create_makes_the_table_from_the_data(postgres: Context) -> None:
    name = f"made_{uuid.uuid4().hex[:8]}"
    data = {"n": 1, "t": "x", "d": {"a": 1}, "b": True, "f": 1.5}
    await sink(postgres, {"table": name, "create": True, "data": data})
    assert await rows(postgres, f"select * from {name}") == [data]


async def test_duckdb_stores_once_in_its_file(tmp_path: Path) -> None:
    config = {"table": "t", "database": str(tmp_path / "s.duckdb"), "data": [{"id": 1, "v": [1]}]}
    first = await store("duckdb", config, "append", "42/k", None, None, Context())
    second = await store("duckdb", config, "append", "42/k", None, None, Context())
    assert (first.rows, first.duplicate, second.duplicate) == (1, False, True)


async def test_an_unknown_sink_is_refused() -> None:
    with pytest.raises(ConfigError, match="there are duckdb, postgres"):
        await store("ftp", {}, "insert", "k", None, None, Context())
