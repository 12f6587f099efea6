"""A Temporal dev server and a Postgres for the session, an empty migrated database for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from temporalio.client import Client

from noetl_temporal.mirror.store import Store, migrate, open_store
from noetl_temporal.stack import Addresses, Home, own

TEMPLATE = "mirror_template"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with own(Home(tmp_path_factory.mktemp("stack")), "run") as (_, addresses):
        yield addresses


@pytest.fixture(scope="session")
async def client(stack: Addresses) -> Client:
    return await Client.connect(stack.temporal)


@pytest.fixture(scope="session")
async def template(stack: Addresses) -> str:
    """A migrated database that others are copied from."""
    await _create(stack, TEMPLATE)
    await migrate(_dsn(stack, TEMPLATE))
    return TEMPLATE


@pytest.fixture
async def empty_dsn(stack: Addresses) -> str:
    """A database with nothing in it."""
    return await _create(stack, f"mirror_{secrets.token_hex(4)}")


@pytest.fixture
async def dsn(stack: Addresses, template: str) -> str:
    """A database of this test's own."""
    return await _create(stack, f"mirror_{secrets.token_hex(4)} TEMPLATE {template}")


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[Store]:
    async with open_store(dsn) as store:
        yield store


async def _create(stack: Addresses, what: str) -> str:
    connection = await asyncpg.connect(stack.postgres)
    await connection.execute(f"CREATE DATABASE {what}")
    await connection.close()
    return _dsn(stack, what.split()[0])


def _dsn(stack: Addresses, name: str) -> str:
    return stack.postgres.rpartition("/")[0] + f"/{name}"
