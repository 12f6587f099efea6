"""Playbooks work on a database of their own: whatever their SQL does, the event log stays whole."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from pathlib import Path

import asyncpg
import pytest

from dev.attack.postgres_statements import OF_THE_LOG, REFUSED, SPOILING
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
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


WITHOUT_AUTH = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: without_auth, path: tests/without_auth}
workflow:
  - step: start
    tool: {kind: postgres, query: "DROP TABLE IF EXISTS without_auth; CREATE TABLE without_auth (n int)"}
    next: {arcs: [{step: store}]}
  - step: store
    tool:
      kind: python
      code: "result = [{'n': 7}]"
      sink: {kind: postgres, table: without_auth}
    next: {arcs: [{step: read}]}
  - step: read
    tool: {kind: postgres, query: SELECT n FROM without_auth}
"""


@pytest.mark.parametrize("auth", ["pg_local", "pg_k8s", "test_postgres"])
async def test_a_playbook_cannot_touch_the_log(site: Site, log: asyncpg.Connection, auth: str) -> None:
    before = await log.fetchval("SELECT count(*) FROM noetl.event")
    report = site.run(site.write(STATEMENT), "--set", "query=DELETE FROM noetl.event", "--set", f"auth={auth}")
    assert report["status"] == "failed"
    assert "SQLSTATE 42P01" in str(report["failures"])
    rows = "SELECT count(*) FROM noetl.event WHERE execution_id = $1"
    assert await log.fetchval("SELECT count(*) FROM noetl.event") > before
    assert await log.fetchval(rows, int(report["execution_id"])) > 0


def test_the_stack_has_a_default_credential(site: Site) -> None:
    """Semantics 31. Of tasks and of sinks."""
    report = site.run(site.write(WITHOUT_AUTH, "without_auth.yaml"))
    assert (report["status"], report["result"]["rows"]) == ("completed", [{"n": 7}]), report["failures"]


@pytest.mark.parametrize("query", REFUSED)
async def test_the_playbooks_account_may_use_its_database_and_no_more(servers: Addresses, query: str) -> None:
    log = await asyncpg.connect(servers.postgres)
    playbooks = await asyncpg.connect(servers.playbooks)
    try:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedTableError)):
            await playbooks.execute(query)
    finally:
        await playbooks.close()
        await log.close()


async def test_roles_of_playbooks_are_members_of_no_role(servers: Addresses) -> None:
    log = await asyncpg.connect(servers.postgres)
    members = "SELECT count(*) FROM pg_auth_members WHERE member::regrole::text IN ('playbooks', 'reader')"
    try:
        assert await log.fetchval(members) == 0
    finally:
        await log.close()


@pytest.mark.parametrize("name", ["NOETL_CREDENTIAL_PG_LOCAL", "NOETL_CREDENTIAL_PG_NOETL_K8S"])
async def test_an_account_that_changes_itself_does_not_break_the_stack(tmp_path: Path, name: str) -> None:
    """Nothing forbids these statements in Postgres. Logins by TCP, which people use, wait for the next start."""
    home = Home(tmp_path / ".noetl")
    with owned_stack(home, "run") as (_, addresses):
        for query in SPOILING:
            connection = await by_credential(addresses, name)
            with suppress(asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedObjectError):
                await connection.execute(query)
            await connection.close()
        connection = await by_credential(addresses, name)
        assert await connection.fetchval("SELECT 7") == 7
        await connection.execute("ALTER ROLE CURRENT_USER SET search_path = nowhere")
        await connection.close()
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
            await by_tcp(addresses, name)
    with owned_stack(home, "run") as (_, addresses):
        for connection in (await by_credential(addresses, name), await by_tcp(addresses, name)):
            assert await connection.fetchval("SHOW search_path") == '"$user", public'
            await connection.close()


async def by_credential(addresses: Addresses, name: str) -> asyncpg.Connection:
    """As a tool connects."""
    login = json.loads(addresses.environment()[name])
    connection = await asyncpg.connect(
        host=login["db_host"],
        port=login["db_port"],
        user=login["db_user"],
        password=login["db_password"],
        database=login["db_name"],
    )
    await connection.execute("SET default_transaction_read_only = off")
    return connection


async def by_tcp(addresses: Addresses, name: str) -> asyncpg.Connection:
    """As a person connects."""
    login = json.loads(addresses.environment()[name])
    user, password, database = login["db_user"], login["db_password"], login["db_name"]
    return await asyncpg.connect(addresses.postgres_tcp, user=user, password=password, database=database)


@pytest.mark.parametrize("name", ["noetl", "noetl_test", "demo_noetl"])
async def test_playbooks_may_create_schemas_of_any_name(site: Site, playbooks: asyncpg.Connection, name: str) -> None:
    query = f"CREATE SCHEMA {name}; CREATE TABLE {name}.event (id int); DROP SCHEMA {name} CASCADE"
    report = site.run(site.write(STATEMENT), "--set", f"query={query}")
    assert report["status"] == "completed", report["failures"]
    assert await playbooks.fetchval("SELECT current_database()") == "playbooks"


async def test_a_playbook_may_read_the_log_and_only_read_it(site: Site) -> None:
    read = site.run(site.write(STATEMENT), "--set", "auth=pg_noetl_k8s", "--set", "query=SELECT 1 FROM noetl.event")
    assert read["status"] == "completed", read["failures"]
    query = "SET TRANSACTION READ WRITE; DELETE FROM noetl.event"
    report = site.run(site.write(STATEMENT), "--set", "auth=pg_noetl_k8s", "--set", f"query={query}")
    assert report["status"] == "failed"
    addresses = site.addresses()
    reader = await asyncpg.connect(addresses.postgres, user="reader", password=addresses.reader_password)
    try:
        await reader.execute("SET default_transaction_read_only = off")
        for query in OF_THE_LOG:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(query)
    finally:
        await reader.close()


async def test_no_account_reaches_the_database_of_another(servers: Addresses) -> None:
    closed_databases = {
        ("playbooks", servers.playbooks_password): ("noetl", "postgres", "template1"),
        ("reader", servers.reader_password): ("playbooks", "postgres", "template1"),
    }
    for (user, password), databases in closed_databases.items():
        for database, dsn in product(databases, (servers.postgres, servers.postgres_tcp)):
            with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="rejects"):
                await asyncpg.connect(dsn, user=user, password=password, database=database)


async def test_an_existing_cluster_gets_them_at_its_next_start(tmp_path: Path) -> None:
    home = Home(tmp_path / ".noetl")
    with owned_stack(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.postgres)
        await connection.execute("DROP DATABASE playbooks")
        await connection.execute("DROP OWNED BY reader")
        await connection.execute("DROP ROLE playbooks, reader")
        await connection.close()
        await migrate(addresses.postgres)
    (home.root / "playbooks.password").unlink()
    with owned_stack(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.playbooks)
        await connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        await connection.close()
        reader = await asyncpg.connect(addresses.postgres, user="reader", password=addresses.reader_password)
        assert await reader.fetchval("SELECT count(*) FROM noetl.event") == 0
        await reader.close()
    with owned_stack(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.playbooks)
        assert await connection.fetchval("SELECT seven FROM kept") == 7
        await connection.close()
    for account in ("postgres", "playbooks", "reader"):
        assert (home.root / f"{account}.password").stat().st_mode & 0o777 == 0o600
