"""The ledger in the Postgres of a sink or of a SQL call: the table noetl_ledger.outcome.

An entry is inserted in the transaction that writes the rows. A concurrent attempt with the same key waits at the unique
key until that transaction has ended. Then it finds the entry, or may write itself.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import asyncpg

from noetl_activities.postgres.connect import Connection
from noetl_activities.postgres.transaction import transaction
from noetl_activities.sinks.ledger import MAX_PRUNED, RETENTION_DAYS

__all__ = [
    "DDL",
    "NO_LEDGER",
    "Access",
    "StoredOutcome",
    "add_entries",
    "add_entry",
    "check_access",
    "create_if_missing",
    "find_outcome",
    "find_outcomes",
    "has_written",
    "prune",
    "read_outcome",
    "store_outcome",
    "store_outcome_if_written",
    "try_create",
    "warn_without_ledger",
]

DDL = """\
create schema if not exists noetl_ledger;
create table if not exists noetl_ledger.outcome (
    key text not null,
    repetition integer not null,
    outcome text,
    stored_at timestamptz not null default now(),
    primary key (key, repetition)
);
create index if not exists ledger_stored_at on noetl_ledger.outcome (stored_at);
"""

NO_LEDGER = (
    "the role of this credential may not use noetl_ledger.outcome: after a crash SQL may run twice and rows may be "
    "stored twice, and mode: replace empties the table at every call "
    "(`noetl ledger sql` prints the SQL that creates the ledger)"
)

Access: TypeAlias = Literal["usable", "missing", "forbidden"]
"""Whether the role of a connection may use the ledger."""

_log = logging.getLogger(__name__)
_warned_roles: set[str] = set()

_ACCESS_QUERY = """
select from generate_series(1, case
    when to_regclass('noetl_ledger.outcome') is null then 1
    when has_table_privilege(to_regclass('noetl_ledger.outcome'), 'select')
        and has_table_privilege(to_regclass('noetl_ledger.outcome'), 'insert') then 2
    else 0 end)
"""
_ACCESS_BY_TAG: Mapping[str, Access] = MappingProxyType({"SELECT 1": "missing", "SELECT 2": "usable"})
"""Command tag of _ACCESS_QUERY -> access. The result is the number of rows, because a query without parameters and
columns needs one round trip instead of two.
"""

_INSERT = """
insert into noetl_ledger.outcome (key, repetition, outcome) values ($1, $2, $3)
on conflict do nothing returning key
"""
_INSERT_IF_WRITTEN = """
insert into noetl_ledger.outcome (key, repetition, outcome)
select $1, $2, $3 where pg_current_xact_id_if_assigned() is not null
on conflict do nothing returning key
"""
_HAS_WRITTEN = "select where pg_current_xact_id_if_assigned() is not null"
_INSERT_ALL = """
insert into noetl_ledger.outcome (key, repetition, outcome)
select * from unnest($1::text[], $2::int[], $3::text[])
on conflict do nothing
"""
_OUTCOME = "select outcome from noetl_ledger.outcome where key = $1 and repetition = $2"
_OUTCOMES = """
select key, repetition, outcome from noetl_ledger.outcome
join unnest($1::text[], $2::int[]) as call (call_key, call_repetition)
    on key = call_key and repetition = call_repetition
"""
_PRUNE = """
delete from noetl_ledger.outcome where ctid = any(array(
    select ctid from noetl_ledger.outcome where stored_at < now() - make_interval(days => $1) limit $2
))
"""


class StoredOutcome(NamedTuple):
    """The result of ``store_outcome_if_written``.

    ``is_in_ledger``: the outcome was stored. ``existing_outcome`` is the JSON of another one that was already stored.
    """

    is_in_ledger: bool = False
    existing_outcome: str | None = None


async def check_access(connection: Connection) -> Access:
    """Return whether the role may use the ledger. Call it outside of a transaction, which a refusal would abort."""
    try:
        return _ACCESS_BY_TAG.get(await connection.execute(_ACCESS_QUERY), "forbidden")
    except asyncpg.InsufficientPrivilegeError:
        return "forbidden"


async def create_if_missing(connection: Connection) -> bool:
    """Create the ledger if it is missing. Returns whether it can be used; warns once per role if not."""
    ledger_access = await check_access(connection)
    if ledger_access == "usable" or (ledger_access == "missing" and await try_create(connection)):
        return True
    await warn_without_ledger(connection)
    return False


async def try_create(connection: Connection) -> bool:
    """Create the ledger, also within a transaction. False if the role may not create it."""
    try:
        await _create(connection)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError):
        return False
    return True


async def _create(connection: Connection) -> None:
    """Create the ledger under a lock. If its schema exists, the role needs no right to create schemas."""
    async with transaction(connection):
        await connection.execute("select pg_advisory_xact_lock(hashtext('noetl_ledger.outcome'))")
        has_schema = await connection.fetchval("select to_regnamespace('noetl_ledger') is not null")
        await connection.execute(DDL.split("\n", 1)[1] if has_schema else DDL)


async def warn_without_ledger(connection: Connection) -> None:
    """Warn that there is no ledger, once per role and database."""
    role = str(await connection.fetchval("select current_user || ' in ' || current_database()"))
    if role not in _warned_roles:
        _warned_roles.add(role)
        _log.warning("%s: %s", role, NO_LEDGER)


async def find_outcome(connection: Connection, key: str, repetition: int) -> str | None:
    """Return the outcome of a call; None if the ledger has none or cannot be read."""
    return await read_outcome(connection, key, repetition) if await check_access(connection) == "usable" else None


async def read_outcome(connection: Connection, key: str, repetition: int) -> str | None:
    """Return the outcome of a call in a usable ledger; None if there is none."""
    text = await connection.fetchval(_OUTCOME, key, repetition)
    return None if text is None else str(text)


async def has_written(connection: Connection) -> bool:
    """Whether the running transaction has written anything."""
    return await connection.execute(_HAS_WRITTEN) == "SELECT 1"


async def store_outcome_if_written(connection: Connection, key: str, repetition: int, text: str) -> StoredOutcome:
    """Store the outcome of a call in the running transaction, if that has written anything. Waits for a concurrent
    attempt to end.
    """
    if await connection.fetchval(_INSERT_IF_WRITTEN, key, repetition, text) is not None:
        return StoredOutcome(is_in_ledger=True)
    return StoredOutcome(existing_outcome=await read_outcome(connection, key, repetition))


async def store_outcome(connection: Connection, key: str, repetition: int, outcome: str) -> str | None:
    """Store the outcome of a call in the running transaction. Returns None, or the outcome that was already stored."""
    if await connection.fetchval(_INSERT, key, repetition, outcome) is not None:
        return None
    return str(await connection.fetchval(_OUTCOME, key, repetition))


async def add_entry(connection: Connection, key: str, repetition: int) -> bool:
    """Add the entry of a sink in the running transaction. Returns False if the entry exists."""
    return await connection.fetchval(_INSERT, key, repetition, None) is not None


async def add_entries(connection: Connection, entries: Iterable[tuple[str, int, str | None]]) -> bool:
    """Add entries ``(key, repetition, outcome)`` in the running transaction, sorted by key to avoid deadlocks.

    Returns False if one of them exists, or occurs twice.
    """
    keys, repetitions, outcomes = zip(*sorted(entries, key=itemgetter(0, 1)), strict=True)
    return await connection.execute(_INSERT_ALL, keys, repetitions, outcomes) == f"INSERT 0 {len(keys)}"


async def find_outcomes(connection: Connection, calls: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the stored outcomes of these calls, by ``(key, repetition)``; empty if the ledger cannot be read."""
    if await check_access(connection) != "usable":
        return {}
    keys, repetitions = zip(*calls, strict=True)
    records = await connection.fetch(_OUTCOMES, keys, repetitions)
    return {(key, repetition): outcome for key, repetition, outcome in records if outcome is not None}


async def prune(connection: Connection) -> None:
    """Delete entries older than RETENTION_DAYS, if the role may delete."""
    with contextlib.suppress(asyncpg.PostgresError):
        await connection.execute(_PRUNE, RETENTION_DAYS, MAX_PRUNED)
