"""The ledger: what a call has stored, committed with its rows."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import duckdb
import pytest

from noetl_activities.sinks import Entry, OutcomeLookup, SinkRequest, StoreResult, duckdb_ledger, find_outcome, store
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.ledger import RETENTION_DAYS
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context

pytestmark = pytest.mark.usefixtures("duckdb_files")

OUTCOME = json.dumps({"status": "ok", "result": {"n": 1, "nul": "\x00"}})
OTHER = json.dumps({"status": "ok", "result": {"n": 2}})


class Place:
    """One database with a table ``t`` of a test, asked and written as a sink does."""

    def __init__(self, kind: str, config: dict[str, Any], context: Context) -> None:
        self.kind = kind
        self.config = config
        self.context = context
        self.call = f"42/{uuid.uuid4().hex}"

    async def store(self, rows: Any, mode: str = "append", n: int = 1, outcome: str | None = OUTCOME) -> StoreResult:
        return await self.store_as(Entry(f"{self.call}/sink0", n, self.call, outcome, f"{self.call}/once"), rows, mode)

    async def store_as(self, entry: Entry, rows: Any, mode: str = "append") -> StoreResult:
        return await store(SinkRequest(self.kind, {**self.config, "data": rows}, mode, entry, None, "pg"), self.context)

    async def find(self, n: int = 1) -> str | None:
        return await find_outcome(OutcomeLookup(self.kind, self.config, "pg", self.call, n), self.context)


@pytest.fixture
async def connection(servers: Addresses) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(servers.postgres)
    yield opened
    await opened.close()


@pytest.fixture(params=["postgres", "duckdb"])
async def place(
    request: pytest.FixtureRequest, postgres: Context, connection: asyncpg.Connection[asyncpg.Record], tmp_path: Path
) -> Place:
    table = f"led_{uuid.uuid4().hex[:8]}"
    if request.param == "duckdb":
        return Place("duckdb", {"database": str(tmp_path / "l.duckdb"), "table": table}, postgres)
    await connection.execute(f"create table {table} (id int)")
    return Place("postgres", {"table": table}, postgres)


async def ids(place: Place, connection: asyncpg.Connection[asyncpg.Record]) -> list[int]:
    sql = f"select id from {place.config['table']} order by id"
    if place.kind == "postgres":
        return [record["id"] for record in await connection.fetch(sql)]
    with duckdb.connect(place.config["database"]) as opened:
        return [row[0] for row in opened.execute(sql).fetchall()]


async def test_a_call_finds_what_it_stored(place: Place) -> None:
    assert await place.find() is None
    stored_entry = await place.store({"id": 1})
    assert (stored_entry.rows, stored_entry.is_in_ledger, stored_entry.existing_outcome) == (1, True, None)
    outcome = await place.find()
    assert outcome is not None
    assert json.loads(outcome) == json.loads(OUTCOME)
    assert await place.find(2) is None


async def test_a_repeated_call_after_a_good_outcome_has_rows_of_its_own(
    place: Place, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    for n in (1, 2, 3):
        await place.store({"id": n}, n=n)
    assert await ids(place, connection) == [1, 2, 3]


async def test_concurrent_attempts_have_one_outcome(
    place: Place, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    outcomes = [json.dumps({"status": "ok", "result": n}) for n in range(6)]
    answers = await asyncio.gather(*(place.store({"id": n}, outcome=outcome) for n, outcome in enumerate(outcomes)))
    [winner] = [n for n, answer in enumerate(answers) if not answer.duplicate]
    assert {answer.existing_outcome for answer in answers if answer.duplicate} == {outcomes[winner]}
    assert await ids(place, connection) == [winner]


async def test_a_failed_sink_leaves_no_outcome(place: Place) -> None:
    await place.store({"id": 0}, n=7)
    with pytest.raises(Exception, match="five"):
        await place.store({"id": "five"})
    assert await place.find() is None


async def test_replace_empties_once_for_a_step_run(
    place: Place, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await place.store({"id": 100}, n=9)
    entries = [Entry(f"{place.call}/{n}/sink0", 1, f"{place.call}/{n}", OUTCOME, f"{place.call}/all") for n in range(5)]
    await asyncio.gather(*(place.store_as(entry, {"id": n}, "replace") for n, entry in enumerate(entries)))
    assert await ids(place, connection) == [0, 1, 2, 3, 4]
    await place.store({"id": 7}, "replace")
    assert await ids(place, connection) == [7]


async def test_old_entries_are_deleted(postgres: Context, connection: asyncpg.Connection[asyncpg.Record]) -> None:
    assert await ledger.create_if_missing(connection)
    key = uuid.uuid4().hex
    for n, age in enumerate((RETENTION_DAYS + 1, RETENTION_DAYS - 1)):
        columns = "noetl_ledger.outcome (key, repetition, stored_at)"
        sql = f"insert into {columns} values ($1, $2, now() - make_interval(days => $3))"
        await connection.execute(sql, key, n, age)
    await ledger.prune(connection)
    left = await connection.fetch("select repetition from noetl_ledger.outcome where key = $1", key)
    assert [record["repetition"] for record in left] == [1]


@pytest.fixture
async def guest(servers: Addresses, connection: asyncpg.Connection[asyncpg.Record]) -> AsyncGenerator[Context]:
    """A role that may write its own table and nothing else, in a database without a ledger."""
    name = f"guest_{uuid.uuid4().hex[:8]}"
    await connection.execute(f"create role {name} login password 'guest'")
    await connection.execute(f"create database {name}")
    owner = await asyncpg.connect(servers.postgres, database=name)
    await owner.execute("create table t (id int)")
    await owner.execute(f"grant select, insert, delete on t to {name}")
    await owner.close()
    yield Context(pg={"type": "postgres", "dsn": _as(servers.postgres, name)})
    await connection.execute(f"drop database {name} with (force)")
    await connection.execute(f"drop role {name}")


def _as(dsn: str, name: str) -> str:
    """The same server, with this database and this role."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{name}:guest@{host}", path=f"/{name}").geturl()


async def test_old_entries_of_a_file_are_deleted(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "old.duckdb")) as opened:
        duckdb_ledger.create_if_missing(opened)
        sql = "insert into noetl_ledger (key, repetition, stored_at) values ('k', ?, now() - to_days(?))"
        opened.executemany(sql, [[0, RETENTION_DAYS + 1], [1, RETENTION_DAYS - 1]])
        duckdb_ledger.prune(opened)
        assert opened.execute("select repetition from noetl_ledger").fetchall() == [(1,)]


async def test_a_role_that_may_not_create_it_stores_and_is_warned(
    guest: Context, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place("postgres", {"table": "t"}, guest)
    for _ in range(2):
        stored_entry = await place.store({"id": 1})
        assert (stored_entry.rows, stored_entry.is_in_ledger, stored_entry.duplicate) == (1, False, False)
        assert stored_entry.warning is not None
        assert "noetl ledger sql" in stored_entry.warning
    assert await place.find() is None
    assert len([record for record in caplog.records if "noetl_ledger.outcome" in record.getMessage()]) == 1


async def test_the_sql_makes_the_ledger_for_such_a_role(servers: Addresses, guest: Context) -> None:
    name = (await guest.credential("pg"))["dsn"].rpartition("/")[2]
    owner = await asyncpg.connect(servers.postgres, database=name)
    try:
        await owner.execute(ledger.DDL)
        await owner.execute(
            f"grant usage on schema noetl_ledger to {name}; grant select, insert on noetl_ledger.outcome to {name}"
        )
    finally:
        await owner.close()
    place = Place("postgres", {"table": "t"}, guest)
    assert (await place.store({"id": 1})).is_in_ledger
    assert (await place.store({"id": 1})).existing_outcome is not None
