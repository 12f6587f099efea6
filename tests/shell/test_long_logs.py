"""Commands read an event log of any length a page at a time, in the order its rows happened."""

from __future__ import annotations

import asyncio
import secrets
import tracemalloc

import asyncpg
import msgspec
import pytest
from click.testing import CliRunner

from noetl_temporal.cli import log_summary, logged_run
from noetl_temporal.cli.event_log import log_connection
from noetl_temporal.cli.events import events_command
from noetl_temporal.cli.log_summary import read_log
from noetl_temporal.cli.logged_run import logged_events
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.stack.addresses import Addresses

ROWS = 100_050
"""More than any command ever read at once."""

_WRITE = """
WITH playbook AS (
    INSERT INTO noetl.catalog (catalog_id, path, version, kind) VALUES (1, 'tests/long', 1, 'playbook')
), run AS (
    INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time) VALUES (7, 1, 'RUNNING', now())
)
INSERT INTO noetl.event
    (execution_id, catalog_id, event_id, event_time, event_type, node_name, node_type, status, meta, error, position)
SELECT 7, 1, (n * 7919) % $1 + 1, '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 ms',
       CASE WHEN n % 20 = 0 THEN 'warning' ELSE 'ctx.updated' END, CASE n WHEN $1 THEN 'a longer name' ELSE 'n' END,
       'step', 'COMPLETED', jsonb_build_object('n', n), CASE WHEN n % 20 = 0 THEN 'odd ' || n % 100 END, n
FROM generate_series(1, $1) n
"""
"""Ids are in another order than times."""

_ANOTHER = """
INSERT INTO noetl.event
    (execution_id, catalog_id, event_id, event_time, event_type, node_name, node_type, status, meta, position)
SELECT 7, 1, max(event_id) + n, max(event_time) + n * interval '1 ms', 'ctx.updated', 'n', 'step', 'COMPLETED', '{}',
       max(position) + n
FROM noetl.event, generate_series(1, 30) n WHERE execution_id = 7 GROUP BY n
"""


@pytest.fixture(scope="module")
async def dsn(servers: Addresses) -> str:
    """A database in which run 7 has ROWS rows; meta.n is their order."""
    name = f"long_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(servers.postgres)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    dsn = servers.postgres.rpartition("/")[0] + f"/{name}"
    await migrate(dsn)
    connection = await asyncpg.connect(dsn)
    await connection.execute(_WRITE.replace("$1", str(ROWS)))
    await connection.close()
    return dsn


@pytest.fixture
def environment(dsn: str, servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {**servers.environment(), "NOETL_POSTGRES": dsn}.items():
        monkeypatch.setenv(variable, value)


async def lines_of(*arguments: str) -> list[str]:
    """The lines that ``noetl events 7`` prints."""
    result = await asyncio.to_thread(CliRunner().invoke, events_command, [f"{7:018}", *arguments])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("last", [1, 7, 2_500])
async def test_the_last_rows_are_the_last_that_happened(last: int) -> None:
    rows = [msgspec.json.decode(line) for line in await lines_of("--json", "--last", str(last))]
    assert [row["meta"]["n"] for row in rows] == list(range(ROWS - last + 1, ROWS + 1))


async def test_all_rows_are_read_each_once_in_their_order(dsn: str) -> None:
    last_id = 0
    tracemalloc.start()
    try:
        async for page in logged_events(dsn, 7):
            assert [row.event.meta["n"] for row in page.rows] == list(range(last_id + 1, last_id + len(page.rows) + 1))
            last_id += len(page.rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last_id == ROWS
    assert peak < 20_000_000, "all rows take some 150 MB"


@pytest.mark.parametrize("last", [None, 25])
async def test_a_log_that_grows_while_it_is_read_has_an_end(
    dsn: str, last: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_run, "PAGE_ROWS", 10 if last else 20_000)
    connection = await asyncpg.connect(dsn)
    last_id = 0
    try:
        async for page in logged_events(dsn, 7, last):
            last_id += len(page.rows)
            await connection.execute(_ANOTHER)
    finally:
        await connection.execute(f"DELETE FROM noetl.event WHERE event_id > {ROWS}")
        await connection.close()
    assert last_id == (last or ROWS)


async def test_a_log_with_fewer_rows_than_the_limit_is_read_completely(dsn: str) -> None:
    async for page in logged_events(dsn, 7, 10 * ROWS):
        assert page.rows[0].event.meta["n"] == 1
        break


@pytest.mark.usefixtures("environment")
async def test_the_pages_of_a_table_have_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged_run, "PAGE_ROWS", 10)
    header, *lines = await lines_of("--last", "35")
    assert len(lines) == 35
    assert header.split() == ["time", "(UTC)", "event", "node", "status", "seconds"]
    assert {line.index("COMPLETED") for line in lines} == {header.index("status")}


async def test_rows_are_counted_and_warnings_read_wherever_they_are(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_summary, "_PAGE_EVENTS", 1_000)
    async with log_connection(dsn) as log:
        reading = await read_log(log, "default", "tests/long/7", "r1", 7)
    assert (reading.events, reading.superseded) == (ROWS, 0)
    assert sorted(warning.rpartition(" ")[2] for warning in reading.warnings) == ["0", "20", "40", "60", "80"]
