"""Records one history for each behaviour that is released, as tests/replay/histories/*.json.

    python dev/record_histories.py NAME...

A recorded file is never written again: what it shows is a promise that workflows in flight go on (--force is for a name
that has not been released yet). Needs the embedded stack's wheels.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own
from noetl_temporal.worker import serving

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "replay" / "histories"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: replay, path: tests/replay}\n"

PLAYBOOKS = {
    "sequence": """workflow:
  - {step: start, tool: {kind: noop, message: 1}, set: {ctx.n: "{{ output.data }}"}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: noop, message: "{{ ctx.n }}"}}
""",
    "fan_out": """workflow:
  - {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
  - {step: a, tool: {kind: noop}, next: {arcs: [{step: join}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: join}]}}
  - {step: join, tool: {kind: noop}}
""",
    "retry": """workflow:
  - step: start
    tool:
      kind: noop
      message: busy
      spec: {policy: {rules: [{when: "{{ output.error.retryable }}", then: {do: retry, attempts: 3, delay: 0.05}}]}}
""",
    "failure": "workflow:\n  - {step: start, tool: {kind: noop, message: broken}, next: {arcs: [{step: never}]}}\n"
    "  - {step: never, tool: {kind: noop}}\n",
    "jump_with_delay": """workflow:
  - step: start
    tool:
      - {name: poll, kind: noop, message: "{{ iter.n | default(0) }}"}
      - name: check
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ (iter.n | default(0)) < 2 }}"
                then: {do: jump, to: poll, delay: 0.05, set: {iter.n: "{{ (iter.n | default(0)) + 1 }}"}}
""",
    "loop": """workload: {items: [1, 2, 3, 4]}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: noop, message: "{{ iter.item }}"}
""",
    "cancelled": "workflow:\n  - {step: start, tool: {kind: noop, message: wait}}\n",
}


async def answer(request: Request, context: ToolContext) -> Any:
    message = request.config.get("message")
    if message == "broken" or (message == "busy" and context.attempt < 3):
        return Outcome("error", error=ErrorInfo("test", str(message), retryable=True))
    while message == "wait":
        context.heartbeat()
        await asyncio.sleep(0.05)
    return message


async def record(address: str, names: list[str]) -> None:
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(address, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        for name in names:
            handle = await client.submit(compile_or_raise(HEAD + PLAYBOOKS[name], f"{name}.yaml"), content="")
            if name == "cancelled":
                await until_called(handle)
                await handle.cancel()
            await handle.result()
            await write(name, handle)
            if name == "loop":
                loop = client.temporal.get_workflow_handle(f"{handle.workflow_id}/start/1")
                (FOLDER / "loop_child.json").write_text(pretty((await loop.fetch_history()).to_json()))


async def until_called(handle: RunHandle) -> None:
    """Follow the history until a call is scheduled."""
    async for event in handle.workflow.fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            return


async def write(name: str, handle: RunHandle) -> None:
    (FOLDER / f"{name}.json").write_text(pretty((await handle.workflow.fetch_history()).to_json()))
    print(f"recorded {name}")


def pretty(text: str) -> str:
    """Stable JSON without the machine it was recorded on: no host, no paths."""
    text = re.sub(r'"\d+@[^"]+"', '"recorder"', text)
    text = re.sub(r'"stackTrace": *"(?:[^"\\]|\\.)*"', '"stackTrace": ""', text)
    return json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=[*PLAYBOOKS, "all"])
    parser.add_argument("--force", action="store_true")
    given = parser.parse_args()
    names = list(PLAYBOOKS) if "all" in given.names else given.names
    kept = [name for name in names if (FOLDER / f"{name}.json").exists() and not given.force]
    if kept:
        parser.error(f"already recorded: {', '.join(kept)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, own(Home(Path(folder)), "run") as (_, addresses):
        asyncio.run(record(addresses.temporal, names))


if __name__ == "__main__":
    main()
