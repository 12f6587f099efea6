"""Rows of many calls in one transaction: each call has the outcome that it would have alone."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import asyncpg
import pytest

from noetl_activities import sinks
from noetl_activities.errors import SinkError, ToolError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres.pool import pooled_connections
from noetl_activities.sinks import Entry, OutcomeLookup, SinkRequest, Sinks, StoreResult
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.batches import SinkBatches
from noetl_activities.sinks.postgres_batch import batch_key
from noetl_temporal.stack.addresses import Addresses
from tests.shell.servers import proxy_to

from .conftest import Context

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Result = StoreResult | tuple[str, Outcome | None]


def outcome_of(n: object) -> str:
    return json.dumps({"status": "ok", "result": n})


class Table:
    """One table ``(id int primary key, v text)`` and the calls of one step that store in it."""

    def __init__(self, connection: Connection, context: Context, performer: Sinks) -> None:
        self.name = f"batch_{uuid.uuid4().hex[:8]}"
        self.config: dict[str, Any] = {"table": self.name}
        self.connection = connection
        self.mode = "insert"
        self._context = context
        self._performer = performer

    async def make(self) -> None:
        await self.connection.execute(f"create table {self.name} (id int primary key, v text, x text)")

    def key(self, call: object) -> str:
        return f"42/{self.name}/{call}"

    async def store(self, call: object, data: Any) -> Result:
        """What became of it, an error by its words and its outcome."""
        key = self.key(call)
        entry = Entry(f"{key}/sink0", 1, key, outcome_of(call), f"42/{self.name}/once")
        config = {**self.config, "data": data}
        try:
            return await self._performer.store(
                SinkRequest("postgres", config, self.mode, entry, None, "pg"), self._context
            )
        except SinkError as error:
            return str(error), error.outcome
        except ToolError as error:
            return str(error), None

    async def store_all(self, data: Sequence[Any]) -> list[Result]:
        return list(await asyncio.gather(*(self.store(call, row) for call, row in enumerate(data))))

    async def find(self, call: object) -> str | None:
        return await self._performer.find_outcome(OutcomeLookup("postgres", {}, "pg", self.key(call), 1), self._context)

    async def rows(self) -> list[tuple[int, str | None]]:
        return [(row["id"], row["v"]) for row in await self.connection.fetch(f"select * from {self.name} order by id")]

    async def entries(self) -> list[str]:
        """Of the ledger, those of this table's calls."""
        sql = "select key from noetl_ledger.outcome where key like $1 and outcome is not null order by key"
        return [row["key"] for row in await self.connection.fetch(sql, self.key("%"))]

    async def transactions(self) -> int:
        """In which the rows were written."""
        return int(await self.connection.fetchval(f"select count(distinct xmin::text) from {self.name}"))


@pytest.fixture
async def connection(servers: Addresses) -> AsyncGenerator[Connection]:
    opened = await asyncpg.connect(servers.postgres)
    async with pooled_connections():
        yield opened
    await opened.close()


@pytest.fixture
def make(connection: Connection, postgres: Context) -> Callable[..., Awaitable[Table]]:
    async def table(performer: Sinks | None = None, context: Context = postgres) -> Table:
        created = Table(connection, context, performer or SinkBatches())
        await created.make()
        return created

    return table


@pytest.fixture
async def table(make: Callable[..., Awaitable[Table]]) -> Table:
    return await make()


async def test_rows_and_entries_of_many_calls_are_one_transaction(table: Table) -> None:
    store_all = await table.store_all([{"id": n} for n in range(100)])
    assert store_all == [StoreResult(1, table.name, is_in_ledger=True)] * 100
    assert await table.rows() == [(n, None) for n in range(100)]
    assert await table.transactions() == 1
    sql = "select count(distinct xmin::text) from noetl_ledger.outcome where key like $1"
    assert await table.connection.fetchval(sql, table.key("%")) == 1
    assert sorted(await table.entries()) == sorted(table.key(n) for n in range(100))


async def test_outcomes_of_many_calls_are_found_together(table: Table) -> None:
    await table.store_all([{"id": n} for n in range(3)])
    answers = await asyncio.gather(*(table.find(call) for call in range(5)))
    assert [entry and json.loads(entry)["result"] for entry in answers] == [0, 1, 2, None, None]


CASES: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "good": ("append", {}, [{"id": n, "v": f"{n}"} for n in range(9)]),
    "one taken": ("insert", {}, [{"id": n} for n in (1, 2, 50, 3, 4)]),
    "wrong type": ("insert", {}, [{"id": 1}, {"id": "five"}, {"id": 3}, {"id": None}]),
    "unknown column": ("insert", {}, [{"id": 1}, {"id": 2, "nope": 1}, {"id": 3}]),
    "no columns": ("insert", {}, [{"id": 1}, [{}], {"id": 3}]),
    "no rows": ("insert", {}, [{"id": 1}, [], [{"id": 3}, {"id": 4}]]),
    "nul": ("insert", {}, [{"id": 1}, {"id": 2, "v": "a\0"}, {"id": 3}]),
    "all wrong": ("insert", {}, [{"id": "x"}] * 5),
    "other columns": ("insert", {}, [{"id": 1}, {"id": 2, "v": "b"}, {"v": "c", "id": 3}, {"id": 4}]),
    "upsert": ("upsert", {"key": "id"}, [{"id": n % 3, "v": f"{n}"} for n in range(8)]),
    "merge": ("merge", {"key": ["id"]}, [{"id": 50, "v": "new"}, {"id": 1, "v": "x"}]),
    "upsert without key": ("upsert", {}, [{"id": 1}, {"id": 2}]),
    "replace": ("replace", {}, [{"id": n} for n in range(5)]),
    "no table": ("insert", {"table": "no_such_table"}, [{"id": 1}, {"id": 2}]),
    "statement": ("insert", {"statement": "insert into TABLE values (:id, :v)"}, [{"id": n, "v": n} for n in range(5)]),
    "statement with params": (
        "insert",
        {"statement": "update TABLE set v = $1", "params": ["7"]},
        [None, None, None],
    ),
    "statement that counts": (
        "insert",
        {"statement": "/* all */ update TABLE set v = :v where id >= :id"},
        [{"id": 50, "v": "a"}, {"id": 51, "v": "b"}, {"id": 1, "v": "c"}],
    ),
    "statement that fails": (
        "insert",
        {"statement": "insert into TABLE values (:id)"},
        [{"id": n} for n in (1, 50, 2)],
    ),
    "statement without a name": ("insert", {"statement": "insert into TABLE values (:id)"}, [{"id": 1}, {"nope": 2}]),
    "two statements": (
        "insert",
        {"commands": ["insert into TABLE values (:id)", "delete from TABLE where id = :id"]},
        [{"id": 1}, {"id": 2}],
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_each_call_has_the_outcome_that_it_would_have_alone(
    case: str, make: Callable[..., Awaitable[Table]]
) -> None:
    """The same results, errors, rows and entries as one after the other. Row 50 is there before."""
    mode, config, data = CASES[case]
    results: list[Any] = []
    for performer in (sinks, SinkBatches()):
        table = await make(performer)
        await table.connection.execute(f"insert into {table.name} values (50, 'old')")
        table.mode = mode
        table.config |= json.loads(json.dumps(config).replace("TABLE", table.name))
        if performer is sinks:
            answers = [await table.store(call, row) for call, row in enumerate(data)]
        else:
            answers = await table.store_all(data)
        state = repr((answers, await table.rows(), await table.entries()))
        results.append(state.replace(table.name, "TABLE"))
    assert results[1] == results[0]


async def test_a_row_that_is_refused_leaves_the_others_in_batches(table: Table) -> None:
    data: list[Any] = [{"id": n} for n in range(64)]
    data[40] = {"id": "five"}
    store_all = await table.store_all(data)
    assert [call for call, answer in enumerate(store_all) if not isinstance(answer, StoreResult)] == [40]
    assert len(await table.rows()) == 63
    assert await table.transactions() <= 7


@pytest.mark.parametrize("statement", ["commit", "set local search_path to nowhere", "select 1"])
async def test_sql_that_may_change_the_transaction_stays_alone(table: Table, statement: str) -> None:
    table.config = {"commands": [f"insert into {table.name} values (:id)", statement]}
    await table.store_all([{"id": n} for n in range(5)])
    assert len(await table.rows()) == 5
    assert await table.transactions() == 5


TOGETHER: list[tuple[str, dict[str, Any]]] = [
    ("append", {}),
    ("upsert", {"key": "id"}),
    ("merge", {"key": "id"}),
    ("replace", {}),
    ("insert", {"statement": "insert into TABLE values (:id)"}),
]


@pytest.mark.parametrize(("mode", "config"), TOGETHER)
async def test_every_mode_is_stored_together(mode: str, config: dict[str, Any], table: Table) -> None:
    table.mode = mode
    table.config |= json.loads(json.dumps(config).replace("TABLE", table.name))
    await table.store_all([{"id": n} for n in range(20)])
    assert len(await table.rows()) == 20
    assert await table.transactions() == 1


def test_replace_that_empties_at_each_call_stays_alone() -> None:
    assert batch_key(SinkRequest("postgres", {"table": "t"}, "replace", Entry("k"), None)) is None


async def test_one_of_two_exclusive_calls_stores(table: Table) -> None:
    store_all = await table.store_all([{"id": 1}, {"id": 2}, {"id": 1}])
    assert sum(isinstance(answer, StoreResult) for answer in store_all) == 2
    assert await table.rows() == [(1, None), (2, None)]


async def test_stored_rows_are_not_stored_again(make: Callable[..., Awaitable[Table]]) -> None:
    """As after a crash between commit and report: the call takes what stands there."""
    table = await make()
    await table.store_all([{"id": n} for n in range(10)])
    store_all = await table.store_all([{"id": n + 100} for n in range(20)])
    assert all(isinstance(answer, StoreResult) for answer in store_all)
    rivals = [
        answer.existing_outcome and json.loads(answer.existing_outcome)["result"]
        for answer in store_all
        if isinstance(answer, StoreResult)
    ]
    assert rivals == [*range(10), *[None] * 10]
    assert [row for row, _ in await table.rows()] == [*range(10), *range(110, 120)]


async def test_concurrent_batches_store_each_row_once(make: Callable[..., Awaitable[Table]], postgres: Context) -> None:
    """Two workers make the same calls, in orders of their own."""
    table = await make()
    rival = Table(table.connection, postgres, SinkBatches())
    rival.name, rival.config = table.name, table.config
    data = [(n, {"id": n}) for n in range(60)]
    mine = (table.store(call, row) for call, row in data)
    theirs = (rival.store(call, row) for call, row in reversed(data))
    answers = await asyncio.gather(*mine, *theirs)
    assert all(isinstance(answer, StoreResult) for answer in answers)
    assert sum(answer.duplicate for answer in answers if isinstance(answer, StoreResult)) == 60
    assert [row for row, _ in await table.rows()] == list(range(60))


# ---- one call must not harm the others ------------------------------------------------------------------------------


async def until_blocked(connection: Connection, count: int = 1) -> None:
    """So many sessions wait for a lock."""
    sql = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    async with asyncio.timeout(30):
        while await connection.fetchval(sql) < count:
            await asyncio.sleep(0.01)


async def test_a_call_that_is_cancelled_stores_nothing_and_the_others_do(table: Table, servers: Addresses) -> None:
    holder = await asyncpg.connect(servers.postgres)
    try:
        async with holder.transaction():
            await holder.execute(f"lock table {table.name} in share mode")
            tasks = [asyncio.create_task(table.store(n, {"id": n})) for n in range(6)]
            await until_blocked(table.connection)
            tasks[2].cancel()
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await holder.close()
    assert [isinstance(answer, StoreResult) for answer in answers] == [True, True, False, True, True, True]
    assert [row for row, _ in await table.rows()] == [0, 1, 3, 4, 5]
    assert table.key(2) not in await table.entries()


async def test_a_batch_of_cancelled_calls_is_rolled_back(table: Table, servers: Addresses) -> None:
    holder = await asyncpg.connect(servers.postgres)
    try:
        async with holder.transaction():
            await holder.execute(f"lock table {table.name} in share mode")
            tasks = [asyncio.create_task(table.store(n, {"id": n})) for n in range(3)]
            await until_blocked(table.connection)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await until_blocked(table.connection, 0)
    finally:
        await holder.close()
    assert await table.store_all([{"id": n} for n in range(3)]) == [StoreResult(1, table.name, is_in_ledger=True)] * 3


async def test_a_row_that_is_locked_keeps_only_its_own_call_waiting(table: Table, servers: Addresses) -> None:
    await table.connection.execute(f"insert into {table.name} values (3, 'old')")
    table.config["key"], table.mode = "id", "upsert"
    holder = await asyncpg.connect(servers.postgres)
    try:
        async with holder.transaction():
            await holder.execute(f"update {table.name} set v = 'held' where id = 3")
            tasks = [asyncio.create_task(table.store(n, {"id": n, "v": "new"})) for n in range(6)]
            others = [task for n, task in enumerate(tasks) if n != 3]
            await asyncio.wait_for(asyncio.gather(*others), 30)
            assert not tasks[3].done()
        assert isinstance(await tasks[3], StoreResult)
    finally:
        await holder.close()
    assert await table.rows() == [(n, "new") for n in range(6)]
    assert await table.transactions() == 6  # no half of the batch waited for the lock once more


async def test_calls_of_other_tables_and_logins_are_in_separate_batches(
    make: Callable[..., Awaitable[Table]], servers: Addresses
) -> None:
    batches = SinkBatches()
    first, two = await make(batches), await make(batches)
    other_context = Context(pg={"type": "postgres", "dsn": f"{servers.postgres}?application_name=other"})
    other = await make(batches, other_context)
    await asyncio.gather(*(table.store_all([{"id": n} for n in range(5)]) for table in (first, two, other)))
    assert [len(await table.rows()) for table in (first, two, other)] == [5, 5, 5]
    xmins = {
        (await table.connection.fetchval(f"select min(xmin::text) from {table.name}")) for table in (first, two, other)
    }
    assert len(xmins) == 3


async def test_every_call_reports_that_the_server_is_unavailable(
    make: Callable[..., Awaitable[Table]], servers: Addresses
) -> None:
    async with proxy_to(servers.postgres) as proxy:
        away = Context(pg={"type": "postgres", "dsn": proxy.dsn})
        alone, table = await make(sinks, away), await make(SinkBatches(), away)
        await proxy.disconnect()
        expected = await alone.store(0, {"id": 0})
        assert await table.store_all([{"id": n} for n in range(4)]) == [expected] * 4
        await proxy.restore()
        assert (
            await table.store_all([{"id": n} for n in range(4)]) == [StoreResult(1, table.name, is_in_ledger=True)] * 4
        )


async def test_a_connection_that_is_lost_in_the_middle_loses_and_doubles_nothing(
    table: Table, servers: Addresses
) -> None:
    holder = await asyncpg.connect(servers.postgres)
    try:
        async with holder.transaction():
            await holder.execute(f"lock table {table.name} in share mode")
            storing = asyncio.create_task(table.store_all([{"id": n} for n in range(20)]))
            await until_blocked(table.connection)
            await table.connection.fetch(
                "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
            )
        answers = await storing
    finally:
        await holder.close()
    assert all(isinstance(answer, StoreResult) for answer in answers)
    assert [row for row, _ in await table.rows()] == list(range(20))


async def test_without_a_ledger_each_call_stores_by_itself(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbidden(_connection: Any) -> bool:
        return False

    monkeypatch.setattr(ledger, "create_if_missing", forbidden)
    store_all = await table.store_all([{"id": n} for n in range(4)])
    assert [answer.warning for answer in store_all if isinstance(answer, StoreResult)] == [ledger.NO_LEDGER] * 4
    assert len(await table.rows()) == await table.transactions() == 4


async def test_an_unknown_credential_is_reported_by_each_call(postgres: Context) -> None:
    batches = SinkBatches()
    with pytest.raises(ToolError, match="no credential 'gp'"):
        await batches.store(SinkRequest("postgres", {"table": "t"}, "insert", Entry("k"), {"id": 1}, "gp"), postgres)
    with pytest.raises(ToolError, match="no credential 'gp'"):
        await batches.find_outcome(OutcomeLookup("postgres", {}, "gp", "k", 1), postgres)
