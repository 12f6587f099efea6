"""Submissions under a key: the first with (path, key) makes the run, later ones return it (semantics.md 45).

The table noetl.submission holds the execution id that the first has chosen, so everybody starts the same workflow, and
Temporal lets one of them. Once it has confirmed the run it is never started again, even after it has removed the run.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import asyncpg
import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.connection_pools import Connection, run_on_pool
from noetl_temporal.mirror import sql
from noetl_temporal.mirror.migrations import migrate

__all__ = ["MOST_KEY_CHARACTERS", "Claim", "KeyTakenError", "Submission", "claim", "digest_of", "note_started"]

MOST_KEY_CHARACTERS = 200


class KeyTakenError(Exception):
    """The key was used for the same path with another playbook or payload."""


class Submission(NamedTuple):
    """A submission with a key. ``playbook`` and ``payload`` are digests."""

    namespace: str
    path: str
    key: str
    playbook: str
    payload: str


class Claim(NamedTuple):
    """The run of the key. ``is_started`` if it may not be started any more."""

    execution_id: int
    is_started: bool


def digest_of(value: Json) -> str:
    """Return the digest of JSON, the same for any order of its names."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


async def claim(dsn: str, given: Submission, execution_id: int) -> Claim:
    """The run of the key; ``execution_id`` is that of a run that it makes.

    Raises ValueError for a key that is empty or long, KeyTakenError, asyncpg's errors, OSError."""
    if not given.key or len(given.key) > MOST_KEY_CHARACTERS or not given.key.isprintable():
        raise ValueError(f"a key has 1 to {MOST_KEY_CHARACTERS} printable characters")

    async def insert(connection: Connection) -> asyncpg.Record | None:
        parameters = given.namespace, given.path, given.key, execution_id, given.playbook, given.payload
        return await connection.fetchrow(sql.query("claim_key"), *parameters)

    try:
        claimed = await run_on_pool(dsn, insert)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        await migrate(dsn)
        claimed = await run_on_pool(dsn, insert)
    assert claimed is not None  # noqa: S101 - RETURNING of an upsert
    other = [what for what in ("playbook", "payload") if claimed[what] != getattr(given, what)]
    if other:
        raise KeyTakenError(
            f"the key {given.key!r} of {given.path} belongs to run {claimed['execution_id']}, which was submitted with "
            f"another {' and another '.join(other)}: use another key for another run"
        )
    return Claim(claimed["execution_id"], claimed["is_started"])


async def note_started(dsn: str, given: Submission) -> None:
    """Record that Temporal has confirmed the run of the key. Raises asyncpg's errors, OSError."""

    async def update(connection: Connection) -> None:
        await connection.execute(sql.query("note_started"), given.namespace, given.path, given.key)

    await run_on_pool(dsn, update)
