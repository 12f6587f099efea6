"""The transfer tool between a real Postgres, DuckDB files and a web server."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from noetl_activities.duckdb import tool as duckdb
from noetl_activities.errors import ConfigError, CredentialError, RefusedError
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerOutcome, LedgerSlot
from noetl_activities.transfer.tool import TOOL
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context, request

pytestmark = pytest.mark.stack
NUMBERS = itertools.count(1)

TYPES = """
    id int, big bigint, exact numeric, rough double precision, called text, day date, at timestamptz, took interval,
    doc jsonb, tags text[], yes boolean, key uuid
"""
VALUES = """
    (1, 9007199254740993, 12345678901234567890.123456789, 0.1, 'Ada', '2026-01-02', '2026-01-02 03:04:05.678+01',
     '1 day 02:00', '{"a": [1, null]}', '{x,"y z"}', true, '00000000-0000-0000-0000-000000000001'),
    (2, -1, 'NaN', 'Infinity', '', '0001-01-01', 'infinity', '00:00:01.5', '"text"', '{}', false, null),
    (3, null, null, null, null, null, null, null, null, null, null, null)
"""


class Tables:
    """A table ``source`` with every type, and an empty one ``target`` like it, under names of the test."""

    def __init__(self, owner: asyncpg.Connection[asyncpg.Record]) -> None:
        number = next(NUMBERS)
        self.owner, self.source, self.target = owner, f"transfer_source_{number}", f"transfer_target_{number}"

    async def make(self) -> None:
        await self.owner.execute(f"create table {self.source} ({TYPES}); create table {self.target} ({TYPES})")
        await self.owner.execute(f"insert into {self.source} values {VALUES}")

    async def ids(self) -> list[int]:
        return [record["id"] for record in await self.owner.fetch(f"select id from {self.target} order by id")]

    async def differences(self) -> list[asyncpg.Record]:
        source_query, target_query = f"select * from {self.source}", f"select * from {self.target}"
        return await self.owner.fetch(
            f"({source_query} except {target_query}) union all ({target_query} except {source_query})"
        )


@pytest.fixture
async def tables(servers: Addresses) -> AsyncGenerator[Tables]:
    owner = await asyncpg.connect(servers.postgres)
    made = Tables(owner)
    await made.make()
    yield made
    await owner.close()


async def copy(context: Context, source: dict[str, Any], target: dict[str, Any], **more: Any) -> Outcome:
    return await TOOL.run(request("transfer", source=source, target=target, **more), context)


def pg(**fields: Any) -> dict[str, Any]:
    return {"type": "postgres", "auth": "pg", **fields}


def slot(key: str) -> LedgerSlot:
    return LedgerSlot(key, 1, _text)


def _text(outcome: Outcome) -> str:
    return msgspec.json.encode(LedgerOutcome(outcome)).decode()


# ---- from Postgres to Postgres ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "chunks"), [(1, 3), (2, 2), (3, 1), (1000, 1)])
async def test_every_type_arrives_unchanged(postgres: Context, tables: Tables, size: int, chunks: int) -> None:
    outcome = await copy(postgres, pg(table=tables.source), pg(table=tables.target), chunk_size=size)
    ends = {"source": "postgres", "target": "postgres"}
    assert outcome == Outcome("ok", {"status": "success", "rows_transferred": 3, "chunks": chunks, **ends})
    assert await tables.differences() == []


async def test_a_query_has_parameters(postgres: Context, tables: Tables) -> None:
    query = f"select id from {tables.source} where id > $1"
    await copy(postgres, pg(query=query, params=["1"]), pg(table=tables.target))
    assert await tables.ids() == [2, 3]


async def test_a_source_without_rows_stores_none(postgres: Context, tables: Tables) -> None:
    outcome = await copy(postgres, pg(query="select 1 as id where false"), pg(table=tables.target))
    assert (outcome.result["rows_transferred"], outcome.result["chunks"]) == (0, 0)


@pytest.mark.parametrize("query", ["select 9 as id", "select 9 as id where false"])
async def test_overwrite_replaces_all_rows(postgres: Context, tables: Tables, query: str) -> None:
    await tables.owner.execute(f"insert into {tables.target} (id) values (1), (2)")
    await copy(postgres, pg(query=query), pg(table=tables.target), mode="overwrite")
    assert await tables.ids() == ([] if "false" in query else [9])


async def test_upsert_updates_by_key(postgres: Context, tables: Tables) -> None:
    await tables.owner.execute(f"alter table {tables.target} add primary key (id)")
    await tables.owner.execute(f"insert into {tables.target} (id, called) values (1, 'old')")
    target = pg(table=tables.target, key="id", mode="upsert")
    await copy(postgres, pg(query="select 1 as id, 'new' as called union select 4, 'four'"), target)
    records = await tables.owner.fetch(f"select id, called from {tables.target} order by id")
    assert [tuple(row) for row in records] == [(1, "new"), (4, "four")]


@pytest.mark.parametrize(
    ("statement", "mapping"),
    [
        ("insert into {t} (id, called) values (%s, '%s' || %s)", None),
        ("insert into {t} (id, called) values (:id, '%s' || :name)", None),
        ("insert into {t} (id, called) values (:n, '%s' || :name)", {"n": "id", "name": "name"}),
    ],
)
async def test_a_target_may_have_a_statement(postgres: Context, tables: Tables, statement: str, mapping: Any) -> None:
    target = pg(query=statement.format(t=tables.target), mapping=mapping)
    outcome = await copy(postgres, pg(query="select 1 as id, 'O''Neil' as name"), target)
    assert outcome.error is None
    assert await tables.owner.fetchval(f"select called from {tables.target}") == "%sO'Neil"


async def test_an_error_before_the_commit_stores_nothing(postgres: Context, tables: Tables) -> None:
    query = "select 10 / (3 - n) as id from generate_series(0, 9) as n"
    outcome = await copy(postgres, pg(query=query), pg(table=tables.target), chunk_size=1)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message.split(" (")[0]) == (
        "sql_22",
        "the source of the transfer: division by zero",
    )
    assert await tables.ids() == []


async def test_an_error_of_the_target_names_the_target(postgres: Context, tables: Tables) -> None:
    await tables.owner.execute(f"alter table {tables.target} add primary key (id)")
    outcome = await copy(postgres, pg(query="select 1 as id union all select 1"), pg(table=tables.target))
    assert outcome.error is not None
    assert outcome.error.kind == "sql_23"
    assert outcome.error.message.startswith("the target of the transfer: duplicate key")


async def test_a_source_only_reads(postgres: Context, tables: Tables) -> None:
    query = f"with gone as (delete from {tables.source} returning id) select id from gone"
    outcome = await copy(postgres, pg(query=query), pg(table=tables.target))
    assert outcome.error is not None
    assert outcome.error.kind in ("sql_25", "sql_0A")
    assert await tables.owner.fetchval(f"select count(*) from {tables.source}") == 3


async def test_a_repeated_transfer_finds_its_rows(postgres: Context, tables: Tables) -> None:
    request_ = request("transfer", source=pg(table=tables.source), target=pg(table=tables.target))
    key = slot(f"42/{tables.target}")
    first, second = [await TOOL.run_with_ledger(request_, postgres, key) for _ in range(2)]
    assert (first.is_in_ledger, first.is_reused, second.is_reused) == (True, False, True)
    assert first.outcome == second.outcome
    assert await tables.ids() == [1, 2, 3]
    outcome = await TOOL.find_outcome(request_, postgres, key)
    assert outcome is not None
    assert outcome.outcome == first.outcome
    assert await TOOL.find_outcome(request_, postgres, slot("42/other")) is None


async def test_bytes_are_refused_with_a_remedy(postgres: Context, tables: Tables) -> None:
    with pytest.raises(ConfigError, match=r"'b' of the source has bytes: select encode\(b, 'base64'\)"):
        await copy(postgres, pg(query="select '\\x00'::bytea as b"), pg(table=tables.target))


async def test_ten_thousand_rows_pass_in_batches(postgres: Context, tables: Tables) -> None:
    source = pg(query="select n as id, repeat('x', 1000) as called from generate_series(1, 10000) as n")
    outcome = await copy(postgres, source, pg(table=tables.target))
    assert (outcome.result["rows_transferred"], outcome.result["chunks"]) == (10_000, 10)
    assert await tables.owner.fetchval(f"select count(*) from {tables.target}") == 10_000


# ---- credentials -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own_auth", "shared_auth"),
    [
        ({"source": "credential", "tool": "postgres", "key": "pg"}, None),
        ({"type": "postgres", "credential": "pg"}, None),
        (None, "pg"),
        (None, {"pg": {"type": "postgres", "key": "pg"}, "sf": {"type": "snowflake", "key": "other"}}),
        (None, {"credential": "pg"}),
        (None, {"source": {"key": "pg"}, "target": {"key": "pg"}}),
    ],
)
async def test_forms_of_auth(postgres: Context, tables: Tables, own_auth: Any, shared_auth: Any) -> None:
    source, target = (pg(table=name, auth=own_auth) for name in (tables.source, tables.target))
    outcome = await TOOL.run(request("transfer", shared_auth, source=source, target=target), postgres)
    assert outcome.error is None
    assert await tables.ids() == [1, 2, 3]


async def test_without_auth_there_is_no_login(postgres: Context, tables: Tables) -> None:
    with pytest.raises(CredentialError, match="needs auth"):
        await copy(postgres, pg(table=tables.source), pg(table=tables.target, auth=None))


# ---- a web server ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loopback")
async def test_rows_are_transferred_from_a_server_into_a_table(postgres: Context, tables: Tables, web: str) -> None:
    source = {"type": "http", "url": f"{web}/people", "method": "GET", "data_path": "data.people"}
    target = pg(table=tables.target, mapping={"id": "id", "called": "user.name"})
    outcome = await copy(postgres, source, target, chunk_size=4)
    assert (outcome.result["rows_transferred"], outcome.result["chunks"]) == (10, 3)
    assert await tables.owner.fetchval(f"select max(called) from {tables.target}") == "name 9"


@pytest.mark.usefixtures("loopback")
async def test_an_error_of_the_server_is_that_of_the_transfer(postgres: Context, tables: Tables, web: str) -> None:
    outcome = await copy(postgres, {"type": "http", "url": f"{web}/status/503"}, pg(table=tables.target))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.status, outcome.error.retryable) == ("server_error", 503, True)
    assert outcome.error.message.startswith("the source of the transfer: GET ")


@pytest.mark.usefixtures("loopback")
async def test_a_data_path_that_the_response_lacks_is_refused(postgres: Context, tables: Tables, web: str) -> None:
    source = {"type": "http", "url": f"{web}/people", "data_path": "data.cities"}
    with pytest.raises(ConfigError, match=r"the response of the source has no 'data.cities'"):
        await copy(postgres, source, pg(table=tables.target))


async def test_addresses_that_are_not_public_are_refused(postgres: Context, tables: Tables, web: str) -> None:
    with pytest.raises(RefusedError, match="not a public address"):
        await copy(postgres, {"type": "http", "url": f"{web}/people"}, pg(table=tables.target))
    with pytest.raises(RefusedError, match="not a public address"):
        await copy(postgres, pg(table=tables.source), {"type": "http", "url": f"{web}/echo"})


@pytest.mark.usefixtures("loopback")
async def test_rows_are_transferred_to_a_server_in_batches(postgres: Context, tables: Tables, web: str) -> None:
    outcome = await copy(postgres, pg(table=tables.source), {"type": "http", "url": f"{web}/echo"}, chunk_size=2)
    assert (outcome.result["rows_transferred"], outcome.result["chunks"]) == (3, 2)
    failed = await copy(postgres, pg(table=tables.source), {"type": "http", "url": f"{web}/status/500"})
    assert failed.error is not None
    assert failed.error.message.startswith("the target of the transfer: POST ")


# ---- DuckDB ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("duckdb_files")
async def test_rows_are_transferred_to_duckdb_and_back(postgres: Context, tables: Tables, tmp_path: Path) -> None:
    file = {"type": "duckdb", "database": str(tmp_path / "rows.duckdb")}
    out = await copy(postgres, pg(query=f"select id, called from {tables.source}"), {**file, "table": "people"})
    assert (out.result["rows_transferred"], out.result["target"]) == (3, "duckdb")
    back = await copy(postgres, {**file, "query": "select * from people where id < 3"}, pg(table=tables.target))
    assert back.result["rows_transferred"] == 2
    assert await tables.ids() == [1, 2]


@pytest.mark.usefixtures("duckdb_files")
async def test_rows_are_stored_once_in_duckdb_too(postgres: Context, tables: Tables, tmp_path: Path) -> None:
    file = str(tmp_path / "once.duckdb")
    target = {"type": "duckdb", "database": file, "table": "people"}
    request_ = request("transfer", source=pg(query=f"select id from {tables.source}"), target=target)
    first, second = [await TOOL.run_with_ledger(request_, postgres, slot("42/once")) for _ in range(2)]
    assert (first.is_in_ledger, second.is_reused, second.outcome) == (True, True, first.outcome)
    count_outcome = await duckdb.TOOL.run(
        request("duckdb", database=file, query="select count(*) as n from people"), postgres
    )
    assert count_outcome.result["rows"] == [{"n": 3}]


# ---- calls that are wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"source": "x"}, "a transfer needs a source: a mapping with a type"),
        ({"source": {"type": "postgres"}}, "a transfer needs a target"),
        ({"source": {"type": "kafka"}, "target": {"type": "http"}}, "the type of the source is 'kafka': write one of"),
        ({"source": {}, "target": {}}, "the type of the source is None"),
        ({"source": {"type": "http"}, "target": {"type": "http"}, "mode": "spill"}, "mode is 'spill': write one of"),
        ({"source": {"type": "http"}, "target": {"type": "http"}, "chunk_size": 0.5}, "chunk_size is 0.5"),
        ({"source": {"type": "http"}, "target": {"type": "http"}, "chunk_size": "all"}, "chunk_size is 'all'"),
        (
            {"source": pg(query="select 1; select 2"), "target": {"type": "http"}},
            "the source of a transfer is one statement",
        ),
        ({"source": pg(table="a; drop"), "target": {"type": "http"}}, "invalid table 'a; drop'"),
        ({"source": pg(query="select 1 as id"), "target": pg(table="missing")}, "there is no table missing"),
        (
            {"source": pg(query="select 1"), "target": pg(table="t", mode="upsert")},
            "the target of a transfer with mode upsert needs key",
        ),
        (
            {"source": pg(query="select 1"), "target": {"type": "duckdb", "table": "t", "mode": "upsert"}},
            "the target of a transfer with mode upsert needs key",
        ),
        (
            {"source": pg(query="create table x ()"), "target": {"type": "duckdb", "table": "t"}},
            "the query of the source yields no rows",
        ),
        (
            {"source": pg(query="select 1"), "target": {"type": "duckdb", "query": "select 1"}},
            "a transfer into DuckDB needs a table",
        ),
    ],
)
async def test_invalid_calls_are_refused(postgres: Context, config: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await TOOL.run(request("transfer", **config), postgres)
