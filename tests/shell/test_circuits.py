"""Circuit breakers on the real server: what is refused is no activity, also after continue-as-new, and is logged."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.runs import RunHandle
from noetl_temporal.stack.addresses import Addresses
from tests.shell.conftest import Shell

LOOP = """\
  - step: start
    loop: {in: "{{ range(30) | list }}", iterator: n, spec: {mode: sequential}}
    tool: {kind: noop, message: "{{ n }}", spec: {policy: {circuit: {failures: 3}, on_unmatched: fail}}}
"""
RETRIED_STEP = """\
  - step: start
    tool:
      kind: noop
      spec:
        policy:
          circuit: {failures: 1, probe: 1s}
          rules: [{when: "{{ output.error.kind == 'circuit_open' }}", then: {do: retry, attempts: 50, delay: 0.3}},
                  {when: "{{ output.status == 'ok' }}", then: {do: continue}},
                  {else: {then: {do: jump, to: start_task}}}]
"""
DOWN = Outcome("error", error=ErrorInfo("connection", "down", retryable=True))


async def log_of(client: Client, servers: Addresses, handle: RunHandle) -> list[str]:
    """What the log says of circuits, and of the tasks that failed."""
    await follow_execution(client, servers.postgres, handle.workflow.id)
    connection = await asyncpg.connect(servers.postgres)
    try:
        rows = await connection.fetch(
            "SELECT event_type FROM noetl.event WHERE execution_id = $1 ORDER BY event_id", handle.execution_id
        )
    finally:
        await connection.close()
    return [row[0] for row in rows if row[0].startswith("circuit.") or row[0] == "task.failed"]


@pytest.mark.parametrize("events", [None, 40], ids=["one run", "continued as new"])
async def test_an_open_circuit_calls_no_tool(
    shell: Shell, servers: Addresses, monkeypatch: pytest.MonkeyPatch, events: int | None
) -> None:
    if events is not None:
        monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", events)
    messages: list[Any] = []

    def answer(request: Request, _context: ToolContext) -> Any:
        messages.append(request.config["message"])
        return DOWN if request.config["message"] >= 10 else "well"

    async with shell.client(answer) as client:
        handle = await shell.submit(client, LOOP)
        report = await asyncio.wait_for(handle.result(), 60)
        log = await log_of(client.temporal, servers, handle)
    assert report.status == "failed"
    assert messages == list(range(13))
    assert log == [*["task.failed"] * 2, "circuit.opened", *["task.failed"] * 18]
    assert report.steps["start"]["attempts"] == 13


async def test_a_probe_closes_the_circuit(shell: Shell, servers: Addresses) -> None:
    messages: list[Any] = []

    def answer(_request: Request, _context: ToolContext) -> Any:
        messages.append(1)
        return "well" if len(messages) > 2 else DOWN

    async with shell.client(answer) as client:
        handle = await shell.submit(client, RETRIED_STEP)
        report = await asyncio.wait_for(handle.result(), 60)
        log = await log_of(client.temporal, servers, handle)
    assert (report.status, report.result, len(messages)) == ("completed", "well", 3)
    assert [text for text in log if text.startswith("circuit.")] == [
        "circuit.opened",
        "circuit.probed",
        "circuit.opened",
        "circuit.probed",
        "circuit.closed",
    ]
