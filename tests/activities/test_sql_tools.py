"""postgres and duckdb on real databases."""

from __future__ import annotations

import asyncio
import socket
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres import connect as postgres_connect
from noetl_activities.postgres import tool as postgres_tool
from noetl_activities.postgres.errors import sql_error
from noetl_activities.postgres.pool import pooled_connections
from noetl_activities.sql import split_statements
from noetl_activities.tool import Request
from noetl_temporal.calls.tool_outcome import plain_outcome

from .conftest import Context, request


async def run(context: Context, sql: str, **config: Any) -> Outcome:
    return await postgres_tool.TOOL.run(request("postgres", "pg", query=sql, **config), context)


async def rows(context: Context, sql: str) -> Any:
    outcome = await run(context, sql)
    assert outcome.error is None, outcome.error
    return outcome.result["rows"]


TYPES = """
select 1 as n, 1.50::numeric as d, 'x' as t, date '2026-01-02' as day, '{"a": [1]}'::jsonb as j,
       '00000000-0000-0000-0000-000000000001'::uuid as u, null as nothing, '\\xff'::bytea as b, array[1, 2] as l
"""


async def test_rows_come_back_as_json(postgres: Context) -> None:
    assert await rows(postgres, TYPES) == [
        {
            "n": 1,
            "d": 1.5,
            "t": "x",
            "day": "2026-01-02",
            "j": {"a": [1]},
            "u": "00000000-0000-0000-0000-000000000001",
            "nothing": None,
            "b": "/w==",
            "l": [1, 2],
        }
    ]


async def test_statements_run_in_one_transaction(postgres: Context) -> None:
    await run(postgres, "drop table if exists pairs; create table pairs (n int primary key)")
    sql = "insert into pairs values (1); insert into pairs values (2), (3); select count(*) from pairs"
    outcome = await run(postgres, sql)
    assert outcome.result["rows"] == [{"count": 3}]
    assert [statement["row_count"] for statement in outcome.result["statements"]] == [1, 2, 1]
    failed = await run(postgres, "insert into pairs values (4); insert into pairs values (1)")
    assert failed.status == "error"
    assert await rows(postgres, "select count(*) as n from pairs") == [{"n": 3}]


@pytest.mark.parametrize(
    ("sql", "state", "kind", "retryable"),
    [
        ("select 1/0", "22012", "sql_22", False),
        ("select nope", "42703", "sql_42", False),
        ("do $$ begin raise exception 'x' using errcode = '40001'; end $$", "40001", "sql_40", True),
        ("do $$ begin raise exception 'x' using errcode = '40P01'; end $$", "40P01", "sql_40", True),
        ("do $$ begin raise exception 'x' using errcode = '40002'; end $$", "40002", "sql_40", False),
        ("do $$ begin raise exception 'x' using errcode = '53300'; end $$", "53300", "sql_53", True),
        ("do $$ begin raise exception 'x' using errcode = '55P03'; end $$", "55P03", "sql_55", True),
        ("do $$ begin raise exception 'x' using errcode = '28000'; end $$", "28000", "auth", False),
        ("set statement_timeout = 50; select pg_sleep(5)", "57014", "timeout", True),
    ],
)
async def test_an_sql_error_has_its_sqlstate(
    postgres: Context, sql: str, state: str, kind: str, retryable: bool
) -> None:
    outcome = await run(postgres, sql)
    assert outcome.pg is not None
    assert outcome.error is not None
    assert (outcome.pg["code"], outcome.pg["sqlstate"]) == (state, state)
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == (kind, state, retryable)


@pytest.mark.parametrize(
    ("sql", "position", "line", "message"),
    [
        ("select nope", 8, 1, "at line 1, column 8 of the statement: select nope"),
        ("select 1;\n\nselect 2\n  from nowhere", 17, 4, "at line 2, column 8 of the statement: from nowhere"),
        ("\n\nselect 1;\nselect\n\n nope\n", 10, 6, "at line 3, column 2 of the statement: nope"),
        ("select nope;\nselect nope", 8, None, "at line 1, column 8 of the statement: select nope"),
        (f"select '{'x' * 200}', nope", 212, 1, "at line 1, column 212 of the statement: nope..."),
        ("select 1/0", None, None, ""),
        ("do $$ begin perform nope(); end $$", None, None, ""),
    ],
)
async def test_an_sql_error_has_its_position(
    postgres: Context, sql: str, position: int | None, line: int | None, message: str
) -> None:
    outcome = await run(postgres, sql)
    assert outcome.pg is not None
    assert outcome.error is not None
    assert (outcome.pg["position"], outcome.pg["line"]) == (position, line)
    assert message in outcome.error.message
    assert ("of the statement" in outcome.error.message) is (position is not None)


async def test_params_are_bound(postgres: Context) -> None:
    evil = "'; drop table x; --"
    assert (await run(postgres, "select $1::text as t", params=[evil])).result["rows"] == [{"t": evil}]
    with pytest.raises(ConfigError, match="a single statement"):
        await run(postgres, "select 1; select $1::int", params=[1])


PARAMS = [
    ("int", "5", 5),
    ("int", 5.0, 5),
    ("bigint", True, 1),
    ("float8", "1.5", 1.5),
    ("numeric", "12345678901234567890.12", 12345678901234567890.12),
    ("text", 5, "5"),
    ("text", {"a": 1}, '{"a": 1}'),
    ("boolean", "yes", True),
    ("boolean", 0, False),
    ("timestamptz", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
    ("timestamptz", "2026-01-02 03:04", "2026-01-02T03:04:00+00:00"),
    ("timestamptz", 0, "1970-01-01T00:00:00+00:00"),
    ("timestamp", "2026-01-02T03:04:05+02:00", "2026-01-02T03:04:05"),
    ("date", "2026-01-02T03:04:05Z", "2026-01-02"),
    ("time", "03:04", "03:04:00"),
    ("interval", 90, 90.0),
    ("uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
    ("bytea", "/w==", "/w=="),
    ("jsonb", {"a": [1]}, {"a": [1]}),
    ("jsonb", '{"a": [1]}', {"a": [1]}),
    ("json", "text", "text"),
    ("text[]", ["a", "b"], ["a", "b"]),
    ("int[]", ["1", 2], [1, 2]),
    ("inet", "10.0.0.1", "10.0.0.1"),
    ("int", None, None),
]


@pytest.mark.parametrize("value", ["1e99999999", "-1e99999999", "9" * 5_000_000, "1e-99999999", "1e19", 1e300])
@pytest.mark.parametrize("type_", ["int", "bigint", "int[]"])
async def test_a_huge_integer_is_refused_quickly(postgres: Context, type_: str, value: Any) -> None:
    """A text of ten characters was written out as a number of 12 MB, on the event loop."""
    started_at = time.process_time()
    with pytest.raises(ConfigError, match="the statement expects int"):
        await run(postgres, f"select $1::{type_}", params=[[value] if "[" in type_ else value])
    assert time.process_time() - started_at < 10


@pytest.mark.parametrize(("type_", "value", "expected"), PARAMS)
async def test_params_have_the_type_of_their_position(postgres: Context, type_: str, value: Any, expected: Any) -> None:
    outcome = await run(postgres, f"select $1::{type_} as v", params=[value])
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"v": expected}]


@pytest.mark.parametrize(
    ("type_", "value"),
    [("int", "five"), ("int", 1.5), ("boolean", "maybe"), ("date", "soon"), ("bytea", "?"), ("numeric", "x")],
)
async def test_params_that_do_not_fit_are_named(postgres: Context, type_: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"\$1 is .* expects"):
        await run(postgres, f"select $1::{type_}", params=[value])


@pytest.mark.parametrize(
    ("sql", "params", "place"),
    [
        ("select $1::text", ["a\0b"], r"\$1"),
        ("select $1::varchar[]", [["a", "b\0"]], r"\$1"),
        ("select 1 where $1 = 'x'", ["\0"], r"\$1"),
        ("select 'a\0b'", [], "the statement"),
    ],
)
async def test_text_with_nul_is_reported_as_such(postgres: Context, sql: str, params: list[Any], place: str) -> None:
    with pytest.raises(ConfigError, match=rf"{place} contains a NUL character \(U\+0000\)"):
        await run(postgres, sql, params=params)


async def test_a_text_of_deep_json_is_refused(postgres: Context) -> None:
    with pytest.raises(ConfigError, match="nested deeper than 100 levels: pass the value without tojson"):
        await run(postgres, "select $1::jsonb", params=["[" * 200 + "]" * 200])


async def test_json_with_nul_is_reported_as_such(postgres: Context) -> None:
    error = (await run(postgres, "select $1::jsonb", params=[{"a": ["b\0"]}])).error
    assert error is not None
    assert (error.kind, error.code, error.retryable) == ("sql_22", "22P05", False)
    assert "a value contains a NUL character (U+0000), which Postgres cannot store" in error.message
    assert await rows(postgres, "select '{}'::json as j") == [{"j": {}}]
    other = (await run(postgres, "select 'a' || chr(0)")).error
    assert other is not None
    assert "null character not permitted" in other.message


async def test_params_that_are_missing_are_no_connection_error(postgres: Context) -> None:
    with pytest.raises(ConfigError, match=r"has 1 parameter .* params has 0"):
        await run(postgres, "select $1::int")


async def test_values_that_json_cannot_represent(postgres: Context) -> None:
    sql = "select 'NaN'::numeric as a, 'infinity'::float8 as b, cidr '10.0.0.0/8' as c"
    values = plain_outcome(await run(postgres, sql))
    assert values["result"]["rows"] == [{"a": None, "b": None, "c": "10.0.0.0/8"}]
    assert values["meta"]["warning"].startswith("2 numbers of the result are NaN or infinite")


LARGE = {
    "rows": "select repeat('x', 1000000) as x from generate_series(1, 250)",
    "a value": "select repeat('x', 250000000) as x",
    "statements": ";".join(["select repeat('x', 1000000) as x from generate_series(1, 50)"] * 5),
    "without a transaction": "vacuum; select repeat('x', 1000000) as x from generate_series(1, 250)",
    "what was inserted": "create temporary table t (x text);"
    "insert into t select repeat('x', 1000000) from generate_series(1, 250) returning x",
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_large_result_fails_before_it_is_read(postgres: Context, name: str) -> None:
    async with pooled_connections():
        tracemalloc.start()
        try:
            with pytest.raises(ConfigError, match="the result is over 64 MB: request less at a time"):
                await run(postgres, LARGE[name])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 160 * 2**20
        assert await rows(postgres, "select 1 as n") == [{"n": 1}]


async def test_control_without_the_limit_a_large_result_is_read(
    postgres: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connect, "MAX_RECEIVED_BYTES", 2**40)
    outcome = await run(postgres, "select repeat('x', 1000000) as x from generate_series(1, 80)")
    assert sum(len(row["x"]) for row in outcome.result["rows"]) == 80_000_000


async def test_too_many_small_rows_are_refused(postgres: Context) -> None:
    with pytest.raises(ConfigError, match="over 1,000,000 rows"):
        await run(postgres, "select n from generate_series(1, 1000001) as n")


async def test_too_many_values_in_few_rows_are_refused(postgres: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NULL takes 4 bytes on the wire: 57 MB of them took 1.8 GB."""
    nulls = ", ".join(f"null as n{index}" for index in range(1600))
    with pytest.raises(ConfigError, match=r"over 4,000,000 values"):
        await run(postgres, f"select {nulls} from generate_series(1, 2501)")
    monkeypatch.setattr(postgres_tool, "MAX_VALUES", 100)
    assert len(await rows(postgres, "select n, n as m from generate_series(1, 50) as n")) == 50


async def test_calls_after_each_other_have_the_limit_for_themselves(postgres: Context) -> None:
    async with pooled_connections():
        for _ in range(3):
            large_rows = await rows(postgres, "select repeat('x', 1000000) as x from generate_series(1, 40)")
            assert len(large_rows) == 40


@pytest.mark.parametrize(
    "beside", [{"db_port": 18091}, {"db_host": "evil"}, {"connection_string": "postgresql://evil"}, {"user": "other"}]
)
async def test_a_task_with_a_credential_cannot_set_the_server_as_well(
    postgres: Context, beside: dict[str, Any]
) -> None:
    for auth, config in (("pg", {}), ({"type": "postgres", "key": "pg"}, {}), (None, {"credential": "pg"})):
        call = Request("postgres", {"query": "select 1", **config, **beside}, auth=auth)
        with pytest.raises(ConfigError, match=f"names a credential and also sets {next(iter(beside))}"):
            await postgres_tool.TOOL.run(call, postgres)


@pytest.mark.parametrize("sql", ["vacuum", "create table if not exists swept (n int); vacuum swept; select 1"])
async def test_statements_that_refuse_a_transaction_run_without(postgres: Context, sql: str) -> None:
    assert (await run(postgres, sql)).error is None


async def test_cancelling_cancels_the_query(postgres: Context) -> None:
    active = "select count(*) as n from pg_stat_activity where state = 'active' and query like 'select pg_sleep%'"
    running = asyncio.create_task(run(postgres, "select pg_sleep(60)"))
    async with asyncio.timeout(30):
        while await rows(postgres, active) != [{"n": 1}]:
            await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while await rows(postgres, active) != [{"n": 0}]:
            await asyncio.sleep(0.05)


async def test_a_statement_that_waits_for_data_ends_with_its_call(postgres: Context) -> None:
    """Postgres does not look at a cancel while it waits for us, and asyncpg waits for Postgres."""
    await run(postgres, "create table if not exists waiting (n int)")
    waiting = asyncio.create_task(run(postgres, "copy waiting from stdin"))
    active = "select count(*) as n from pg_stat_activity where query like 'copy waiting%'"
    async with asyncio.timeout(60):
        while await rows(postgres, active) != [{"n": 1}]:
            await asyncio.sleep(0.05)
        waiting.cancel()
        assert (await asyncio.wait({waiting}, timeout=30))[0] == {waiting}
        assert waiting.cancelled()
        while await rows(postgres, active) != [{"n": 0}]:
            await asyncio.sleep(0.05)


async def test_no_server_is_a_retryable_connection_error() -> None:
    unreachable = {"type": "postgres", "db_host": "127.0.0.1", "db_port": 1, "db_user": "u", "db_password": "pass"}
    outcome = await run(Context(pg=unreachable), "select 1")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("connection", True)


async def test_a_connection_lost_under_way_is_a_retryable_connection_error(postgres: Context) -> None:
    outcome = await run(postgres, "do $$ begin raise exception 'x' using errcode = '08006'; end $$")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("connection", "08006", True)


async def test_a_server_that_does_not_respond_is_reported(silent: int) -> None:
    deaf = {"type": "postgres", "db_host": "127.0.0.1", "db_port": silent, "db_user": "u", "db_password": "pass"}
    call = request("postgres", "pg", query="select 1")
    outcome = await postgres_tool.TOOL.run(msgspec.structs.replace(call, connect_timeout=0.2), Context(pg=deaf))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("connection", True)
    assert "timed out" in outcome.error.message


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def test_without_auth_the_default_credential_is_used(postgres: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_DEFAULT_CREDENTIAL", "pg")
    outcome = await postgres_tool.TOOL.run(request("postgres", query="select 1 as n"), postgres)
    assert outcome.result["rows"] == [{"n": 1}]
    with pytest.raises(CredentialError, match="needs db_user"):  # a task that says where it connects to
        await postgres_tool.TOOL.run(request("postgres", query="select 1", db_host="127.0.0.1"), postgres)
    monkeypatch.setenv("NOETL_DEFAULT_CREDENTIAL", "nowhere")
    with pytest.raises(CredentialError, match="no credential 'nowhere'"):
        await postgres_tool.TOOL.run(request("postgres", query="select 1"), postgres)


async def test_auth_and_sql_are_asked_for(postgres: Context) -> None:
    with pytest.raises(CredentialError, match=r"needs auth: .* set NOETL_DEFAULT_CREDENTIAL to a name"):
        await postgres_tool.TOOL.run(request("postgres", query="select 1"), postgres)
    with pytest.raises(ConfigError, match="no SQL"):
        await postgres_tool.TOOL.run(request("postgres", "pg"), postgres)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("select 1", 1),
        ("select 1;", 1),
        ("select 1; select 2", 2),
        ("select 'a;b'; -- c;\nselect \"x;y\"", 2),
        ("do $$ begin perform 1; end $$; select 1", 2),
        ("do $tag$ begin perform ';'; end $tag$", 1),
        ("/* ; */ select 1 /* ; */", 1),
        (";;", 0),
        ("", 0),
    ],
)
def test_scripts_are_split_into_statements(text: str, count: int) -> None:
    assert len(split_statements(text, "postgres")) == count


async def run_duckdb(sql: str, **config: Any) -> Outcome:
    return await duckdb_tool.TOOL.run(request("duckdb", command=sql, **config), Context())


async def test_duckdb_keeps_a_file_for_the_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    await run_duckdb("create table t as select range as n from range(3)")
    outcome = await run_duckdb("select sum(n) as total, [1, 2] as l, date '2026-01-02' as d from t")
    assert outcome.result["rows"] == [{"total": 3, "l": [1, 2], "d": "2026-01-02"}]
    assert outcome.result["database_path"] == str(tmp_path / "duckdb" / "42" / "42.duckdb")


@pytest.mark.usefixtures("duckdb_files")
async def test_duckdb_errors_and_limits(tmp_path: Path) -> None:
    file = str(tmp_path / "x.duckdb")
    outcome = await run_duckdb("select nope", database=file)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("sql_42", "BinderException")
    with pytest.raises(ConfigError, match="over 100,000 rows"):
        await run_duckdb("select * from range(100001)", database=file)


@pytest.mark.usefixtures("duckdb_files")
async def test_cancelling_interrupts_duckdb(tmp_path: Path) -> None:
    endless = "select count(*) from range(100000000000) a, range(100000) b"
    begin_file = tmp_path / "begun"
    sql = f"copy (select 1) to '{begin_file}'; {endless}"
    running = asyncio.create_task(run_duckdb(sql, database=str(tmp_path / "x.duckdb")))
    async with asyncio.timeout(60):
        while not begin_file.exists():
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_closed_port_is_reported_as_connection_refused() -> None:
    auth = {"type": "postgres", "db_host": "127.0.0.1", "db_port": 1, "db_user": "u", "db_name": "d"}
    outcome = await postgres_tool.TOOL.run(request("postgres", auth, query="SELECT 1"), Context())
    assert outcome.error is not None
    message = "cannot reach Postgres at 127.0.0.1:1: connection refused"
    assert (outcome.error.kind, outcome.error.message) == ("connection", message)


async def test_an_unreachable_server_is_reported_with_its_credential() -> None:
    context = Context(warehouse={"type": "postgres", "dsn": "postgresql://u:hush@127.0.0.1:1,localhost:2/d"})
    outcome = await postgres_tool.TOOL.run(request("postgres", {"credential": "warehouse"}, query="SELECT 1"), context)
    assert outcome.error is not None
    assert outcome.error.message.startswith(
        "cannot reach Postgres at 127.0.0.1:1, localhost:2 (credential 'warehouse'): "
    )
    assert "hush" not in outcome.error.message


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the underlying connection is closed"),
        asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress"),
        asyncpg.AdminShutdownError("terminating connection due to unexpected postmaster exit"),
    ],
    ids=["closed", "in the middle", "shut down"],
)
def test_a_server_that_goes_away_is_a_retryable_connection_error(error: Exception) -> None:
    """As asyncpg reported it when Postgres was killed 40 times during a loop of 2,000 sinks."""
    failure = sql_error(error).error
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("connection", True)
