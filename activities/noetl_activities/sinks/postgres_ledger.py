"""The ledger in the Postgres of a sink: the table noetl.ledger.

An entry is inserted in the transaction that writes the rows. A rival with the same key waits at the unique key until
that transaction has ended, and then finds the entry or may write.
"""

from __future__ import annotations

import contextlib
import logging

import asyncpg

from noetl_activities.postgres_connect import Connection
from noetl_activities.sinks.ledger import DAYS_KEPT, PRUNED_AT_ONCE

__all__ = ["DDL", "NO_LEDGER", "claim", "ensure", "find", "keep", "prune"]

DDL = """\
create schema if not exists noetl;
create table if not exists noetl.ledger (
    key text not null,
    n integer not null,
    outcome text,
    stored_at timestamptz not null default now(),
    primary key (key, n)
);
create index if not exists ledger_stored_at on noetl.ledger (stored_at);
"""

NO_LEDGER = (
    "the role of this credential may not use noetl.ledger: rows may be stored twice after a crash, and mode: replace "
    "empties the table at every call (`noetl ledger sql` prints the SQL that makes the ledger)"
)

_log = logging.getLogger(__name__)
_warned: set[str] = set()

_IS_USABLE = """
select has_table_privilege(to_regclass('noetl.ledger'), 'select')
   and has_table_privilege(to_regclass('noetl.ledger'), 'insert')
"""
_INSERT = """
insert into noetl.ledger (key, n, outcome) values ($1, $2, $3) on conflict do nothing returning key
"""
_OUTCOME = "select outcome from noetl.ledger where key = $1 and n = $2"
_PRUNE = """
delete from noetl.ledger where ctid = any(array(
    select ctid from noetl.ledger where stored_at < now() - make_interval(days => $1) limit $2
))
"""


async def ensure(connection: Connection) -> bool:
    """Whether the ledger can be used; it is made when it is missing. A role that may not is warned of once."""
    try:
        usable = await connection.fetchval(_IS_USABLE)
        if usable is None:
            await _create(connection)
            usable = True
    except asyncpg.InsufficientPrivilegeError:
        usable = False
    if not usable:
        _warn(str(await connection.fetchval("select current_user || ' in ' || current_database()")))
    return bool(usable)


async def _create(connection: Connection) -> None:
    """Rivals make it one after the other. A schema that is there needs no right to create one."""
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(hashtext('noetl.ledger'))")
        has_schema = await connection.fetchval("select to_regnamespace('noetl') is not null")
        await connection.execute(DDL.split("\n", 1)[1] if has_schema else DDL)


def _warn(role: str) -> None:
    if role not in _warned:
        _warned.add(role)
        _log.warning("%s: %s", role, NO_LEDGER)


async def find(connection: Connection, key: str, n: int) -> str | None:
    """The outcome of a call, None when the ledger has none or cannot be read."""
    try:
        if not await connection.fetchval(_IS_USABLE):
            return None
    except asyncpg.InsufficientPrivilegeError:
        return None
    found = await connection.fetchval(_OUTCOME, key, n)
    return None if found is None else str(found)


async def keep(connection: Connection, key: str, n: int, outcome: str) -> str | None:
    """Note a call's outcome in the running transaction; None, or the other outcome that stands there already."""
    if await connection.fetchval(_INSERT, key, n, outcome) is not None:
        return None
    return str(await connection.fetchval(_OUTCOME, key, n))


async def claim(connection: Connection, key: str, n: int) -> bool:
    """Note an entry in the running transaction; False when it was there."""
    return await connection.fetchval(_INSERT, key, n, None) is not None


async def prune(connection: Connection) -> None:
    """Delete entries that are too old. A role that may not delete leaves them."""
    with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
        await connection.execute(_PRUNE, DAYS_KEPT, PRUNED_AT_ONCE)
