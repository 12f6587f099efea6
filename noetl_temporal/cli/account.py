"""The account of a run, as Temporal knows it: how it stands or how it ended."""

from __future__ import annotations

import datetime
from urllib.parse import quote

from temporalio.client import WorkflowExecutionStatus

from noetl_temporal.cli.ended import Ended
from noetl_temporal.client import RunHandle
from noetl_temporal.run_input import RunReport

__all__ = ["account_of"]


async def account_of(handle: RunHandle, ui: str | None, events: int) -> Ended:
    """All there is to tell of a run. One that still runs has the steps begun so far and no result."""
    found = await handle.workflow.describe()
    if found.status is WorkflowExecutionStatus.RUNNING:
        report = RunReport("running", handle.execution_id, steps=await handle.progress())
    else:
        report = await handle.result()
    until = found.close_time or datetime.datetime.now(datetime.UTC)
    return Ended(
        execution_id=handle.execution_id,
        workflow_id=handle.workflow_id,
        run_id=found.run_id,
        path=handle.workflow_id.rpartition("/")[0],
        status=report.status,
        result=report.result,
        steps=report.steps,
        failures=report.failures,
        events=events,
        duration_seconds=round((until - found.start_time).total_seconds(), 3),
        ui_url=_page(ui, found.namespace, handle.workflow_id, found.run_id),
    )


def _page(ui: str | None, namespace: str, workflow_id: str, run_id: str) -> str | None:
    if ui is None:
        return None
    return f"{ui}/namespaces/{namespace}/workflows/{quote(workflow_id, safe='')}/{run_id}/timeline"
