"""The ledger in the Postgres of a sink or of a SQL call: the table noetl_ledger.outcome.

An entry is inserted in the transaction that writes the rows. A rival with the same key waits at the unique key until
that transaction has ended, and then finds the entry or may write.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import asyncpg

from noetl_activities.postgres_connect import Connection
from noetl_activities.postgres_transaction import transaction
from noetl_activities.sinks.ledger import DAYS_KEPT, PRUNED_AT_ONCE

__all__ = [
    "DDL",
    "NO_LEDGER",
    "Access",
    "RecordedOutcome",
    "access",
    "claim",
    "claim_all",
    "ensure",
    "find",
    "find_all",
    "has_written",
    "make",
    "note",
    "outcome",
    "prune",
    "store",
    "warn",
]

DDL = """\
create schema if not exists noetl_ledger;
create table if not exists noetl_ledger.outcome (
    key text not null,
    n integer not null,
    outcome text,
    stored_at timestamptz not null default now(),
    primary key (key, n)
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
_warned: set[str] = set()

_ACCESS = """
select from generate_series(1, case
    when to_regclass('noetl_ledger.outcome') is null then 1
    when has_table_privilege(to_regclass('noetl_ledger.outcome'), 'select')
        and has_table_privilege(to_regclass('noetl_ledger.outcome'), 'insert') then 2
    else 0 end)
"""
_ACCESS_BY_TAG: Mapping[str, Access] = MappingProxyType({"SELECT 1": "missing", "SELECT 2": "usable"})
"""The number of rows is the answer: without parameters, such a query needs one round trip, otherwise two."""

_INSERT = """
insert into noetl_ledger.outcome (key, n, outcome) values ($1, $2, $3) on conflict do nothing returning key
"""
_NOTE = """
insert into noetl_ledger.outcome (key, n, outcome) select $1, $2, $3 where pg_current_xact_id_if_assigned() is not null
on conflict do nothing returning key
"""
_HAS_WRITTEN = "select where pg_current_xact_id_if_assigned() is not null"
_INSERT_ALL = """
insert into noetl_ledger.outcome (key, n, outcome) select * from unnest($1::text[], $2::int[], $3::text[])
on conflict do nothing
"""
_OUTCOME = "select outcome from noetl_ledger.outcome where key = $1 and n = $2"
_OUTCOMES = """
select key, n, outcome from noetl_ledger.outcome
join unnest($1::text[], $2::int[]) as asked (asked_key, asked_n) on key = asked_key and n = asked_n
"""
_PRUNE = """
delete from noetl_ledger.outcome where ctid = any(array(
    select ctid from noetl_ledger.outcome where stored_at < now() - make_interval(days => $1) limit $2
))
"""


class RecordedOutcome(NamedTuple):
    """The result of writing an outcome to the ledger.

    ``is_in_ledger``: the outcome is in the ledger. ``rival`` is another one that was there before.
    """

    is_in_ledger: bool = False
    rival: str | None = None


async def access(connection: Connection) -> Access:
    """Return the rights of the role. Must be called outside a transaction, which a refusal would abort."""
    try:
        return _ACCESS_BY_TAG.get(await connection.execute(_ACCESS), "forbidden")
    except asyncpg.InsufficientPrivilegeError:
        return "forbidden"


async def ensure(connection: Connection) -> bool:
    """Whether the ledger can be used. It is created if missing; a role without the right is warned about once."""
    ledger_access = await access(connection)
    if ledger_access == "usable" or (ledger_access == "missing" and await make(connection)):
        return True
    await warn(connection)
    return False


async def make(connection: Connection) -> bool:
    """Create the ledger, also within a transaction; False if the role may not."""
    try:
        await _create(connection)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError):
        return False
    return True


async def _create(connection: Connection) -> None:
    """Create the ledger under a lock. An existing schema needs no right to create one."""
    async with transaction(connection):
        await connection.execute("select pg_advisory_xact_lock(hashtext('noetl_ledger.outcome'))")
        has_schema = await connection.fetchval("select to_regnamespace('noetl_ledger') is not null")
        await connection.execute(DDL.split("\n", 1)[1] if has_schema else DDL)


async def warn(connection: Connection) -> None:
    """Warn that there is no ledger, once per role and database."""
    role = str(await connection.fetchval("select current_user || ' in ' || current_database()"))
    if role not in _warned:
        _warned.add(role)
        _log.warning("%s: %s", role, NO_LEDGER)


async def find(connection: Connection, key: str, n: int) -> str | None:
    """Return the outcome of a call; None if the ledger lacks it or cannot be read."""
    return await outcome(connection, key, n) if await access(connection) == "usable" else None


async def outcome(connection: Connection, key: str, n: int) -> str | None:
    """Return the outcome of a call in a usable ledger; None if there is none."""
    text = await connection.fetchval(_OUTCOME, key, n)
    return None if text is None else str(text)


async def has_written(connection: Connection) -> bool:
    """Whether the running transaction has changed anything."""
    return await connection.execute(_HAS_WRITTEN) == "SELECT 1"


async def note(connection: Connection, key: str, n: int, text: str) -> RecordedOutcome:
    """Store the outcome of a call in the running transaction, if that has changed anything. Waits for a concurrent
    attempt to end.
    """
    if await connection.fetchval(_NOTE, key, n, text) is not None:
        return RecordedOutcome(is_in_ledger=True)
    return RecordedOutcome(rival=await outcome(connection, key, n))


async def store(connection: Connection, key: str, n: int, outcome: str) -> str | None:
    """Store the outcome of a call in the running transaction. Returns None, or another one that is already stored."""
    if await connection.fetchval(_INSERT, key, n, outcome) is not None:
        return None
    return str(await connection.fetchval(_OUTCOME, key, n))


async def claim(connection: Connection, key: str, n: int) -> bool:
    """Add an entry in the running transaction; False if it exists."""
    return await connection.fetchval(_INSERT, key, n, None) is not None


async def claim_all(connection: Connection, entries: Iterable[tuple[str, int, str | None]]) -> bool:
    """Add entries ``(key, n, outcome)`` in the running transaction; False if one exists or is given twice.

    They are sorted by key, so that concurrent calls do not deadlock.
    """
    keys, ns, outcomes = zip(*sorted(entries, key=itemgetter(0, 1)), strict=True)
    return await connection.execute(_INSERT_ALL, keys, ns, outcomes) == f"INSERT 0 {len(keys)}"


async def find_all(connection: Connection, calls: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the stored outcomes of these calls ``(key, n)``; empty if the ledger cannot be read."""
    if await access(connection) != "usable":
        return {}
    keys, ns = zip(*calls, strict=True)
    records = await connection.fetch(_OUTCOMES, keys, ns)
    return {(key, n): outcome for key, n, outcome in records if outcome is not None}


async def prune(connection: Connection) -> None:
    """Delete entries that are too old, if the role may delete."""
    with contextlib.suppress(asyncpg.PostgresError):
        await connection.execute(_PRUNE, DAYS_KEPT, PRUNED_AT_ONCE)
