"""A stop while a call waits for its next attempt: the server itself says then that the call was cancelled.

Its words are not signed, unlike everything that a worker says; workers with a key must not take that for a forgery.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import RunHandle
from tests.shell.conftest import Shell

CALL = """\
tool:
      kind: noop
      message: failing
      spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 9, delay: 3600}}]}}
"""
LOOP = "    loop: {in: [1, 2], iterator: item, spec: {mode: parallel}}\n"
END = "  - step: end\n    tool: {kind: noop, message: cleanup}\n"


class Failing:
    """Fails the calls whose message says so; ``made`` are the messages of all."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def __call__(self, request: Request, _context: ToolContext) -> Any:
        message = str(request.config["message"])
        self.steps.append(message)
        if message == "failing":
            return Outcome("error", error=ErrorInfo("connection", "refused", retryable=True))
        return {}


async def until_it_waits(client: Client, handle: RunHandle) -> None:
    """Until the server holds a call of the run, or of a chunk of it, back for its next attempt."""
    query = f"WorkflowId = '{handle.workflow_id}' OR RootWorkflowId = '{handle.workflow_id}'"
    async with asyncio.timeout(60):
        while True:
            async for workflow in client.list_workflows(query):
                description = await client.get_workflow_handle(workflow.id).describe()
                if any(call.attempt > 1 for call in description.raw_description.pending_activities):
                    return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("loop", ["", LOOP], ids=["step", "loop"])
async def test_a_cancel_runs_the_cleanup(shell: Shell, loop: str) -> None:
    calls = Failing()
    async with asyncio.timeout(120), shell.client(calls) as client:
        handle = await shell.submit(client, f"  - step: start\n{loop}    {CALL}{END}")
        await until_it_waits(client.temporal, handle)
        await handle.cancel("enough")
        report = await handle.result()
    assert (report.status, calls.steps[-1]) == ("cancelled", "cleanup")


async def test_a_playbook_that_times_out_is_reported_and_runs_the_cleanup(shell: Shell) -> None:
    calls = Failing()
    async with asyncio.timeout(120), shell.client(calls) as client:
        handle = await shell.submit(
            client, f"  - step: start\n    {CALL}{END}", head="executor: {spec: {timeout: 2}}\n"
        )
        report = await handle.result()
    assert report.status == "failed"
    assert {failure.kind for failure in report.failures.detailed} == {"timeout"}
    assert calls.steps[-1] == "cleanup"


async def test_a_step_that_times_out_is_handled_by_its_route(shell: Shell) -> None:
    calls = Failing()
    steps = (
        f"  - step: start\n    spec: {{timeout: 2}}\n    {CALL}"
        "    next: {arcs: [{step: handler, when: \"{{ event.name == 'step.failed' }}\"}]}\n"
        "  - step: handler\n    tool: {kind: noop, message: handled}\n"
    )
    async with asyncio.timeout(120), shell.client(calls) as client:
        report = await (await shell.submit(client, steps)).result()
    assert (report.status, calls.steps) == ("completed", ["failing", "handled"])
