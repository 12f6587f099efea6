"""Sinks: exactly once, whatever happens between commit and report."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.errors import ConfigError, SinkError
from noetl_activities.postgres import tool as postgres_tool
from noetl_activities.sinks import Entry, SinkRequest, StoreResult, store
from noetl_activities.sinks.data import require_keys, sink_rows

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
) -> StoreResult:
    return await store(SinkRequest("postgres", config, mode, Entry(key or uuid.uuid4().hex), result, "pg"), context)


async def test_the_same_key_stores_once(postgres: Context, table: str) -> None:
    """A crash between commit and report, or a retry, comes with the same key."""
    first = await sink(postgres, {"table": table}, [{"id": 1}, {"id": 2}], key=f"once {table}")
    second = await sink(postgres, {"table": table}, [{"id": 3}], key=f"once {table}")
    assert (first.rows, first.duplicate) == (2, False)
    assert (second.rows, second.duplicate) == (0, True)
    assert await rows(postgres, f"select count(*) as n from {table}") == [{"n": 2}]


async def test_concurrent_attempts_with_one_key_store_once(postgres: Context, table: str) -> None:
    rivals = (sink(postgres, {"table": table, "data": {"id": n}}, key=f"rival {table}") for n in range(8))
    results = await asyncio.gather(*rivals)
    assert sorted(result.duplicate for result in results) == [False] + [True] * 7
    assert await rows(postgres, f"select count(*) as n from {table}") == [{"n": 1}]


async def test_a_failed_sink_leaves_neither_rows_nor_key(postgres: Context, table: str) -> None:
    duplicate_rows = {"table": table, "data": [{"id": 1}, {"id": 1}]}
    with pytest.raises(SinkError, match="23505"):
        await sink(postgres, duplicate_rows, key=f"failed {table}")
    assert (await sink(postgres, {"table": table, "data": {"id": 1}}, key=f"failed {table}")).rows == 1


@pytest.mark.parametrize(
    ("mapping", "data", "expected"),
    [
        ({"id": "key", "name": "user.name"}, [{"key": 1, "user": {"name": "Ada"}}], [(1, "Ada")]),
        ({"id": "id", "name": "name"}, [{"id": 1, "name": "Ada", "more": 1}, {"id": 2}], [(1, "Ada"), (2, None)]),
        ({"id": "value"}, [7], [(7, None)]),
        ({"id": "id"}, [], []),
        ({"id": 5, "name": None}, [{"id": 1, "name": "Ada"}], [(5, None)]),
    ],
)
async def test_a_mapping_fills_columns_from_fields_and_values(
    postgres: Context, table: str, mapping: dict[str, Any], data: Any, expected: list[tuple[int, str | None]]
) -> None:
    await sink(postgres, {"table": table, "mapping": mapping}, data)
    stored_rows = await rows(postgres, f"select id, name from {table} order by id")
    assert [(row["id"], row["name"]) for row in stored_rows] == expected


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"id": "key"}, 'the column "id" is filled from "key", but the data has id, name'),
        ({"id": "name.first"}, 'the column "id" is filled from "name.first"'),
        ("id", "the mapping of a sink is 'id': write COLUMN: FIELD for each column"),
    ],
)
async def test_a_mapping_of_no_field_is_a_mistake(postgres: Context, table: str, mapping: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await sink(postgres, {"table": table, "mapping": mapping}, [{"id": 1, "name": "Ada"}])


async def test_values_fit_their_columns(postgres: Context, table: str) -> None:
    data = {"id": "7", "name": 5, "at": "2026-01-02T03:04:05Z", "doc": {"a": 1}, "score": 2}
    await sink(postgres, {"table": table, "data": data})
    [row] = await rows(postgres, f"select * from {table}")
    assert row == {"id": 7, "name": "5", "at": "2026-01-02T03:04:05+00:00", "doc": {"a": 1}, "score": 2.0}


@pytest.mark.parametrize(
    ("config", "error"),
    [({}, SinkError), ({"statement": "select :name::text"}, ConfigError), ({"statement": "select '\0'"}, ConfigError)],
)
async def test_text_with_nul_is_reported_as_such(
    postgres: Context, table: str, config: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"contains a NUL character \(U\+0000\), which Postgres cannot store"):
        await sink(postgres, config or {"table": table}, [{"id": 1, "name": "a\0b"}])


FITS = [
    ("text[]", ["a", "b"], ["a", "b"]),
    ("int[]", [1, 2], [1, 2]),
    ("numeric", 0.1, 0.1),
    ("numeric(30,2)", "12345678901234567890.12", 12345678901234567890.12),
    ("boolean", 1, True),
    ("boolean", "no", False),
    ("interval", "1 day", 86400.0),
    ("timestamp", "2026-01-02 03:04", "2026-01-02T03:04:00"),
    ("date", "2026-01-02T03:04:05Z", "2026-01-02"),
    ("uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
    ("integer", 3.0, 3),
    ("text", {"a": 1}, '{"a": 1}'),
    ("json", "text", "text"),
    ("json", ' {"a": ["b"]}', {"a": ["b"]}),
    ("jsonb", '["\\u0027"]', ["'"]),
    ("jsonb", '"text"', "text"),
    ("jsonb", "[draft]", "[draft]"),
    ("jsonb", "[NaN]", "[NaN]"),
    ("jsonb", "5", "5"),
    ("inet", "10.0.0.1", "10.0.0.1"),
    ("int4range", "[1,5)", "[1,5)"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), FITS)
async def test_a_value_is_read_by_its_column(postgres: Context, type_: str, value: Any, expected: Any) -> None:
    name = f"fit_{uuid.uuid4().hex[:8]}"
    await rows(postgres, f"create table {name} (v {type_})")
    await sink(postgres, {"table": name, "data": {"v": value}})
    assert await rows(postgres, f"select v from {name}") == [{"v": expected}]


async def test_numbers_stay_exact(postgres: Context) -> None:
    name = f"exact_{uuid.uuid4().hex[:8]}"
    await rows(postgres, f"create table {name} (v numeric)")
    await sink(postgres, {"table": name, "data": [{"v": 0.1}, {"v": "12345678901234567890.12"}]})
    assert await rows(postgres, f"select v::text from {name} order by v") == [
        {"v": "0.1"},
        {"v": "12345678901234567890.12"},
    ]


async def test_a_value_that_does_not_fit_is_reported(postgres: Context, table: str) -> None:
    with pytest.raises(SinkError, match='invalid input syntax for type integer: "five"') as caught:
        await sink(postgres, {"table": table, "data": {"id": "five"}})
    assert (caught.value.outcome.pg or {})["sqlstate"] == "22P02"


async def test_a_column_that_a_row_does_not_name_keeps_what_it_has(postgres: Context) -> None:
    name = f"kept_{uuid.uuid4().hex[:8]}"
    await rows(postgres, f"create table {name} (id int primary key, a text default 'new', b text)")
    await sink(postgres, {"table": name, "data": [{"id": 1, "b": "x"}, {"id": 2, "a": "own", "b": "y"}]})
    await sink(postgres, {"table": name, "key": "id", "data": [{"id": 1, "b": "z"}]}, mode="upsert")
    assert await rows(postgres, f"select * from {name} order by id") == [
        {"id": 1, "a": "new", "b": "z"},
        {"id": 2, "a": "own", "b": "y"},
    ]


async def test_unquoted_names_are_folded_as_in_sql(postgres: Context) -> None:
    name = f"Caps_{uuid.uuid4().hex[:8]}"
    await rows(postgres, f"create table {name} (userId int primary key)")
    await sink(postgres, {"table": name, "key": "userId", "data": {"userId": 1}}, mode="upsert")
    assert await rows(postgres, f"select * from {name}") == [{"userid": 1}]


async def test_replacing_by_nothing_leaves_nothing(postgres: Context, table: str) -> None:
    await sink(postgres, {"table": table, "data": {"id": 1}})
    await sink(postgres, {"table": table, "data": []}, mode="replace")
    assert await rows(postgres, f"select * from {table}") == []


@pytest.mark.parametrize(
    ("statement", "params", "expected"),
    [
        ("insert into {t} (id, name) values (:id, 'at :noon')", {"id": "5"}, (5, "at :noon")),
        ("insert into {t} (id, name) values (:id, $$:x$$) -- :y", {"id": 5}, (5, ":x")),
        ("insert into {t} (id, name) values (:id::int, E'it\\'s :z' /* :q */)", {"id": 5}, (5, "it's :z")),
        ("insert into {t} (id, name) values ($1, $2)", ["5", 6], (5, "6")),
        ("insert into {t} (id, name) values (:id, (array['a', 'b'])[1:1]::text)", {"id": 5}, (5, "{a}")),
    ],
)
async def test_params_of_a_statement(
    postgres: Context, table: str, statement: str, params: Any, expected: tuple[int, str]
) -> None:
    assert (await sink(postgres, {"statement": statement.format(t=table), "params": params})).rows == 1
    [row] = await rows(postgres, f"select id, name from {table}")
    assert (row["id"], row["name"]) == expected


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
async def test_modes_of_sinks(postgres: Context, table: str, mode: str, expected: list[tuple[int, str]]) -> None:
    await sink(postgres, {"table": table, "data": [{"id": 1, "name": "old"}, {"id": 2, "name": "old"}]})
    await sink(postgres, {"table": table, "key": "id", "data": {"id": 1, "name": "new"}}, mode=mode)
    stored_rows = await rows(postgres, f"select id, name from {table} order by id")
    assert [(entry["id"], entry["name"]) for entry in stored_rows] == expected


async def test_a_statement_runs_once_for_each_row(postgres: Context, table: str) -> None:
    sql = f"insert into {table} (id, name) values (:id, :name::text)"
    result = await sink(postgres, {"statement": sql}, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    assert result.rows == 2
    assert await rows(postgres, f"select id, name from {table} order by id") == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"table": "no_such_table", "data": {"id": 1}},
            "there is no table no_such_table: create it in an earlier step",
        ),
        ({"table": "x; drop table y", "data": {"id": 1}}, "write table or schema.table"),
        ({"data": {"id": 1}}, "write table or schema.table"),
        ({"statement": "select :nope", "data": {"id": 1}}, "uses :nope"),
        ({"statement": "select $1::int", "params": [1, 2]}, "has 1 parameter "),
    ],
)
async def test_wrong_sinks_say_what_to_do(postgres: Context, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await sink(postgres, config)


async def test_a_row_without_columns_is_refused(postgres: Context, table: str) -> None:
    with pytest.raises(ConfigError, match="has no columns"):
        await sink(postgres, {"table": table, "data": [{}]})


async def test_an_unknown_column_is_named(postgres: Context, table: str) -> None:
    with pytest.raises(ConfigError, match="no column 'nope': it has at, doc, id, name, score"):
        await sink(postgres, {"table": table, "data": {"id": 1, "nope": 2}})


async def test_upsert_needs_a_key(postgres: Context, table: str) -> None:
    with pytest.raises(ConfigError, match="needs key"):
        await sink(postgres, {"table": table, "data": {"id": 1}}, mode="upsert")


@pytest.mark.parametrize(
    "config",
    [
        {"data": [{"a": 1}]},
        {"data": [{"a": 1, "b": 2}, {"a": 3}]},
        {"data": [{"x": 1, "y": 2}], "mapping": {"a": "x"}},
    ],
)
async def test_an_upsert_of_a_row_without_its_key_stores_nothing(postgres: Context, config: dict[str, Any]) -> None:
    name = f"keyless_{uuid.uuid4().hex[:8]}"
    await rows(postgres, f"create table {name} (a int, b int, unique (a, b))")
    with pytest.raises(ConfigError, match=r'a row lacks the key column "b": its columns are a$'):
        await sink(postgres, {"table": name, "key": ["a", "b"], **config}, mode="upsert")
    assert await rows(postgres, f"select * from {name}") == []


@pytest.mark.usefixtures("duckdb_files")
async def test_an_upsert_into_duckdb_of_a_row_without_its_key_is_refused() -> None:
    config = {"table": "t", "key": "id", "data": [{"a": 1}]}
    with pytest.raises(ConfigError, match=r'a row lacks the key column "id": its columns are a$'):
        await store(SinkRequest("duckdb", config, "upsert", Entry("keyless")), Context())


@pytest.mark.usefixtures("duckdb_files")
async def test_duckdb_stores_once_in_its_file(tmp_path: Path) -> None:
    config = {"table": "t", "database": str(tmp_path / "s.duckdb"), "data": [{"id": 1, "v": [1]}]}
    first = await store(SinkRequest("duckdb", config, "append", Entry("42/k")), Context())
    second = await store(SinkRequest("duckdb", config, "append", Entry("42/k")), Context())
    assert (first.rows, first.duplicate, second.duplicate) == (1, False, True)


async def duckdb_rows(file: Path, sql: str) -> Any:
    outcome = await duckdb_tool.TOOL.run(request("duckdb", query=sql, database=str(file)), Context())
    assert outcome.error is None, outcome.error
    return outcome.result["rows"]


@pytest.mark.usefixtures("duckdb_files")
async def test_duckdb_runs_the_statements_of_a_sink_once(tmp_path: Path) -> None:
    file = tmp_path / "s.duckdb"
    text = "create table if not exists t (id int); insert into t values (1); select * from t"
    config = {"statement": text, "database": str(file)}
    first = await store(
        SinkRequest("duckdb", config, "insert", Entry("42/k", outcome="{}", call_key="42/c"), None, None), Context()
    )
    second = await store(SinkRequest("duckdb", config, "insert", Entry("42/k")), Context())
    assert (first.is_in_ledger, first.duplicate, second.duplicate) == (True, False, True)
    assert await duckdb_rows(file, "select id from t") == [{"id": 1}]
    bound_config = {"statement": "insert into t values (?)", "params": [2], "database": str(file)}
    await store(SinkRequest("duckdb", bound_config, "insert", Entry("42/other")), Context())
    assert await duckdb_rows(file, "select id from t order by id") == [{"id": 1}, {"id": 2}]


@pytest.mark.usefixtures("duckdb_files")
@pytest.mark.parametrize(
    ("params", "result", "names"),
    [
        ({"id": 1, "name": "it's", "unused": 2}, {"id": 9}, ["it's :id 1"]),
        (None, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], ["a :id 1", "b :id 1"]),
        (None, {"id": 1, "name": ["x"]}, ['["x"] :id 1']),
    ],
)
async def test_duckdb_binds_names_of_params_or_of_each_row(
    tmp_path: Path, params: Any, result: Any, names: list[str]
) -> None:
    file = tmp_path / "s.duckdb"
    create = "create table t (id int, name text)"
    insert = "insert into t select :id, :name::text || ' :id ' || {'a':one}.a from (select 1 as one)"
    config = {"statement": f"{create}; {insert}", "params": params, "database": str(file)}
    await store(SinkRequest("duckdb", config, "insert", Entry("42/k"), result, None), Context())
    assert [row["name"] for row in await duckdb_rows(file, "select name from t order by id")] == names


@pytest.mark.usefixtures("duckdb_files")
async def test_a_failed_statement_of_duckdb_leaves_nothing(tmp_path: Path) -> None:
    config = {"statement": "create table t (id int); select * from absent", "database": str(tmp_path / "s.duckdb")}
    for _ in range(2):
        with pytest.raises(SinkError, match="absent"):
            await store(SinkRequest("duckdb", config, "insert", Entry("42/k")), Context())
    assert (
        await duckdb_rows(tmp_path / "s.duckdb", "select table_name from duckdb_tables() where table_name = 't'") == []
    )


@pytest.mark.usefixtures("duckdb_files")
@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"statement": "insert into t values (1); commit"}, "TRANSACTION cannot run: use a task for it"),
        ({"statement": "select ?; select 2", "params": [1]}, "there must be exactly one statement"),
    ],
)
async def test_wrong_statements_of_duckdb_say_what_to_do(tmp_path: Path, config: dict[str, Any], why: str) -> None:
    with pytest.raises((ConfigError, SinkError), match=why):
        await store(
            SinkRequest("duckdb", {**config, "database": str(tmp_path / "s")}, "insert", Entry("42/k"), None, None),
            Context(),
        )


async def test_an_unknown_sink_is_refused() -> None:
    with pytest.raises(ConfigError, match="there are duckdb, http, postgres, python"):
        await store(SinkRequest("ftp", {}, "insert", Entry("k")), Context())


@pytest.mark.parametrize("data", [1, "x", [1, 2]])
def test_a_row_without_its_key_is_explained_where_the_data_is_not_a_mapping(data: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"its columns are value; data that is not a mapping becomes the column value"
    ):
        require_keys(sink_rows({"data": data}, None), "upsert", ["id"])
