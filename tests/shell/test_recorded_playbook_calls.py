"""A run that called playbooks is recorded with what these ended with, and its test passes."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.runs import UnknownRunError
from tests.shell.conftest import Shell
from tests.shell.test_recorded_requests import record_test, until
from tests.shell.test_sub_playbooks import book, caller

HELD = """\
workflow:
  - step: start
    on_failure: hold
    tool: {kind: noop, message: fail}
"""
CALL_HELD = """\
  - step: start
    tool: {kind: playbook, path: tests/child}
"""
CHILD = """\
workload: {city: ""}
workflow:
  - step: start
    tool: {kind: noop, message: "{{ 'fail' if workload.city == 'Rome' else 'ok' }}"}
"""
CALLS = """\
  - step: each
    loop: {in: [Oslo, Rome], iterator: city, spec: {mode: parallel}}
    tool:
      kind: playbook
      path: tests/child
      input: {city: "{{ city }}"}
      spec: {policy: {rules: [{when: "{{ error }}", then: {do: continue}}]}}
    next: {arcs: [{step: detached}]}
  - step: detached
    tool: {kind: playbook, path: tests/child, wait: false}
    next: {arcs: [{step: late}]}
  - step: late
    tool: {kind: playbook, path: tests/waiting, timeout: 0.5}
"""
WAITING = "workflow:\n  - step: start\n    tool: {kind: wait, signal: never}\n"


def answer(request: Request, _context: ToolContext) -> Any:
    if request.config["message"] == "fail":
        return Outcome("error", error=ErrorInfo("exception", "no weather today"))
    return "sunny"


async def find_child(client: NoetlClient, handle: RunHandle, call: str) -> RunHandle:
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.find(f"{handle.workflow_id}/{call}")
            except UnknownRunError:
                await asyncio.sleep(0.05)


async def test_a_called_playbook_whose_held_step_was_skipped_is_recorded_with_its_result(shell: Shell) -> None:
    async with shell.client(answer) as client:
        handle = await client.submit(caller(CALL_HELD), {}, playbooks={"tests/child": book("tests/child", HELD)})
        child = await find_child(client, handle, "start#1:start_task:1")
        await until(child, lambda status: len(status.held) == 1)
        await child.skip("start", {"by": "hand"})
        test = await record_test(client, handle)
    assert test["stubs"] == [{"step": "start", "task": "start_task", "result": {"by": "hand"}}]
    assert "requests" not in test, "the skip was a request to the called run"


async def test_calls_of_playbooks_are_recorded_with_their_item_and_outcome(shell: Shell) -> None:
    playbooks = {path: book(path, body) for path, body in (("tests/child", CHILD), ("tests/waiting", WAITING))}
    async with shell.client(answer) as client:
        handle = await client.submit(caller(CALLS), {}, playbooks=playbooks)
        test = await record_test(client, handle)
    oslo, rome, detached, late = sorted(
        test["stubs"], key=lambda stub: (stub["step"] != "each", stub.get("iteration", 0))
    )
    assert oslo == {"step": "each", "task": "each_task", "iteration": 0, "result": "sunny"}
    assert (rome["iteration"], rome["error"]["kind"]) == (1, "exception")
    assert rome["error"]["message"].endswith("no weather today")
    assert detached["result"]["path"] == "tests/child"
    assert late["error"] == {"message": "timed out after 0.5 s", "kind": "timeout", "retryable": True}
