"""Compares what is stored with what the server has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio.client import Client

from noetl_temporal.mirror.raw import LOOP, PLAYBOOK, Run
from noetl_temporal.mirror.store import Store

__all__ = ["Gap", "reconcile"]

_BATCH = 500


class Gap(NamedTuple):
    """A run that is open in no mirror and of which events are missing."""

    run: Run
    expected: int
    stored: int


async def reconcile(client: Client, store: Store, since: datetime | None = None) -> list[Gap]:
    """Have runs read again of which events are missing; these runs. ``since`` leaves out what closed before."""
    gaps: list[Gap] = []
    async for lengths in _closed(client, since):
        stored = await store.closed_counts(list(lengths))
        gaps += [Gap(run, lengths[run], count) for run, count in stored.items() if count < lengths[run]]
    for gap in gaps:
        await store.rewind(gap.run)
    return gaps


async def _closed(client: Client, since: datetime | None) -> AsyncIterator[dict[Run, int]]:
    """Closed runs with the length of their history, some at a time."""
    query = f"WorkflowType IN ('{PLAYBOOK}', '{LOOP}') AND ExecutionStatus != 'Running'"
    if since is not None:
        query += f" AND CloseTime >= '{since.astimezone(UTC).isoformat()}'"
    batch: dict[Run, int] = {}
    async for one in client.list_workflows(query, page_size=_BATCH):
        batch[Run(one.namespace, one.id, one.run_id, one.workflow_type)] = one.history_length
        if len(batch) == _BATCH:
            yield batch
            batch = {}
    yield batch
