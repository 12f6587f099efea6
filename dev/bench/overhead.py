"""What the interpreter costs: a playbook against a hand-written Temporal workflow that does the same activities.

    python dev/bench/overhead.py [--rounds 3]

Both sides use the same tool, queues and server, and alternate in one run. Two shapes: 200 steps in sequence, and a
fan-out of 500 calls; by hand that is a child workflow with bounded concurrency. Prints medians and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.noop import TOOL
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.naming import activity_type, tool_queue
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own
from noetl_temporal.worker import serving

STEPS = 200
ITEMS = 500
IN_FLIGHT = 50


def call(index: int) -> ToolCall:
    return ToolCall(f"c{index}", f"k{index}", 1, "step", "task", "noop", 1, "v10", {"result": index})


async def one(index: int) -> ToolReport:
    report: ToolReport = await workflow.execute_activity(
        activity_type("noop"),
        call(index),
        task_queue=tool_queue("noop"),
        result_type=ToolReport,
        start_to_close_timeout=timedelta(minutes=5),
        heartbeat_timeout=timedelta(seconds=10),
    )
    return report


@workflow.defn(name="HandSequence", sandboxed=False)
class HandSequence:
    @workflow.run
    async def run(self, count: int) -> int:
        for index in range(count):
            await one(index)
        return count


@workflow.defn(name="HandLoop", sandboxed=False)
class HandLoop:
    @workflow.run
    async def run(self, count: int) -> list[Any]:
        limit = asyncio.Semaphore(IN_FLIGHT)

        async def bounded(index: int) -> Any:
            async with limit:
                return (await one(index)).outcome["result"]

        return await asyncio.gather(*(bounded(index) for index in range(count)))


@workflow.defn(name="HandFan", sandboxed=False)
class HandFan:
    @workflow.run
    async def run(self, count: int) -> int:
        found: list[Any] = await workflow.execute_child_workflow(
            HandLoop.run, count, id=f"{workflow.info().workflow_id}/loop"
        )
        return len(found)


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/overhead}\n"


def sequence() -> str:
    steps = "".join(
        f"  - step: s{index}\n    tool: {{kind: noop, result: {index}}}\n    next: {{arcs: [{{step: s{index + 1}}}]}}\n"
        for index in range(STEPS - 1)
    )
    return f"{HEAD}workflow:\n{steps}  - step: s{STEPS - 1}\n    tool: {{kind: noop, result: 1}}\n"


def fan() -> str:
    return (
        f"{HEAD}workload: {{items: {list(range(ITEMS))}}}\nworkflow:\n"
        "  - step: each\n"
        '    loop:\n      in: "{{ workload.items }}"\n      iterator: item\n'
        f"      spec: {{mode: parallel, max_in_flight: {IN_FLIGHT}}}\n"
        '    tool: {kind: noop, result: "{{ iter.item }}"}\n'
    )


async def events_of(client: Client, workflow_id: str) -> int:
    """History events of a workflow and its loop."""
    total = (await client.get_workflow_handle(workflow_id).describe()).history_length
    async for child in client.list_workflows(f"ParentWorkflowId = '{workflow_id}'"):
        total += (await client.get_workflow_handle(child.id).describe()).history_length
    return total


async def timed(client: Client, start: Callable[[], Awaitable[str]]) -> tuple[float, int]:
    began = time.perf_counter()
    workflow_id = await start()
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.3)
    return seconds, await events_of(client, workflow_id)


async def measure(address: str, rounds: int) -> None:
    noetl = await NoetlClient.connect(address, tools={"noop": TOOL})
    client = noetl.temporal
    hand = Worker(
        client,
        task_queue="hand",
        workflows=[HandSequence, HandLoop, HandFan],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=1000,
    )

    async def by_hand(name: str, count: int) -> str:
        workflow_id = f"hand/{name}/{time.time_ns()}"
        await client.execute_workflow(name, count, id=workflow_id, task_queue="hand")
        return workflow_id

    async def by_playbook(text: str) -> str:
        handle = await noetl.submit(compile_or_raise(text))
        report = await handle.result()
        if report.status != "completed":
            raise SystemExit(f"the playbook {report.status}: {report.failures}")
        return handle.workflow_id

    shapes = {
        f"{STEPS} sequential steps": (lambda: by_hand("HandSequence", STEPS), lambda: by_playbook(sequence())),
        f"fan-out of {ITEMS}, {IN_FLIGHT} in flight": (lambda: by_hand("HandFan", ITEMS), lambda: by_playbook(fan())),
    }
    async with hand, serving(client, {"noop": TOOL}, CredentialSource()):
        print(f"{'':34}{'by hand':>16}{'playbook':>16}{'ratio':>8}{'events':>16}{'ratio':>8}")
        for name, sides in shapes.items():
            await timed(client, sides[0])
            await timed(client, sides[1])
            found = [(await timed(client, sides[0]), await timed(client, sides[1])) for _ in range(rounds)]
            hand_s, ours_s = (statistics.median(pair[side][0] for pair in found) for side in (0, 1))
            hand_e, ours_e = found[-1][0][1], found[-1][1][1]
            print(
                f"{name:34}{hand_s:15.2f}s{ours_s:15.2f}s{ours_s / hand_s:8.2f}"
                f"{f'{hand_e}/{ours_e}':>16}{ours_e / hand_e:8.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, own(Home(Path(folder)), "run") as (_, addresses):
        asyncio.run(measure(addresses.temporal, rounds))


if __name__ == "__main__":
    main()
