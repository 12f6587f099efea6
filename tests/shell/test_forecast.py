"""The forecast against real histories: the same number of events, and bytes of the same order."""

from __future__ import annotations

from temporalio.client import WorkflowHistory

from noetl_compiler import compile_or_raise, counts
from noetl_compiler import forecast as foretelling
from noetl_compiler.forecast import Forecast, forecast
from noetl_temporal import workflows
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.machine import loop_items, pipeline, policy
from tests.shell.conftest import HEAD, Shell

SEQUENCE = """
- {step: one, tool: {kind: noop}, next: {arcs: [{step: two}]}}
- {step: two, tool: [{name: a, kind: noop}, {name: b, kind: noop}], next: {arcs: [{step: three}]}}
- {step: three, tool: {kind: noop}}
"""
LOOP = """
- step: start
  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: MODE, max_in_flight: 3}}
  tool: [{name: a, kind: noop}, {name: b, kind: noop}]
"""


async def histories(client: NoetlClient, handle: RunHandle) -> list[WorkflowHistory]:
    """Of the playbook and of each of its loops."""
    found = [await handle.workflow.fetch_history()]
    for event in found[0].events:
        if event.HasField("child_workflow_execution_started_event_attributes"):
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            handle_ = client.temporal.get_workflow_handle(child.workflow_id, run_id=child.run_id)
            found.append(await handle_.fetch_history())
    return found


async def compared(shell: Shell, workflow: str) -> tuple[Forecast, int, int]:
    """The forecast, the events there were and the bytes they had."""
    head = "workload: {items: [1, 2, 3, 4, 5, 6]}\n"
    foretold = forecast(compile_or_raise(f"{HEAD}{head}workflow:\n{workflow}"))
    async with shell.client(lambda _request, _context: {"text": "x" * 1000}) as client:
        handle = await Shell.submit(client, workflow, head)
        await handle.result()
        found = await histories(client, handle)
    events = [event for history in found for event in history.events]
    return foretold, len(events), sum(event.ByteSize() for event in events)


async def test_a_sequence_has_the_foretold_events(shell: Shell) -> None:
    foretold, events, size = await compared(shell, SEQUENCE)
    assert foretold.events == events
    assert size / 2 < foretold.bytes < size * 2


async def test_a_sequential_loop_has_the_foretold_events(shell: Shell) -> None:
    foretold, events, size = await compared(shell, LOOP.replace("MODE", "sequential"))
    assert foretold.events == events
    assert size / 2 < foretold.bytes < size * 2


async def test_a_parallel_loop_has_no_more_than_foretold(shell: Shell) -> None:
    foretold, events, _ = await compared(shell, LOOP.replace("MODE", "parallel"))
    assert foretold.events / 2 < events <= foretold.events


def test_its_numbers_are_those_of_the_interpreter() -> None:
    assert foretelling.LOOP_EVENTS == workflows.LOOP_EVENTS
    assert loop_items.MAX_IN_FLIGHT == foretelling.MAX_IN_FLIGHT
    assert pipeline.DEFAULT_PAGES == counts.DEFAULT_PAGES
    assert policy.DEFAULT_ATTEMPTS == counts.DEFAULT_ATTEMPTS
