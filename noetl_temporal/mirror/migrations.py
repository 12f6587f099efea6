"""Migrates a database to the schema of this version."""

from __future__ import annotations

import asyncpg

from noetl_temporal.mirror import sql

__all__ = ["migrate"]

_LOCK = 0x6E6F65746C
"""The key of the advisory lock under which a database is migrated: the bytes of ``noetl``."""

_PREPARE = """
CREATE SCHEMA IF NOT EXISTS noetl;
CREATE TABLE IF NOT EXISTS noetl.migration (
    name TEXT PRIMARY KEY,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
"""


async def migrate(dsn: str) -> list[str]:
    """Apply the missing migrations in one transaction. Returns their names. Raises asyncpg's errors, OSError."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            return await _apply(connection)
    finally:
        await connection.close()


async def _apply(connection: asyncpg.Connection) -> list[str]:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
    await connection.execute(_PREPARE)
    applied_names = {record["name"] for record in await connection.fetch("SELECT name FROM noetl.migration")}
    missing = [(name, text) for name, text in sql.migrations() if name not in applied_names]
    for name, text in missing:
        await connection.execute(text)
        await connection.execute("INSERT INTO noetl.migration (name) VALUES ($1)", name)
    return [name for name, _ in missing]
