"""Loops over several steps on Temporal: one workflow a chunk, whatever the steps inside do (dev/decisions/0054)."""

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

NESTED_LOOPS = """
  - step: each
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 3}}
    next: {arcs: [{step: parts}]}
  - step: parts
    loop: {in: [1, 2], iterator: part}
    next: {arcs: [{step: visit}]}
  - step: visit
    tool: {kind: noop, message: "{{ item }}/{{ part }}"}
    next: {arcs: [{step: visited}]}
  - step: visited
    spec: {end_loop: parts}
    next: {spec: {mode: inclusive}, arcs: [{step: extra, when: "{{ iter.first }}"}, {step: done}]}
  - step: extra
    tool: {kind: noop, message: "extra {{ item }} {{ parts.results | map(attribute='visit') | list }}"}
    next: {arcs: [{step: done}]}
  - step: done
    spec: {end_loop: each}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ each.results[0].extra }}, {{ each.stats.success }} items"}
"""
WAITING = """
  - step: each
    loop: {in: [a, b], iterator: item, spec: {mode: parallel}}
    next: {arcs: [{step: paid}]}
  - step: paid
    tool: {kind: wait, signal: paid, key: "{{ item }}"}
    next: {arcs: [{step: done}]}
  - step: done
    spec: {end_loop: each}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ each.results | map(attribute='paid') | list }}"}
"""
HANGING = """
  - step: each
    loop: {in: [a, b], iterator: item, spec: {mode: parallel}}
    next: {arcs: [{step: hang}]}
  - {step: hang, tool: {kind: noop, message: hang}, next: {arcs: [{step: done}]}}
  - {step: done, spec: {end_loop: each}}
"""


def answer(request: Request, _context: ToolContext) -> Any:
    return request.config.get("message")


async def test_nested_loops_over_steps_run(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, NESTED_LOOPS, "workload: {items: []}\n", items=["a", "b", "c"])
        report = await handle.result()
        histories = [history async for history in histories_of(client.temporal, handle.workflow_id)]
    assert len(histories) == 2
    for history in histories:
        assert (await replay(history, data_converter())).problem is None
    assert report.status == "completed"
    assert report.result == "extra a ['a/1', 'a/2'], 3 items"


async def test_a_chunk_with_a_long_history_returns_iterations(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_host, "SOFT_EVENTS", 40)
    items = list(range(12))
    async with shell.client(answer) as client:
        handle = await shell.submit(client, NESTED_LOOPS, "workload: {items: []}\n", items=items)
        report = await handle.result()
    assert report.result == "extra 0 ['0/1', '0/2'], 12 items"


async def test_steps_of_a_region_wait_for_signals(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await shell.submit(client, WAITING)
        await waits_for(handle, "paid[0]", "paid[1]")
        await handle.signal("paid", 2, key="b")
        await handle.signal("paid", 1, key="a")
        report = await asyncio.wait_for(handle.result(), 30)
    assert report.result == [1, 2]


async def test_a_cancel_reaches_the_calls_of_a_region(shell: Shell) -> None:
    has_begun = asyncio.Event()

    async def hang(_request: Request, _context: ToolContext) -> Any:
        has_begun.set()
        await asyncio.sleep(60)

    async with shell.client(hang) as client:
        handle = await shell.submit(client, HANGING)
        await asyncio.wait_for(has_begun.wait(), 20)
        await handle.cancel("enough")
        report = await asyncio.wait_for(handle.result(), 30)
    assert report.status == "cancelled"
