"""What a person reads when a connection to Postgres is lost: what happened, not the state of the driver."""

from __future__ import annotations

import asyncpg
import pytest

from noetl_activities.postgres_errors import sql_error
from noetl_temporal.connection_pools import run_on_pool
from noetl_temporal.database_errors import reason_of
from noetl_temporal.deployment import postgres_error
from noetl_temporal.stack.addresses import Addresses

DRIVER = (
    asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
    asyncpg.InternalClientError("got result for unknown protocol state 3"),
    asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the underlying connection is closed"),
)


@pytest.mark.parametrize("error", DRIVER, ids=["switch", "result", "closed"])
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


def test_messages_of_postgres_are_shown_unchanged() -> None:
    assert reason_of(asyncpg.AdminShutdownError("terminating connection")) == "terminating connection"
    assert reason_of(TimeoutError()) == "TimeoutError"
