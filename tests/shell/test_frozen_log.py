"""A Postgres that accepts connections and does not answer: it is reported, and nothing waits forever."""

from __future__ import annotations

import pytest

from noetl_temporal.cli.event_log import log_connection, open_event_log
from noetl_temporal.cli.log_summary import LogSummary, read_log_summary
from noetl_temporal.cli.logged_run import logged_events
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.stack.addresses import Addresses
from tests.acceptance.mute import Mute, mute

from .conftest import Shell

ONE_STEP = "  - step: start\n    tool: {kind: noop}\n"


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIMEOUT_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(f"noetl_temporal.cli.event_log.{name}", 0.5)


def dsn_through(address: str, dsn: str) -> str:
    return dsn.rpartition("@")[0] + f"@{address}/{dsn.rpartition('/')[2]}"


async def test_no_answer_to_a_connection(servers: Addresses, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with mute(f"127.0.0.1:{servers.postgres_port}") as way:
        way.hold()
        dsn = dsn_through(way.address, servers.postgres)
        with pytest.raises(DeploymentError, match="timed out after"):
            await anext(logged_events(dsn, 7))
        async with shell.client(lambda _request, _context: 1) as client:
            run = await shell.submit(client, ONE_STEP)
            async with open_event_log(dsn) as log:
                assert await read_log_summary(log, client.temporal.namespace, run, "") == LogSummary()
            await run.result()
    assert "no events: cannot use Postgres" in capsys.readouterr().err


async def test_a_query_that_is_not_answered_times_out(servers: Addresses) -> None:
    with mute(f"127.0.0.1:{servers.postgres_port}") as way:
        dsn = dsn_through(way.address, servers.postgres)
        with pytest.raises(DeploymentError, match="timed out after"):
            await query_twice(dsn, way)


async def query_twice(dsn: str, way: Mute) -> None:
    async with log_connection(dsn) as log:
        assert await log.fetchval("SELECT 7") == 7
        way.hold()
        await log.fetchval("SELECT 8")
