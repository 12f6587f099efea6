"""Reads the playbook of a run from its first event."""

from __future__ import annotations

from datetime import datetime

import msgspec
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror.payloads import Json, input_of
from noetl_temporal.mirror.raw import to_row

__all__ = ["Playbook", "playbook_of"]


class Playbook(msgspec.Struct, frozen=True):
    """The playbook of a run, for the catalog and the table of executions.

    ``start_time`` is naive UTC, as upstream's tables have it; ``schedule`` is the schedule that started the run.
    """

    execution_id: int
    parent_execution_id: int | None
    path: str
    content: str
    meta: dict[str, Json]
    start_time: datetime
    schedule: str | None = None


def playbook_of(event: HistoryEvent) -> Playbook | None:
    """Return the playbook in a run's first event, whose values are plain; None for the run of a loop."""
    run_input = input_of(event)
    if run_input is None or "graph" not in run_input:
        return None
    source: dict[str, Json] = run_input["graph"]["source"]
    return Playbook(
        execution_id=run_input["execution_id"],
        parent_execution_id=run_input.get("parent_execution_id"),
        path=source["path"],
        content=run_input["content"],
        meta={**source, "digest": run_input["graph"].get("digest")},
        start_time=to_row(event)[2].replace(tzinfo=None),
        schedule=run_input.get("schedule"),
    )
