"""Postgres ends the connection of a command: that is no bug of the command."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

END_WAITING = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


async def test_a_rebuild_that_loses_its_connection_says_so(site: Site, log: asyncpg.Connection) -> None:
    other = await asyncpg.connect(site.addresses().postgres)  # as a transaction sees the same activity until its end
    async with log.transaction():
        await log.execute("LOCK TABLE noetl.event, noetl.cursor, noetl.execution")
        command = site.start("mirror", "rebuild")
        async with asyncio.timeout(60):
            while command.poll() is None:
                await other.execute(END_WAITING)
                await asyncio.sleep(0.1)
    await other.close()
    _, errors = command.communicate()
    assert command.returncode == 1
    assert "the connection to Postgres was lost" in errors
    assert "This is a bug" not in errors
