"""A SQL call keeps its outcome beside what it wrote: whoever makes it again takes that, and nothing runs."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec
import pytest

from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerOutcome, LedgerResult, LedgerSlot, LedgerTool
from noetl_activities.postgres import tool as postgres_tool
from noetl_compiler.sql_effects import sql_effect
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context, request

_REPETITIONS = "select repetition from noetl_ledger.outcome order by repetition"


class Base:
    """A table ``t`` in a database of its own, and one call. ``owner`` sees what the call did."""

    def __init__(self, context: Context, owner: asyncpg.Connection[asyncpg.Record]) -> None:
        self.context = context
        self.owner = owner
        self.key = f"42/{uuid.uuid4().hex}"

    async def run(self, sql: str, n: int = 1, *params: Any, context: Context | None = None) -> LedgerResult:
        request_ = request("postgres", "pg", query=sql, params=list(params) or None)
        return await postgres_tool.TOOL.run_with_ledger(request_, context or self.context, self.slot(n))

    async def find(self, n: int = 1) -> LedgerResult | None:
        return await postgres_tool.TOOL.find_outcome(request("postgres", "pg"), self.context, self.slot(n))

    def slot(self, n: int) -> LedgerSlot:
        return LedgerSlot(self.key, n, _text)

    async def ids(self) -> list[int]:
        return [record["id"] for record in await self.owner.fetch("select id from t order by id")]

    async def has_ledger(self) -> bool:
        return await self.owner.fetchval("select to_regclass('noetl_ledger.outcome')") is not None

    async def entries(self) -> list[Any]:
        return [record["repetition"] for record in await self.owner.fetch(_REPETITIONS)]


def _text(outcome: Outcome) -> str:
    return msgspec.json.encode(LedgerOutcome(outcome)).decode()


@pytest.fixture
async def base(servers: Addresses) -> AsyncGenerator[Base]:
    """A database without a ledger, with a role ``guest`` of its name that may use nothing but ``t``."""
    name = f"once_{uuid.uuid4().hex[:8]}"
    root = await asyncpg.connect(servers.postgres)
    await root.execute(f"create role {name} login password 'guest'")
    await root.execute(f"create database {name}")
    owner = await asyncpg.connect(servers.postgres, database=name)
    await owner.execute(f"create table t (id int); grant select, insert on t to {name}")
    parts = urlsplit(servers.postgres)
    yield Base(Context(pg={"type": "postgres", "dsn": parts._replace(path=f"/{name}").geturl()}), owner)
    await owner.close()
    await root.execute(f"drop database {name} with (force)")
    await root.execute(f"drop role {name}")
    await root.close()


async def guest(base: Base) -> Context:
    """The same database as the role that owns nothing."""
    parts = urlsplit(str((await base.context.credential("pg"))["dsn"]))
    name = parts.path.strip("/")
    host = parts.netloc.rpartition("@")[2]
    return Context(pg={"type": "postgres", "dsn": parts._replace(netloc=f"{name}:guest@{host}").geturl()})


INSERT = "insert into t values (1); select count(*)::int as n from t"


async def test_a_second_attempt_takes_the_outcome(base: Base) -> None:
    assert isinstance(postgres_tool.TOOL, LedgerTool)
    assert await base.find() is None
    first = await base.run(INSERT)
    second = await base.run(INSERT)
    assert (first.is_in_ledger, first.is_reused, second.is_in_ledger, second.is_reused) == (True, False, True, True)
    assert second.outcome == first.outcome
    assert first.outcome.result["rows"] == [{"n": 1}]
    assert await base.ids() == [1]
    assert await base.find() == second


async def test_another_attempt_number_is_another_call(base: Base) -> None:
    for n in (1, 2, 2):
        assert (await base.run(INSERT, n)).outcome.result["rows"] == [{"n": n}]
    assert await base.ids() == [1, 1]


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("with added as (insert into t values (1) returning id) select id from added", ()),
        ("select f()", ()),
        ("do $$ begin insert into t values (1); end $$", ()),
        ("insert into t values ($1) returning id", (1,)),
        ("merge into t using (select 1 as id) s on t.id = s.id when not matched then insert values (s.id)", ()),
    ],
)
async def test_statements_that_write_take_effect_once(base: Base, sql: str, params: tuple[Any, ...]) -> None:
    await base.owner.execute("create function f() returns int language sql as 'insert into t values (1) returning id'")
    for _ in range(2):
        assert (await base.run(sql, 1, *params)).outcome.error is None
    assert await base.ids() == [1]


@pytest.mark.parametrize(
    "sql", ["select 1", "select * from t; show search_path", "update t set id = 2 where id = 5", "set x.y = 1"]
)
async def test_a_call_that_wrote_nothing_leaves_no_entry(base: Base, sql: str) -> None:
    for _ in range(2):
        answer = await base.run(sql)
        assert (answer.outcome.status, answer.is_in_ledger, answer.is_reused) == ("ok", False, False)
        assert not await base.has_ledger()
    await base.run(INSERT, 2)
    assert not (await base.run(sql, 3)).is_in_ledger
    assert await base.entries() == [2]


async def test_concurrent_attempts_take_effect_once(base: Base) -> None:
    """All of them run at once, also where the ledger is still to be made."""
    sql = "insert into t values (1); select pg_sleep(0.3); select gen_random_uuid() as id"
    answers = await asyncio.gather(*(base.run(sql) for _ in range(5)))
    assert await base.ids() == [1]
    assert len({answer.outcome.result["rows"][0]["id"] for answer in answers}) == 1
    assert sorted(answer.is_reused for answer in answers) == [False, True, True, True, True]


async def test_a_concurrent_attempt_that_conflicts_with_the_row_of_the_first_gets_its_outcome(base: Base) -> None:
    """It waits at the table's own unique key, not at that of the ledger, and would report a duplicate."""
    await base.owner.execute("alter table t add primary key (id)")
    answers = await asyncio.gather(*(base.run("insert into t values (1); select pg_sleep(0.3)") for _ in range(3)))
    assert [answer.outcome.status for answer in answers] == ["ok"] * 3
    assert await base.ids() == [1]
    other = await base.run("insert into t values (1)", 2)
    assert other.outcome.pg is not None
    assert other.outcome.pg["sqlstate"] == "23505"


async def test_an_error_leaves_no_entry(base: Base) -> None:
    failed = await base.run("insert into t values (1); select 1/0")
    assert (failed.outcome.status, failed.is_in_ledger) == ("error", False)
    assert await base.find() is None
    assert (await base.run(INSERT)).outcome.result["rows"] == [{"n": 1}]


async def test_statements_that_refuse_a_transaction_run_again(base: Base) -> None:
    for _ in range(2):
        answer = await base.run("insert into t values (1); vacuum t")
        assert (answer.outcome.error, answer.is_in_ledger) == (None, False)
    assert await base.ids() == [1, 1]


@pytest.mark.parametrize(
    "sql",
    [
        "vacuum t",
        "create unique index concurrently i on t (id)",
        "drop index concurrently if exists nothing",
        "reindex table concurrently t",
        "reindex (verbose) database",
        "discard all",
        "commit",
        "begin; select 1; commit",
        "call p()",
        "do $$ begin commit; end $$",
        "savepoint a; rollback to a",
        "rollback to savepoint nothing",
        "reindex table t",
        "drop index if exists nothing",
        "do $$ begin perform 1; end $$",
    ],
)
async def test_the_compiler_predicts_the_effects_that_postgres_reports(base: Base, sql: str) -> None:
    """What the compiler calls exactly once is kept by the transaction, and nothing else is."""
    await base.owner.execute("create procedure p() language plpgsql as 'begin commit; end'")
    answer = await base.run(f"insert into t values (1); {sql}")
    if answer.outcome.error is None:
        assert answer.is_in_ledger == (sql_effect("postgres", [sql]).kind == "commits")
    else:
        assert await base.ids() == []


async def test_the_caller_decides_how_an_outcome_is_stored(base: Base) -> None:
    """The caller takes secrets out, and what is too large."""

    def short(_outcome: Outcome) -> str:
        return _text(Outcome("ok", "***"))

    slot = LedgerSlot(base.key, 1, short)
    request_ = request("postgres", "pg", query=INSERT)
    assert (await postgres_tool.TOOL.run_with_ledger(request_, base.context, slot)).outcome.result["rows"] == [{"n": 1}]
    assert (await postgres_tool.TOOL.run_with_ledger(request_, base.context, slot)).outcome == Outcome("ok", "***")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_role_that_may_not_make_the_ledger_runs_again_and_is_warned(
    base: Base, caplog: pytest.LogCaptureFixture
) -> None:
    limited_account = await guest(base)
    await base.run("select 1", context=limited_account)
    assert warnings(caplog) == []
    for _ in range(2):
        answer = await base.run(INSERT, context=limited_account)
        assert (answer.outcome.status, answer.is_in_ledger) == ("ok", False)
    assert await base.ids() == [1, 1]
    [warning] = warnings(caplog)
    assert "noetl ledger sql" in warning


@pytest.mark.parametrize("rights", ["", "usage on schema noetl_ledger", "select on noetl_ledger.outcome"])
async def test_a_role_that_may_not_use_the_ledger_runs_again(base: Base, rights: str) -> None:
    limited_account = await guest(base)
    await base.run("insert into t values (0)", 9)
    name = await base.owner.fetchval("select current_database()")
    if rights:
        await base.owner.execute(f"grant {rights} to {name}")
    for _ in range(2):
        assert (await base.run(INSERT, context=limited_account)).outcome.error is None
    assert await base.ids() == [0, 1, 1]


async def test_statements_that_take_another_role_still_run(base: Base) -> None:
    """The entry would be written by a role that may not: the statements count, not their entry."""
    await base.run("insert into t values (0)", 9)
    name = await base.owner.fetchval("select current_database()")
    answer = await base.run(f"set local role {name}; insert into t values (1)")
    assert (answer.outcome.error, answer.is_in_ledger) == (None, False)
    assert await base.ids() == [0, 1]
    answer = await base.run("set transaction read only; select 1 as one", 2)
    assert (answer.outcome.error, answer.is_in_ledger) == (None, False)


async def test_an_unreachable_ledger_is_a_connection_error() -> None:
    unreachable = Context(pg={"type": "postgres", "db_host": "127.0.0.1", "db_port": 1, "db_user": "u"})
    failure = await postgres_tool.TOOL.find_outcome(request("postgres", "pg"), unreachable, LedgerSlot("k", 1, _text))
    assert failure is not None
    assert failure.outcome.error is not None
    assert (failure.outcome.error.kind, failure.is_reused) == ("connection", False)
