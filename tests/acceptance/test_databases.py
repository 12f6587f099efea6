"""Playbooks work on a database of their own: whatever their SQL does, the event log stays whole."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

STATEMENT = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: statement, path: tests/statement}
workload: {query: SELECT 1 AS one, auth: pg_local}
workflow:
  - step: start
    tool: {kind: postgres, auth: "{{ workload.auth }}", query: "{{ workload.query }}"}
"""


@pytest.mark.parametrize("auth", ["pg_local", "pg_k8s", "test_postgres"])
async def test_a_playbook_cannot_touch_the_log(site: Site, log: asyncpg.Connection, auth: str) -> None:
    before = await log.fetchval("SELECT count(*) FROM noetl.event")
    told = site.run(site.write(STATEMENT), "--set", "query=DELETE FROM noetl.event", "--set", f"auth={auth}")
    assert told["status"] == "failed"
    assert "SQLSTATE 42P01" in str(told["failures"])
    rows = "SELECT count(*) FROM noetl.event WHERE execution_id = $1"
    assert await log.fetchval("SELECT count(*) FROM noetl.event") > before
    assert await log.fetchval(rows, told["execution_id"]) > 0


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("DELETE FROM event", asyncpg.UndefinedTableError),
        ("CREATE DATABASE another", asyncpg.InsufficientPrivilegeError),
        ("DROP DATABASE noetl", asyncpg.InsufficientPrivilegeError),
        ("CREATE ROLE another", asyncpg.InsufficientPrivilegeError),
        ("ALTER ROLE playbooks SUPERUSER", asyncpg.InsufficientPrivilegeError),
        ("COPY (SELECT 1) TO PROGRAM 'cat'", asyncpg.InsufficientPrivilegeError),
        ("SELECT pg_read_file('PG_VERSION')", asyncpg.InsufficientPrivilegeError),
        ("SELECT rolpassword FROM pg_authid", asyncpg.InsufficientPrivilegeError),
        (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'noetl'",
            asyncpg.InsufficientPrivilegeError,
        ),
    ],
)
async def test_the_playbooks_account_owns_its_database_and_no_more(
    servers: Addresses, query: str, refused: type[Exception]
) -> None:
    log = await asyncpg.connect(servers.postgres)
    playbooks = await asyncpg.connect(servers.playbooks)
    try:
        with pytest.raises(refused):
            await playbooks.execute(query)
    finally:
        await playbooks.close()
        await log.close()


@pytest.mark.parametrize("name", ["noetl", "noetl_test", "demo_noetl"])
async def test_playbooks_may_create_schemas_of_any_name(site: Site, playbooks: asyncpg.Connection, name: str) -> None:
    query = f"CREATE SCHEMA {name}; CREATE TABLE {name}.event (id int); DROP SCHEMA {name} CASCADE"
    told = site.run(site.write(STATEMENT), "--set", f"query={query}")
    assert told["status"] == "completed", told["failures"]
    assert await playbooks.fetchval("SELECT current_database()") == "playbooks"


async def test_a_playbook_may_read_the_log_and_only_read_it(site: Site) -> None:
    read = site.run(site.write(STATEMENT), "--set", "auth=pg_noetl_k8s", "--set", "query=SELECT 1 FROM noetl.event")
    assert read["status"] == "completed", read["failures"]
    query = "SET TRANSACTION READ WRITE; DELETE FROM noetl.event"
    told = site.run(site.write(STATEMENT), "--set", "auth=pg_noetl_k8s", "--set", f"query={query}")
    assert told["status"] == "failed"
    addresses = site.addresses()
    reader = await asyncpg.connect(addresses.postgres, user="reader", password=addresses.reader_password)
    try:
        await reader.execute("SET default_transaction_read_only = off")
        for query in ("DELETE FROM noetl.event", "CREATE TEMP TABLE one (id int)", "CREATE TABLE noetl.one (id int)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(query)
    finally:
        await reader.close()


async def test_no_account_reaches_the_database_of_another(servers: Addresses) -> None:
    closed = {
        ("playbooks", servers.playbooks_password): ("noetl", "postgres", "template1"),
        ("reader", servers.reader_password): ("playbooks", "postgres", "template1"),
    }
    for (user, password), databases in closed.items():
        for database in databases:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await asyncpg.connect(servers.postgres, user=user, password=password, database=database)


async def test_an_existing_cluster_gets_them_at_its_next_start(tmp_path: Path) -> None:
    home = Home(tmp_path / ".noetl")
    with own(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.postgres)
        await connection.execute("DROP DATABASE playbooks")
        await connection.execute("DROP OWNED BY reader")
        await connection.execute("DROP ROLE playbooks, reader")
        await connection.execute("CREATE TABLE noetl.event AS SELECT 7 AS seven")
        await connection.close()
    (home.root / "playbooks.password").unlink()
    with own(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.playbooks)
        await connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        await connection.close()
        reader = await asyncpg.connect(addresses.postgres, user="reader", password=addresses.reader_password)
        assert await reader.fetchval("SELECT seven FROM noetl.event") == 7
        await reader.close()
    with own(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.playbooks)
        assert await connection.fetchval("SELECT seven FROM kept") == 7
        await connection.close()
    for account in ("postgres", "playbooks", "reader"):
        assert (home.root / f"{account}.password").stat().st_mode & 0o777 == 0o600
