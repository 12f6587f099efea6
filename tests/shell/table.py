"""A table in the database of playbooks, for SQL and sinks of the runs under test."""

from __future__ import annotations

import uuid
from typing import Any

import asyncpg

__all__ = ["Base"]


class Base:
    """A table in the database of playbooks, which ``pg_local`` names."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection
        self.table = f"once_{uuid.uuid4().hex[:8]}"

    async def rows(self) -> list[Any]:
        return [record[0] for record in await self._connection.fetch(f"select n from {self.table} order by n")]

    async def make(self) -> None:
        await self._connection.execute(f"create table {self.table} (n int)")
