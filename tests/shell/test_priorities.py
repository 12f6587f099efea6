"""Priorities on the real server: loops, calls and called playbooks have those of their run."""

from __future__ import annotations

from typing import Any

from temporalio.api.common.v1 import Priority
from temporalio.api.history.v1 import HistoryEvent

from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph
from noetl_temporal.inspection.replay import histories_of
from tests.shell.conftest import Shell

STEPS = """\
workflow:
  - step: start
    loop: {in: [a, b], iterator: item}
    tool: {kind: noop, message: "{{ item }}"}
    next: {arcs: [{step: same}]}
  - step: same
    tool: {kind: playbook, path: tests/same}
    next: {arcs: [{step: own}]}
  - step: own
    tool: {kind: playbook, path: tests/own}
"""
ONE_STEP = "workflow:\n  - step: start\n    tool: {kind: noop}\n"


def answer(request: Request, _context: ToolContext) -> Any:
    return request.config.get("message")


def book(path: str, steps: str, metadata: str = "") -> Graph:
    head = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {path}, path: {path}{metadata}}}\n"
    return compile_or_raise(head + steps, f"{path.replace('/', '_')}.yaml")


def started(event: HistoryEvent) -> Priority:
    return event.workflow_execution_started_event_attributes.priority


async def test_all_that_a_run_starts_has_its_priority(shell: Shell) -> None:
    playbooks = {
        "tests/same": book("tests/same", ONE_STEP),
        "tests/own": book("tests/own", ONE_STEP, ", priority: 5"),
    }
    parent = book("tests/priorities", STEPS, ", priority: 2, fairness_key: acme, fairness_weight: 2.5")
    async with shell.client(answer) as client:
        handle = await client.submit(parent, playbooks=playbooks)
        assert (await handle.result()).status == "completed"
    priority = Priority(priority_key=2, fairness_key="acme", fairness_weight=2.5)
    priorities: dict[str, Priority] = {}
    async for history in histories_of(client.temporal, handle.workflow_id):
        priorities[history.workflow_id.rpartition("/")[2]] = started(history.events[0])
    assert len(priorities) == 4
    own_options = [options for options in priorities.values() if options.priority_key == 5]
    assert own_options == [Priority(priority_key=5, fairness_key="acme", fairness_weight=2.5)]
    assert sum(options == priority for options in priorities.values()) == 3


async def test_a_run_without_a_priority_has_the_default(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, "  - step: start\n    tool: {kind: noop}\n")
        await handle.result()
    assert started((await handle.workflow.fetch_history()).events[0]) == Priority()
