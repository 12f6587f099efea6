"""Values of each database type in a result: a JSON value, or an error with a message."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.duckdb.process_pool import pooled_processes
from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres import tool as postgres_tool

from .conftest import Context, request

DUCKDB = [
    ("true", True),
    ("9223372036854775807", 2**63 - 1),
    ("18446744073709551615::ubigint", 2**64 - 1),
    ("170141183460469231731687303715884105727::hugeint", 2**127 - 1),
    ("340282366920938463463374607431768211455::uhugeint", 2**128 - 1),
    ("1.50::decimal(10, 2)", 1.5),
    ("2.00::decimal(10, 2)", 2),
    ("12345678901234567890.123456789::decimal(38, 9)", 12345678901234567890.123456789),
    ("1e300::double", 1e300),
    ("'x'::enum('x', 'y')", "x"),
    ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
    (r"'\xFF'::blob", "/w=="),
    ("'0101'::bit", "0101"),
    ("""'{"a": [1]}'::json""", '{"a": [1]}'),
    ("date '2026-01-02'", "2026-01-02"),
    ("date '9999-12-31'", "9999-12-31"),
    ("date '0001-01-01'", "0001-01-01"),
    ("date 'infinity'", "infinity"),
    ("date '-infinity'", "-infinity"),
    ("date '10000-01-01'", "10000-01-01"),
    ("date '0044-03-15 (BC)'", "0044-03-15 (BC)"),
    ("time '03:04:05.5'", "03:04:05.500000"),
    ("time '24:00:00'", "24:00:00"),
    ("timetz '03:04:05+02'", "03:04:05+02:00"),
    ("timestamp '2026-01-02 03:04:05'", "2026-01-02T03:04:05"),
    ("timestamp '9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999"),
    ("timestamp 'infinity'", "infinity"),
    ("timestamp '-infinity'", "-infinity"),
    ("timestamp_ns '2026-01-02 03:04:05.123456789'", "2026-01-02T03:04:05.123456"),
    ("timestamptz '2026-01-02 03:04:05+02'", "2026-01-02T01:04:05+00:00"),
    ("timestamptz '9999-12-31 23:59:59.999999+00'", "9999-12-31T23:59:59.999999+00:00"),
    ("timestamptz '20000-01-01 00:00:00+00'", "20000-01-01 00:00:00+00"),
    ("timestamptz 'infinity'", "infinity"),
    ("timestamptz '-infinity'", "-infinity"),
    ("interval '1 month 2 days 3.5 seconds'", 2764803.5),
    ("interval '-1 month'", -2592000.0),
    ("[1, null]", [1, None]),
    ("[[1], [2]]::int[1][2]", [[1], [2]]),
    ("[timestamptz '2026-01-02 03:04:05+02']", ["2026-01-02T01:04:05+00:00"]),
    ("{'a': 1, 'b': timestamptz '2026-01-02 03:04:05+02'}", {"a": 1, "b": "2026-01-02T01:04:05+00:00"}),
    ("row(1, 'x')", [1, "x"]),
    ("map {'a': 1}", {"a": 1}),
    ("map {1: [date 'infinity']}", {"1": ["infinity"]}),
    ("map {true: 1}", {"true": 1}),
    ("map {date '2026-01-02': 1}", {"2026-01-02": 1}),
    ("map {timestamptz '2026-01-02 03:04:05+02': 1}", {"2026-01-02T01:04:05+00:00": 1}),
    ("map {[1]: 2}", {"key": [[1]], "value": [2]}),
    ("union_value(n := 1)", 1),
    ("null", None),
]

POSTGRES = [
    ("12345678901234567890.123456789::numeric", 12345678901234567890.123456789),
    ("2.00::numeric", 2),
    ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
    ("bit '0101'", "0101"),
    ("'010101010'::varbit", "010101010"),
    ("date '2026-01-02'", "2026-01-02"),
    ("date '9999-12-31'", "9999-12-31"),
    ("date '0001-01-01'", "0001-01-01"),
    ("date 'infinity'", "infinity"),
    ("date '-infinity'", "-infinity"),
    ("time '03:04:05.5'", "03:04:05.500000"),
    ("time '24:00'", "24:00:00"),
    ("timetz '03:04:05+02'", "03:04:05+02:00"),
    ("timestamp '2026-01-02 03:04:05.000001'", "2026-01-02T03:04:05.000001"),
    ("timestamp '1999-12-31 23:59:59'", "1999-12-31T23:59:59"),
    ("timestamp '9999-12-31 23:59:59.999999'", "9999-12-31T23:59:59.999999"),
    ("timestamp 'infinity'", "infinity"),
    ("timestamp '-infinity'", "-infinity"),
    ("timestamptz '2026-01-02 03:04:05+02'", "2026-01-02T01:04:05+00:00"),
    ("timestamptz 'infinity'", "infinity"),
    ("timestamptz '-infinity'", "-infinity"),
    ("interval '1 month 2 days 3.5 seconds'", 2764803.5),
    ("interval '2 years -1 day'", 62985600.0),
    ("interval '-13 months'", -34128000.0),
    ("interval '100000000 years'", 3.1536e15),
    ("array[date 'infinity', null]", ["infinity", None]),
    ("array[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    ("row(1, date '-infinity')", [1, "-infinity"]),
    ("int4range(1, 5)", "[1,5)"),
    ("numrange(1.5, null)", "[1.5,)"),
    ("'empty'::int4range", "empty"),
    ("tstzrange('2026-01-01Z', 'infinity', '[]')", "[2026-01-01T00:00:00+00:00,infinity]"),
    ("int4multirange(int4range(1, 2), int4range(5, 7))", ["[1,2)", "[5,7)"]),
    ("point(1, 2)", [1.0, 2.0]),
    ("inet '10.0.0.1'", "10.0.0.1"),
    ("money '12.34'", "$12.34"),
    ("macaddr '08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
]


@pytest.fixture(scope="module", autouse=True)
async def one_process() -> AsyncGenerator[None]:
    """Each file of a database has a process; all calls on ``:memory:`` share one."""
    async with pooled_processes():
        yield


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path_factory.getbasetemp() / "types"))


async def in_duckdb(sql: str) -> Outcome:
    return await duckdb_tool.TOOL.run(request("duckdb", command=sql, database=":memory:"), Context())


async def in_postgres(context: Context, sql: str, *params: Any) -> Outcome:
    return await postgres_tool.TOOL.run(request("postgres", "pg", query=sql, params=list(params)), context)


@pytest.mark.usefixtures("home")
async def test_values_of_duckdb_become_json() -> None:
    outcomes = {sql: (await in_duckdb(f"select {sql} as v")) for sql, _ in DUCKDB}
    assert {sql: outcome.error for sql, outcome in outcomes.items() if outcome.error} == {}
    assert {sql: answer.result["rows"][0]["v"] for sql, answer in outcomes.items()} == dict(DUCKDB)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Etc/GMT+5"])
async def test_an_instant_is_the_same_in_every_time_zone(zone: str) -> None:
    outcome = await in_duckdb(f"set TimeZone = '{zone}'; select timestamptz '2026-01-02 03:04:05+02' as v")
    assert outcome.result["rows"] == [{"v": "2026-01-02T01:04:05+00:00"}]


@pytest.mark.usefixtures("home")
async def test_a_duckdb_value_that_python_cannot_represent_is_reported_without_a_traceback() -> None:
    error = (await in_duckdb("select interval '100000000 years'")).error
    assert error is not None
    assert error.message.startswith("the result cannot be read: OverflowError")
    assert "\n" not in error.message


async def test_values_of_postgres_become_json(postgres: Context) -> None:
    for sql, expected in POSTGRES:
        outcome = await in_postgres(postgres, f"select {sql} as v")
        assert outcome.error is None, (sql, outcome.error)
        assert (sql, outcome.result["rows"]) == (sql, [{"v": expected}])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("date '10000-01-01'", "date"),
        ("date '0044-03-15 BC'", "date"),
        ("array[timestamp '20000-01-01']", "timestamp"),
        ("timestamptz '0044-03-15 BC'", "timestamp"),
    ],
)
async def test_a_time_outside_of_iso_8601_is_refused(postgres: Context, value: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"a {name} of the result is outside the years 1 to 9999: cast it to text"):
        await in_postgres(postgres, f"select {value}")


@pytest.mark.parametrize(
    "sql", [sql for sql, value in POSTGRES if isinstance(value, str) and "infinity" in value and "range" not in sql]
)
async def test_an_infinite_time_can_be_written_back(postgres: Context, sql: str) -> None:
    type_ = sql.split()[0]
    read = (await in_postgres(postgres, f"select {sql} as v")).result["rows"][0]["v"]
    equal_rows = await in_postgres(postgres, f"select $1::{type_} = {sql} as same", read)
    assert equal_rows.result["rows"] == [{"same": True}]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("date", "1999-12-31", "1999-12-31"),
        ("time", "23:59:59.999999", "23:59:59.999999"),
        ("timestamp", "1999-12-31T23:59:59.999999", "1999-12-31T23:59:59.999999"),
        ("timestamptz", "1999-12-31T23:59:59.999999+05:00", "1999-12-31T18:59:59.999999+00:00"),
        ("interval", -1.5, -1.5),
        ("interval", 2764803.5, 2764803.5),
        ("date[]", ["2026-01-02", "infinity"], ["2026-01-02", "infinity"]),
    ],
)
async def test_a_time_that_is_bound_comes_back(postgres: Context, type_: str, value: Any, expected: Any) -> None:
    outcome = await in_postgres(postgres, f"select $1::{type_} as v", value)
    assert outcome.result["rows"] == [{"v": expected}]
