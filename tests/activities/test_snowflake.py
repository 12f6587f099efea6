"""The snowflake tool, and transfers from and to Snowflake.

Their server is fakesnow, which answers the real driver. It needs an older DuckDB than this project, so it is installed
apart: NOETL_TEST_FAKESNOW names its program.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import asyncpg
import pytest

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import Outcome
from noetl_activities.snowflake import session as snowflake_session
from noetl_activities.snowflake.tool import TOOL
from noetl_activities.transfer.tool import SNOWFLAKE_TOOL, TransferTool
from noetl_activities.transfer.tool import TOOL as TRANSFER
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context, request

PROGRAM = os.environ.get("NOETL_TEST_FAKESNOW", "")
NUMBERS = itertools.count(1)
needs_server = pytest.mark.skipif(
    not PROGRAM or find_spec("snowflake") is None, reason="NOETL_TEST_FAKESNOW is not set, or there is no driver"
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        number = listener.getsockname()[1]
    process = subprocess.Popen([PROGRAM, "--server", "--port", str(number)], env={}, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while not _answers(number) and time.monotonic() < until:
            time.sleep(0.1)
        yield number
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Warehouse:
    """A schema of the test; ``pg`` is the embedded Postgres."""

    def __init__(self, port: int, dsn: str) -> None:
        self.schema = f"S{next(NUMBERS)}"
        login = {"sf_account": "fakesnow", "sf_user": "fake", "sf_password": "snow-hush", "sf_database": "TEST_DB"}
        place = {"sf_host": "127.0.0.1", "sf_port": port, "sf_protocol": "http", "sf_schema": self.schema}
        self.context = Context(
            sf={"type": "snowflake", **login, **place}, pg={"type": "postgres", "dsn": dsn} if dsn else {}
        )

    async def run(self, command: str, **config: Any) -> Outcome:
        return await TOOL.run(request("snowflake", "sf", command=command, **config), self.context)

    async def copy(self, tool: TransferTool = TRANSFER, auth: Any = None, **config: Any) -> Outcome:
        return await tool.run(request("transfer", auth, **config), self.context)


@pytest.fixture
async def warehouse(port: int) -> Warehouse:
    return await _create_schema(Warehouse(port, ""))


@pytest.fixture
async def both(port: int, servers: Addresses) -> Warehouse:
    return await _create_schema(Warehouse(port, servers.postgres))


async def _create_schema(warehouse: Warehouse) -> Warehouse:
    outcome = await warehouse.run(f"create schema if not exists TEST_DB.{warehouse.schema}")
    assert outcome.error is None, outcome.error
    return warehouse


@needs_server
async def test_rows_of_several_statements(warehouse: Warehouse) -> None:
    command = "create table T (ID int, NAME varchar); insert into T values (1, 'Ada'), (2, 'Ben'); select * from T"
    outcome = await warehouse.run(command)
    assert outcome.error is None
    assert outcome.result["rows"] == [{"ID": 1, "NAME": "Ada"}, {"ID": 2, "NAME": "Ben"}]
    assert (outcome.result["columns"], outcome.result["row_count"], outcome.result["statement_count"]) == (
        ["ID", "NAME"],
        2,
        3,
    )


@needs_server
async def test_values_are_bound(warehouse: Warehouse) -> None:
    outcome = await warehouse.run("select %s as NAME, %s + 1 as N", params=["O'Neil; --", 41])
    assert outcome.result["rows"] == [{"NAME": "O'Neil; --", "N": 42}]
    assert (await warehouse.run("select '100%' as A")).result["rows"] == [{"A": "100%"}]


@needs_server
async def test_a_statement_that_is_refused(warehouse: Warehouse) -> None:
    outcome = await warehouse.run("select * from NOWHERE")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("sql_42", False)


@needs_server
@pytest.mark.stack
async def test_rows_are_transferred_to_postgres_and_back(both: Warehouse, servers: Addresses) -> None:
    table = f"from_snowflake_{both.schema.lower()}"
    owner = await asyncpg.connect(servers.postgres)
    await owner.execute(f"create table {table} (id int primary key, price numeric(10,2), doc jsonb)")
    await both.run("create table T (ID int, PRICE number(10,2), DOC variant); create table BACK (ID int, PRICE float)")
    await both.run("""insert into T select 1, 100.50, parse_json('{"a": [1]}') union all select 2, 0.25, null""")
    auth = {"sf": {"type": "snowflake", "key": "sf"}, "pg": {"type": "postgres", "key": "pg"}}
    outcome = await both.copy(
        SNOWFLAKE_TOOL,
        auth,
        direction="sf_to_pg",
        source={"query": "select * from T order by ID"},
        target={"table": table},
        chunk_size="1",
    )
    assert outcome.error is None, outcome.error
    assert (outcome.result["rows_transferred"], outcome.result["chunks"]) == (2, 2)
    assert await owner.fetchval(f"select doc -> 'a' ->> 0 from {table} where price = 100.50") == "1"
    for _ in range(2):
        back = await both.copy(
            source={"type": "postgres", "auth": "pg", "query": f"select id, price from {table} order by id"},
            target={"type": "snowflake", "auth": "sf", "table": "BACK", "mode": "overwrite"},
        )
        assert back.error is None, back.error
    report = await both.run("select * from BACK order by ID")
    assert report.result["rows"] == [{"ID": 1, "PRICE": 100.5}, {"ID": 2, "PRICE": 0.25}]
    await owner.close()


@needs_server
@pytest.mark.stack
async def test_a_target_with_a_statement_and_one_credential_beside_others(both: Warehouse, servers: Addresses) -> None:
    table = f"by_statement_{both.schema.lower()}"
    owner = await asyncpg.connect(servers.postgres)
    await owner.execute(f"create table {table} (id text primary key, amount int)")
    statement = f"insert into {table} values (%s, %s) on conflict (id) do update set amount = excluded.amount"
    for amount in (100, 200):
        outcome = await both.copy(
            SNOWFLAKE_TOOL,
            {"credential": "sf", "target": {"key": "pg"}},
            direction="sf_to_pg",
            source={"query": f"select 'test_id' as id, {amount} as amount"},
            target={"query": statement},
        )
        assert outcome.error is None, outcome.error
    assert await owner.fetchval(f"select amount from {table}") == 200
    await owner.close()


@pytest.mark.parametrize("auth", [None, {"type": "snowflake", "account": "a", "user": "u", "password": "p"}])
async def test_a_playbook_names_no_account(auth: Any) -> None:
    with pytest.raises(CredentialError, match="the name of a credential of type snowflake"):
        await TOOL.run(request("snowflake", auth, query="select 1"), Context())


def _nothing(_module: str) -> None:
    """No module is found."""


async def test_without_the_driver_the_call_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snowflake_session, "find_spec", _nothing)
    with pytest.raises(ConfigError, match=r'pip install "noetl-temporal\[snowflake\]"'):
        await TOOL.run(request("snowflake", "sf", query="select 1"), Context())


async def test_a_transfer_into_snowflake_has_no_upsert() -> None:
    ends: dict[str, Any] = {
        "source": {"type": "http", "url": "http://x"},
        "target": {"type": "snowflake", "auth": "sf", "table": "T"},
    }
    with pytest.raises(ConfigError, match="has no mode upsert: write a MERGE"):
        await TRANSFER.run(request("transfer", mode="upsert", **ends), Context())
