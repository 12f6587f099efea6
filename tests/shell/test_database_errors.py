"""What a person reads when a connection to Postgres is lost: what happened, not the state of the driver."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from noetl_activities.postgres.errors import sql_error
from noetl_temporal.client import NoetlClient
from noetl_temporal.connection_pools import run_on_pool
from noetl_temporal.database_errors import reason_of
from noetl_temporal.deployment import postgres_error
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.stack.addresses import Addresses
from tests.shell.servers import proxy_to

DRIVER = (
    asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
    asyncpg.InternalClientError("got result for unknown protocol state 3"),
    asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the underlying connection is closed"),
    ConnectionError("unexpected connection_lost() call"),
)

NOT_LISTED = "cannot list new runs: connection refused: nothing listens there; retrying in 2 s"


@pytest.mark.parametrize("error", DRIVER, ids=["switch", "result", "closed", "while connecting"])
async def test_the_internal_state_of_the_driver_is_not_shown(servers: Addresses, error: Exception) -> None:
    assert reason_of(error) == "the connection was lost"
    problem = str(postgres_error(error, servers.postgres))
    assert problem.startswith("cannot use Postgres at ")
    assert ": the connection was lost. Check NOETL_POSTGRES" in problem
    failure = sql_error(error).error
    assert failure is not None
    assert (failure.kind, failure.message) == ("connection", "lost the connection to Postgres")


async def test_the_loss_of_two_connections_of_a_pool_is_reported(servers: Addresses) -> None:
    calls: list[object] = []

    async def lose_connection(connection: object) -> None:
        calls.append(connection)
        raise DRIVER[0]

    with pytest.raises(asyncpg.InterfaceError, match=r"^Postgres failed: the connection was lost$"):
        await run_on_pool(servers.postgres, lose_connection)
    assert len(calls) == 2


async def test_the_log_of_a_mirror_says_that_the_database_is_away(
    servers: Addresses, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line for each attempt, without a traceback."""
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres)
    async with asyncio.timeout(60), proxy_to(servers.postgres) as proxy, mirroring(client.temporal, proxy.dsn):
        while not proxy.connection_count:
            await asyncio.sleep(0.02)
        await proxy.disconnect()
        while (messages := [record.getMessage() for record in caplog.records]).count(NOT_LISTED) < 2:
            await asyncio.sleep(0.02)
        await proxy.restore()
    assert [record for record in caplog.records if record.exc_info] == []
    assert not any("Errno" in message for message in messages)


def test_messages_of_postgres_are_shown_unchanged() -> None:
    assert reason_of(asyncpg.AdminShutdownError("terminating connection")) == "terminating connection"
    assert reason_of(TimeoutError()) == "TimeoutError"
