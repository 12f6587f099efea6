"""Removes payloads that nobody needs any more (dev/decisions/0024).

1. Executions that ended before the limit, and of which the server has nothing any more, are *released*: they own no
   payload from then on, and their rows are frozen (noetl.pruned).
2. Payloads without an owner that were last stored before the limit are deleted, some at a time.

Whoever is interrupted in between leaves nothing wrong: the next prune goes on.

Others may need a payload at the same moment, and locks on its row decide who comes first. Storing a payload that is
there touches it (payload_store.py), and becoming its owner locks it (``own`` in queries.sql). So payloads are locked,
without those that somebody else has locked, and looked at once more: until they are gone, nobody can touch or own them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import asyncpg
import msgspec
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.event_table import Connection
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.needed import Held, Needed, needed, retention

__all__ = ["Pruned", "Removed", "RetainedError", "UnknownNamespaceError", "delete_unowned", "prune", "remove"]

GRACE = timedelta(days=1)
"""What was stored in this time stays, whatever the limit: the history that names it may not have been read."""

EXECUTIONS = 500
PAYLOADS = 500
"""Of one transaction."""


class Pruned(msgspec.Struct, frozen=True):
    """What was removed, or would be: payloads of ``bytes`` in all, and the ``executions`` that own none any more.

    These ended ``before``. As many as ``retained`` did too, and stay because Temporal still has them. ``held`` is why
    some payloads that are old enough stay as well.
    """

    before: datetime
    executions: int
    payloads: int
    bytes: int
    retained: int
    held: Held | None


class Removed(NamedTuple):
    payloads: int = 0
    bytes: int = 0


class RetainedError(Exception):
    """The limit is shorter than a namespace keeps closed runs."""

    def __init__(self, namespace: str, kept: timedelta) -> None:
        super().__init__(f"namespace {namespace} keeps closed runs for {kept}")
        self.namespace, self.kept = namespace, kept


class UnknownNamespaceError(Exception):
    """The event log has runs of a namespace that the server does not have, so nobody can say what those need."""

    def __init__(self, namespace: str) -> None:
        super().__init__(f"the server has no namespace {namespace}")
        self.namespace = namespace


async def prune(client: Client, dsn: str, older_than: timedelta, *, dry_run: bool = False) -> Pruned:
    """Remove the payloads of executions that ended ``older_than`` ago, for all namespaces that the event log has.

    Raises RetainedError, UnknownNamespaceError, RPCError, asyncpg's errors.
    """
    await migrate(dsn)
    connection = await asyncpg.connect(dsn)
    try:
        clients = [_inside(client, namespace) for namespace in await _namespaces(client, connection)]
        await _check(clients, older_than)
        before = await connection.fetchval("SELECT now() - $1::interval", max(older_than, GRACE))
        ended = await _ended(connection, before)
        needs = [await needed(one, connection, before) for one in clients]
        return await remove(connection, before, ended, _all(needs), dry_run=dry_run)
    finally:
        await connection.close()


async def remove(
    connection: Connection, before: datetime, ended: set[int], needs: Needed, *, dry_run: bool = False
) -> Pruned:
    """Release the executions that have ``ended`` and are not needed, and remove what has no owner then."""
    leaving = sorted(ended - needs.executions)
    held = needs.held if needs.held is not None and needs.held.since < before else None
    cutoff = before if held is None else held.since
    if dry_run:
        removed = await _count(connection, cutoff, needs.keys, leaving)
    else:
        await _release(connection, leaving)
        removed = await delete_unowned(connection, cutoff, needs.keys)
    return Pruned(before, len(leaving), removed.payloads, removed.bytes, len(ended) - len(leaving), held)


async def _namespaces(client: Client, connection: Connection) -> list[str]:
    found = {record["namespace"] for record in await connection.fetch(sql.query("namespaces"))}
    return sorted({client.namespace, *found})


def _inside(client: Client, namespace: str) -> Client:
    return Client(client.service_client, namespace=namespace, data_converter=client.data_converter)


async def _check(clients: Sequence[Client], older_than: timedelta) -> None:
    for client in clients:
        try:
            kept = await retention(client)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise UnknownNamespaceError(client.namespace) from error
            raise
        if older_than < kept:
            raise RetainedError(client.namespace, kept)


async def _ended(connection: Connection, before: datetime) -> set[int]:
    found = await connection.fetch(sql.query("ended_executions"), before)
    return {record["execution_id"] for record in found}


def _all(needs: Sequence[Needed]) -> Needed:
    executions = set[int]().union(*(one.executions for one in needs))
    keys = set[str]().union(*(one.keys for one in needs))
    return Needed(executions, keys, min((one.held for one in needs if one.held is not None), default=None))


# ---- removing --------------------------------------------------------------------------------------------------------


async def _release(connection: Connection, executions: Sequence[int]) -> None:
    """The executions own nothing any more."""
    for start in range(0, len(executions), EXECUTIONS):
        async with connection.transaction():
            await connection.execute(sql.query("join_cursors"))
            await connection.execute(sql.query("release"), executions[start : start + EXECUTIONS])


async def _count(connection: Connection, cutoff: datetime, keys: set[str], leaving: Sequence[int]) -> Removed:
    """What there is to remove once the executions that are ``leaving`` own nothing."""
    asked = cutoff, sorted(keys), leaving, ""
    async with connection.transaction():
        sizes = [record["bytes"] async for record in connection.cursor(sql.query("prunable_payloads"), *asked)]
    return Removed(len(sizes), sum(sizes))


async def delete_unowned(connection: Connection, cutoff: datetime, keys: set[str]) -> Removed:
    """Delete the payloads last stored before ``cutoff`` that have no owner, without ``keys``."""
    removed, last = Removed(), ""
    while True:
        async with connection.transaction():
            sizes, last = await _delete_some(connection, cutoff, sorted(keys), [], last)
        if not last:
            return removed
        removed = Removed(removed.payloads + len(sizes), removed.bytes + sum(sizes))


async def _delete_some(connection: Connection, *asked: object) -> tuple[list[int], str]:
    """Delete some, in a transaction: their sizes, and the key to go on behind, empty when there are no more."""
    text = (
        sql.query("prunable_payloads") + f" LIMIT {PAYLOADS} FOR UPDATE SKIP LOCKED"
    )  # a number that the planner knows
    locked = [record["key"] for record in await connection.fetch(text, *asked)]
    still = {record["key"]: record["bytes"] for record in await connection.fetch(text, *asked)}
    sizes = {key: still[key] for key in locked if key in still}
    await connection.execute(sql.query("delete_payloads"), list(sizes))
    return list(sizes.values()), locked[-1] if locked else ""
