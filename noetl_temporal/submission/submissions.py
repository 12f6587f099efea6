"""Submissions with a key: the first one for a path and a key starts the run, later ones return it (semantics.md 45).

The table noetl.submission has the execution id of the first submission, so all of them start the same workflow, and
Temporal accepts one. Once Temporal has confirmed the start, the run is never started again, even after Temporal has
removed it.
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

__all__ = ["MAX_KEY_CHARACTERS", "KeyTakenError", "KeyedRun", "Submission", "claim_key", "digest_of", "record_start"]

MAX_KEY_CHARACTERS = 200


class KeyTakenError(Exception):
    """The key was used for the same path with another playbook or payload."""


class Submission(NamedTuple):
    """A submission with a key. ``playbook`` and ``payload`` are digests."""

    namespace: str
    path: str
    key: str
    playbook: str
    payload: str


class KeyedRun(NamedTuple):
    """The run of a key. ``is_started`` if Temporal has confirmed its start: then it must not be started again."""

    execution_id: int
    is_started: bool


def digest_of(value: Json) -> str:
    """Return the digest of a JSON value, which does not depend on the order of names in mappings."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


async def claim_key(dsn: str, submission: Submission, execution_id: int) -> KeyedRun:
    """Return the run of the key. If the key has none yet, that is a run with this ``execution_id``.

    Raises ValueError for a key that is empty or long, KeyTakenError, asyncpg's errors, OSError."""
    if not submission.key or len(submission.key) > MAX_KEY_CHARACTERS or not submission.key.isprintable():
        raise ValueError(f"a key has 1 to {MAX_KEY_CHARACTERS} printable characters")

    async def insert(connection: Connection) -> asyncpg.Record | None:
        parameters = (
            submission.namespace,
            submission.path,
            submission.key,
            execution_id,
            submission.playbook,
            submission.payload,
        )
        return await connection.fetchrow(sql.query("claim_key"), *parameters)

    try:
        record = await run_on_pool(dsn, insert)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        await migrate(dsn)
        record = await run_on_pool(dsn, insert)
    assert record is not None  # noqa: S101 - RETURNING of an upsert
    differing = [name for name in ("playbook", "payload") if record[name] != getattr(submission, name)]
    if differing:
        raise KeyTakenError(
            f"the key {submission.key!r} of {submission.path} belongs to run {record['execution_id']}, which was "
            f"submitted with another {' and another '.join(differing)}: use another key for another run"
        )
    return KeyedRun(record["execution_id"], record["is_started"])


async def record_start(dsn: str, submission: Submission) -> None:
    """Record that Temporal has confirmed the run of the key. Raises asyncpg's errors, OSError."""

    async def update(connection: Connection) -> None:
        await connection.execute(sql.query("record_start"), submission.namespace, submission.path, submission.key)

    await run_on_pool(dsn, update)
