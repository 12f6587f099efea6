"""Removes payloads that no run needs (dev/decisions/0024).

1. Executions that ended before the cutoff, and of which the server has no run any more, are *released*: they no longer
   own payloads, and their rows are frozen (noetl.pruned).
2. Payloads without an owner that were last stored before the cutoff are deleted, in batches. The start of a run that
   blocks the removal (server_needs.py) may be an earlier cutoff for them.

A prune that is interrupted is completed by the next one.

Row locks prevent the removal of a payload that is being stored or owned at the same time. Storing an existing payload
updates its row (payload_store.py), and becoming its owner locks the row (``add_owner`` in pruning.sql). A prune locks a
batch of rows, skips those that are locked already, and checks the locked ones again: until it commits, they cannot be
updated or owned.
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
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.server_needs import BlockingRun, ServerNeeds, find_server_needs, retention

__all__ = [
    "PruneResult",
    "RemovedPayloads",
    "ShorterThanRetentionError",
    "UnknownNamespaceError",
    "delete_unowned",
    "prune",
    "remove",
]

GRACE = timedelta(days=1)
"""Payloads stored within this time are kept, whatever the cutoff: the history that refers to them may be unread."""

EXECUTION_BATCH = 500
"""The number of executions that are released in one transaction."""

PAYLOAD_BATCH = 500
"""The number of payloads that are deleted in one transaction."""


class PruneResult(msgspec.Struct, frozen=True):
    """What was removed, or would be removed: ``payloads`` with ``bytes`` in total, of ``executions`` that ended
    before ``cutoff``.

    ``retained`` is the number of executions that ended before it but keep their payloads, as Temporal still has them.
    ``blocked_by`` is the run, if any, because of which payloads that are old enough are kept. ``log_rows`` is the
    number of removed rows of noetl.log.
    """

    cutoff: datetime
    executions: int
    payloads: int
    bytes: int
    retained: int
    blocked_by: BlockingRun | None
    log_rows: int = 0


class RemovedPayloads(NamedTuple):
    """The number of removed payloads, and their total size."""

    payloads: int = 0
    bytes: int = 0


class ShorterThanRetentionError(Exception):
    """The age from which payloads are removed is shorter than the retention of a namespace."""

    def __init__(self, namespace: str, retention: timedelta) -> None:
        super().__init__(f"the retention of namespace {namespace} is {retention}")
        self.namespace, self.retention = namespace, retention


class UnknownNamespaceError(Exception):
    """The event log has runs of a namespace that the server does not have, so their payloads are unknown."""

    def __init__(self, namespace: str) -> None:
        super().__init__(f"the server has no namespace {namespace}")
        self.namespace = namespace


async def prune(client: Client, dsn: str, older_than: timedelta, *, dry_run: bool = False) -> PruneResult:
    """Remove the payloads of executions that ended ``older_than`` ago, for all namespaces that the event log has.

    Raises ShorterThanRetentionError, UnknownNamespaceError, RPCError, asyncpg's errors.
    """
    await migrate(dsn)
    connection = await asyncpg.connect(dsn)
    try:
        clients = [_in_namespace(client, namespace) for namespace in await _namespaces(client, connection)]
        await _check_retention(clients, older_than)
        cutoff = await connection.fetchval("SELECT now() - $1::interval", max(older_than, GRACE))
        ended_ids = await _ended_executions(connection, cutoff)
        needs = [await find_server_needs(entry, connection, cutoff) for entry in clients]
        return await remove(connection, cutoff, ended_ids, _combine(needs), dry_run=dry_run)
    finally:
        await connection.close()


async def remove(
    connection: Connection, cutoff: datetime, ended_ids: set[int], needs: ServerNeeds, *, dry_run: bool = False
) -> PruneResult:
    """Release the ended executions that are not needed, then delete the payloads without an owner, and old rows of
    noetl.log.
    """
    released_ids = sorted(ended_ids - needs.executions)
    run = needs.blocked_by
    blocked_by = run if run is not None and run.since < cutoff else None
    payload_cutoff = cutoff if blocked_by is None else blocked_by.since
    if dry_run:
        removed = await _count(connection, payload_cutoff, needs.keys, released_ids)
    else:
        await _release(connection, released_ids)
        removed = await delete_unowned(connection, payload_cutoff, needs.keys)
    log_rows = await connection.fetchval(sql.query("count_log" if dry_run else "delete_log"), cutoff)
    return PruneResult(
        cutoff,
        executions=len(released_ids),
        payloads=removed.payloads,
        bytes=removed.bytes,
        retained=len(ended_ids) - len(released_ids),
        blocked_by=blocked_by,
        log_rows=log_rows or 0,
    )


async def _namespaces(client: Client, connection: Connection) -> list[str]:
    names = {record["namespace"] for record in await connection.fetch(sql.query("namespaces"))}
    return sorted({client.namespace, *names})


def _in_namespace(client: Client, namespace: str) -> Client:
    return Client(client.service_client, namespace=namespace, data_converter=client.data_converter)


async def _check_retention(clients: Sequence[Client], older_than: timedelta) -> None:
    for client in clients:
        try:
            retention_time = await retention(client)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise UnknownNamespaceError(client.namespace) from error
            raise
        if older_than < retention_time:
            raise ShorterThanRetentionError(client.namespace, retention_time)


async def _ended_executions(connection: Connection, cutoff: datetime) -> set[int]:
    records = await connection.fetch(sql.query("ended_executions"), cutoff)
    return {record["execution_id"] for record in records}


def _combine(needs: Sequence[ServerNeeds]) -> ServerNeeds:
    executions = set[int]().union(*(need.executions for need in needs))
    keys = set[str]().union(*(need.keys for need in needs))
    return ServerNeeds(
        executions, keys, min((need.blocked_by for need in needs if need.blocked_by is not None), default=None)
    )


# ---- removing --------------------------------------------------------------------------------------------------------


async def _release(connection: Connection, executions: Sequence[int]) -> None:
    """Remove the executions from the owners, and freeze their rows."""
    for start in range(0, len(executions), EXECUTION_BATCH):
        async with connection.transaction():
            await connection.execute(sql.query("lock_out_rebuild"))
            await connection.execute(sql.query("release"), executions[start : start + EXECUTION_BATCH])


async def _count(
    connection: Connection, payload_cutoff: datetime, keys: set[str], released_ids: Sequence[int]
) -> RemovedPayloads:
    """Return which payloads would be deleted once the executions with ``released_ids`` are released."""
    parameters = payload_cutoff, sorted(keys), released_ids, ""
    async with connection.transaction():
        sizes = [record["bytes"] async for record in connection.cursor(sql.query("prunable_payloads"), *parameters)]
    return RemovedPayloads(len(sizes), sum(sizes))


async def delete_unowned(connection: Connection, payload_cutoff: datetime, keys: set[str]) -> RemovedPayloads:
    """Delete the payloads last stored before ``payload_cutoff`` that have no owner, except ``keys``."""
    total, last = RemovedPayloads(), ""
    while True:
        async with connection.transaction():
            sizes, last = await _delete_batch(connection, payload_cutoff, sorted(keys), [], last)
        if not last:
            return total
        total = RemovedPayloads(total.payloads + len(sizes), total.bytes + sum(sizes))


async def _delete_batch(connection: Connection, *parameters: object) -> tuple[list[int], str]:
    """Delete a batch. Returns the sizes of its payloads, and the last key checked, empty if there are no more."""
    # A limit in the text is known to the planner, unlike a parameter.
    text = sql.query("prunable_payloads") + f" LIMIT {PAYLOAD_BATCH} FOR UPDATE SKIP LOCKED"
    locked_keys = [record["key"] for record in await connection.fetch(text, *parameters)]
    sizes_after_lock = {record["key"]: record["bytes"] for record in await connection.fetch(text, *parameters)}
    sizes = {key: sizes_after_lock[key] for key in locked_keys if key in sizes_after_lock}
    await connection.execute(sql.query("delete_payloads"), list(sizes))
    return list(sizes.values()), locked_keys[-1] if locked_keys else ""
