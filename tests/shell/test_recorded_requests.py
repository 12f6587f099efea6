"""What people ask of a run on the real server is recorded, and repeated by its test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import yaml

from noetl_activities.installed_tools import installed_tools
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import reading_converter
from noetl_temporal.messages.control_requests import OpenWaits
from noetl_temporal.playbook_tests.recorded_runs import recorded_run
from noetl_temporal.playbook_tests.recording import recorded_test
from noetl_temporal.worker import serving
from tests.shell.conftest import HEAD, Shell

ANSWERED_STEPS = """\
  - step: paid
    tool: {kind: wait, signal: paid, key: "7"}
    next: {arcs: [{step: load}]}
  - step: load
    on_failure: hold
    tool: {kind: python, code: "result = 1"}
    next: {arcs: [{step: review}]}
  - step: review
    loop: {in: [a, b], iterator: name}
    tool: {kind: approval, form: {amount: number}}
"""
HELD_ITEMS = """\
  - step: each
    loop: {in: [a, b], iterator: name, spec: {mode: parallel}}
    next: {arcs: [{step: load}]}
  - step: load
    on_failure: hold
    tool: {kind: python, code: "result = 1"}
    next: {arcs: [{step: met}]}
  - {step: met, spec: {end_loop: each}}
"""
TWO = """\
  - step: slow
    tool: {kind: python, code: "result = 1"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: python, code: "result = 2"}
"""


async def fail_load(_request: Request, _context: ToolContext) -> Outcome:
    return Outcome("error", error=ErrorInfo("exception", "no ledger"))


async def until(handle: RunHandle, holds: Callable[[OpenWaits], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds(await handle.suspensions()):
            await asyncio.sleep(0.05)


async def until_no_call_is_pending(handle: RunHandle) -> None:
    async with asyncio.timeout(60):
        while (await handle.workflow.describe()).raw_description.pending_activities:
            await asyncio.sleep(0.05)


async def waits_for(handle: RunHandle, name: str) -> None:
    await until(handle, lambda waits: [wait.name for wait in waits.waits] == [name])


async def record_test(client: NoetlClient, handle: RunHandle) -> dict[str, Any]:
    """The test of the run, which passes."""
    report = await asyncio.wait_for(handle.result(), 60)
    run = await recorded_run(client.temporal, await reading_converter(), handle.workflow_id)
    text, problems = await asyncio.to_thread(recorded_test, run, report, installed_tools())
    assert problems == (), (problems, text)
    [test] = cast("list[dict[str, Any]]", yaml.safe_load(text)["tests"])
    return test


async def test_signals_decisions_retries_and_skips(shell: Shell) -> None:
    tools = {"python": FakeTool("python", fail_load)}
    client = await NoetlClient.connect(shell.address, tools=tools)
    text = f"{HEAD}workflow:\n{ANSWERED_STEPS}"
    async with serving(client.temporal, tools, shell.credentials):
        handle = await client.submit(compile_or_raise(text, "answered.yaml"), {}, content=text)
        await waits_for(handle, "paid")
        await handle.signal("paid", {}, key="7")
        await until(handle, lambda status: [held.run for held in status.held] == ["load#1"])
        await handle.retry(by="ann")
        await until(handle, lambda status: [held.run for held in status.held] == ["load#2"])
        await handle.skip("load", [1], by="ann")
        await waits_for(handle, "review[0]")
        await handle.approve(by="ann", form={"amount": 3})
        await waits_for(handle, "review[1]")
        await handle.reject(by="bob", reason="no")
        test = await record_test(client, handle)
    assert test["requests"] == [
        {"do": "signal", "name": "paid", "key": "7", "data": {}},
        {"do": "retry", "by": "ann"},
        {"do": "skip", "step": "load", "data": [1], "by": "ann"},
        {"do": "approve", "step": "review", "iteration": 0, "by": "ann", "form": {"amount": 3}},
        {"do": "reject", "step": "review", "iteration": 1, "by": "bob", "reason": "no"},
    ]
    assert test["expect"]["result"]["results"][0]["at"] == "..."


async def test_a_decision_about_all_held_items_is_one_about_each(shell: Shell) -> None:
    tools = {"python": FakeTool("python", fail_load)}
    client = await NoetlClient.connect(shell.address, tools=tools)
    text = f"{HEAD}workflow:\n{HELD_ITEMS}"
    async with serving(client.temporal, tools, shell.credentials):
        handle = await client.submit(compile_or_raise(text, "held.yaml"), {}, content=text)
        await until(handle, lambda status: len(status.held) == 2)
        assert await handle.retry_all(by="ann") == 2
        await until(handle, lambda status: [held.run[-1] for held in status.held] == ["2", "2"])
        assert await handle.skip_all("load", [1], by="bob") == 2
        test = await record_test(client, handle)
    retry = {"do": "retry", "by": "ann"}
    skip = {"do": "skip", "step": "load", "data": [1], "by": "bob"}
    assert test["requests"] == [retry, retry, skip, skip]


async def test_a_pause_is_that_of_the_call_during_which_it_came(shell: Shell) -> None:
    is_called, end = asyncio.Event(), asyncio.Event()

    async def slow(_request: Request, _context: ToolContext) -> int:
        is_called.set()
        await end.wait()
        return 1

    tools = {"python": FakeTool("python", slow)}
    client = await NoetlClient.connect(shell.address, tools=tools)
    text = f"{HEAD}workflow:\n{TWO}"
    async with serving(client.temporal, tools, shell.credentials):
        handle = await client.submit(compile_or_raise(text, "two.yaml"), {}, content=text)
        await asyncio.wait_for(is_called.wait(), 60)
        await handle.pause(by="ann")
        await until(handle, lambda status: status.pause is not None)
        end.set()
        await until_no_call_is_pending(handle)
        await handle.resume(by="bob")
        test = await record_test(client, handle)
    assert test["requests"] == [
        {"do": "pause", "by": "ann", "step": "slow"},
        {"do": "resume", "by": "bob"},
    ]


async def test_a_cancel_is_that_of_the_call_during_which_it_came(shell: Shell) -> None:
    is_called = asyncio.Event()

    async def endless(_request: Request, context: ToolContext) -> int:
        is_called.set()
        while True:
            context.heartbeat()
            await asyncio.sleep(0.05)

    tools = {"python": FakeTool("python", endless)}
    client = await NoetlClient.connect(shell.address, tools=tools)
    text = f"{HEAD}workflow:\n{TWO}"
    async with serving(client.temporal, tools, shell.credentials):
        handle = await client.submit(compile_or_raise(text, "two.yaml"), {}, content=text)
        await asyncio.wait_for(is_called.wait(), 60)
        await handle.cancel("wrong table")
        test = await record_test(client, handle)
    assert test["requests"] == [{"do": "cancel", "reason": "wrong table", "step": "slow"}]
    assert test["expect"]["status"] == "cancelled"
