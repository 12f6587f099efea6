"""Runs whose final step says how they end, on the real server."""

from __future__ import annotations

import asyncio

from temporalio.client import WorkflowExecutionStatus

from noetl_temporal.runs import Runs

from .conftest import Shell
from .test_runs import busy

PARTIAL = """
  - step: start
    tool: {kind: noop, message: start}
  - step: end
    tool: {kind: noop, message: end}
    status: "{{ 'partial' if failures else 'completed' }}"
"""


async def test_a_partial_run_is_completed_in_temporal_and_listed_as_partial(shell: Shell) -> None:
    async with shell.client(lambda request, _: busy() if request.config["message"] == "start" else "ended") as client:
        handle = await shell.submit(client, PARTIAL)
        report = await handle.result()
        assert (report.status, report.result, report.failures.unhandled) == ("partial", "ended", 1)
        description = await handle.workflow.describe()
        assert description.status is WorkflowExecutionStatus.COMPLETED
        runs = Runs(client.temporal, None)
        async with asyncio.timeout(60):
            while handle.execution_id not in {run.execution_id for run in await runs.list(status="partial")}:
                await asyncio.sleep(0.1)
        assert handle.execution_id not in {run.execution_id for run in await runs.list(status="completed")}
        statuses = {run.execution_id: run.status for run in await runs.list()}
        assert statuses[handle.execution_id] == "partial"
