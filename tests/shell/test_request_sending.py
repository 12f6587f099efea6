"""A request that the server or the run cannot handle now is sent again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.runs import RequestRefusedError
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import workflow_worker
from noetl_temporal.workflows.workflow_host import WorkflowHost

from .test_steady_time import REVIEW, TOOLS
from .test_stored_values import submit


async def until_task_fails(handle: RunHandle) -> None:
    """Wait until the workflow task has failed several times, as the server refuses requests only then."""
    async with asyncio.timeout(60):
        while (await handle.workflow.describe()).raw_description.pending_workflow_task.attempt <= 3:
            await asyncio.sleep(0.05)


async def test_a_request_is_sent_until_the_workflow_task_no_longer_fails(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_host: WorkflowHost) -> Any:
        raise RuntimeError("broken")

    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    handle = await submit(client, REVIEW)
    async with workflow_worker(client.temporal):
        with monkeypatch.context() as patch:
            patch.setattr(WorkflowHost, "drive", fail)
            await until_task_fails(handle)
            patch.setattr("noetl_temporal.control.request_sending.RESPONSE_TIMEOUT", timedelta(seconds=1))
            with pytest.raises(RequestRefusedError, match=r"its workflow task fails: see the worker's log"):
                await handle.pause(by="ann")
        await handle.pause(by="ann")
        await handle.cancel()
