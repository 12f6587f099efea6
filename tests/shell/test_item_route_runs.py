"""Routes of a loop's items on Temporal: in the workflow of the chunk, as the iterations are (dev/decisions/0067)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl_activities.tool import Request, ToolContext
from noetl_temporal.inspection.replay import histories_of, replay
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.workflows import workflow_host

from .conftest import Shell
from .test_waits import waits_for

ROUTES = """
  - step: each
    loop:
      in: "{{ workload.items }}"
      iterator: item
      spec: {mode: parallel, max_in_flight: 3}
      next:
        arcs:
          - {step: odd, when: "{{ item % 2 == 1 }}", input: {given: "{{ output.data }}"}}
          - {step: even}
    tool: {kind: noop, message: "item {{ item }}"}
    next: {arcs: [{step: last}]}
  - step: odd
    tool: {kind: noop, message: "odd {{ given }} {{ iter.index }}"}
    next: {arcs: [{step: told}]}
  - {step: even, tool: {kind: noop, message: "even {{ item }}"}}
  - {step: told, tool: {kind: noop, message: "{{ odd }}, told of {{ each }}"}}
  - step: last
    tool: {kind: noop, message: "{{ each.results | length }}; {{ told }}; {{ even }}"}
"""
WAITING = """
  - step: each
    loop: {in: [a, b], iterator: item, spec: {mode: parallel}, next: {arcs: [{step: paid}]}}
    tool: {kind: noop, message: "{{ item }}"}
    next: {arcs: [{step: last}]}
  - {step: paid, tool: {kind: wait, signal: paid, key: "{{ each }}"}}
  - {step: last, tool: {kind: noop, message: "{{ each.results | join }} {{ paid }}"}}
"""
HANGING = """
  - step: each
    loop: {in: [a, b], iterator: item, spec: {mode: parallel}, next: {arcs: [{step: hang}]}}
    tool: {kind: noop, message: "{{ item }}"}
  - {step: hang, tool: {kind: noop, message: hang}}
"""


def answer(request: Request, _context: ToolContext) -> Any:
    return request.config.get("message")


async def test_the_routes_of_items_run_and_replay(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ROUTES, "workload: {items: []}\n", items=[0, 1, 2, 3, 4])
        report = await handle.result()
        histories = [history async for history in histories_of(client.temporal, handle.workflow_id)]
    assert len(histories) == 2
    for history in histories:
        assert (await replay(history, data_converter())).problem is None
    assert report.status == "completed"
    assert report.result == "5; odd item 3 3, told of item 3; even 4"
    assert {name: report.steps[name]["attempts"] for name in ("each", "odd", "even", "told")} == {
        "each": 5,
        "odd": 2,
        "even": 3,
        "told": 2,
    }


async def test_a_chunk_with_a_long_history_continues_with_its_routes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_host, "SOFT_EVENTS", 40)
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ROUTES, "workload: {items: []}\n", items=list(range(24)))
        report = await handle.result()
    assert report.result == "24; odd item 23 23, told of item 23; even 22"


async def test_a_step_on_a_route_waits_for_a_signal(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, WAITING)
        await waits_for(handle, "paid[0]", "paid[1]")
        await handle.signal("paid", 2, key="b")
        await handle.signal("paid", 1, key="a")
        report = await asyncio.wait_for(handle.result(), 30)
    assert report.result == "ab 2"


async def test_a_cancel_reaches_the_calls_of_a_route(shell: Shell) -> None:
    has_begun = asyncio.Event()

    async def hang(request: Request, _context: ToolContext) -> Any:
        if request.config.get("message") != "hang":
            return None
        has_begun.set()
        await asyncio.sleep(60)

    async with shell.client(hang) as client:
        handle = await shell.submit(client, HANGING)
        await asyncio.wait_for(has_begun.wait(), 20)
        await handle.cancel("enough")
        report = await asyncio.wait_for(handle.result(), 30)
    assert report.status == "cancelled"
