"""Compares the stored histories with those of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import NamedTuple

from temporalio.client import Client

from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.store import Store, StoredHistory
from noetl_temporal.visibility import NOETL_WORKFLOWS

__all__ = ["Gap", "reconcile"]

_BATCH = 500


class Gap(NamedTuple):
    """A run that is closed at the server, where it has ``expected`` events, and that is not stored completely."""

    run: WorkflowRun
    expected: int
    stored: StoredHistory

    @property
    def is_open(self) -> bool:
        """Whether only the beginning of the run has been read."""
        return self.stored.events > 0 and not self.stored.is_closed


async def reconcile(client: Client, store: Store, since: datetime | None = None) -> list[Gap]:
    """Return the closed runs that are not stored completely, and mark them to be read. With ``since``, only runs that
    closed at that time or later are compared.
    """
    gaps: list[Gap] = []
    async for lengths in _closed_runs(client, since):
        histories = await store.stored_histories(list(lengths))
        gaps += [
            Gap(run, lengths[run], stored_history)
            for run, stored_history in histories.items()
            if stored_history != StoredHistory(True, lengths[run], True)
        ]
    for gap in gaps:
        if not gap.is_open:
            await store.rewind(gap.run)
    return gaps


async def _closed_runs(client: Client, since: datetime | None) -> AsyncIterator[dict[WorkflowRun, int]]:
    """Yield the closed runs with the lengths of their histories, in batches."""
    query = f"{NOETL_WORKFLOWS} AND ExecutionStatus != 'Running'"
    if since is not None:
        query += f" AND CloseTime >= '{since.astimezone(UTC).isoformat()}'"
    batch: dict[WorkflowRun, int] = {}
    async for workflow in client.list_workflows(query, page_size=_BATCH):
        if workflow.close_time is None:  # paused in Temporal
            continue
        batch[WorkflowRun(workflow.namespace, workflow.id, workflow.run_id, workflow.workflow_type)] = (
            workflow.history_length
        )
        if len(batch) == _BATCH:
            yield batch
            batch = {}
    yield batch
