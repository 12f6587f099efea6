"""Measures the interpreter: playbooks compared with the best hand-written workflows for the same work.

    python dev/bench/overhead.py [--rounds 5] [--only sequence fan pages loop]

By hand there is one queue for workflows and activities, so that an activity starts eagerly with the worker that asked
for it; a loop runs in child workflows of 400 items, two at a time. The activity is a plain ``int -> int``. Both sides
use the same server, tuned as the embedded stack tunes it, in one process, and alternate. Printed are medians: the rate
of calls a second, CPU milliseconds a call (of server, worker and client together), events and bytes of history. The
machine is never quiet: read the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, Tool, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.worker import serving

CHUNK = 400
CHUNKS_IN_FLIGHT = 2
TICK = os.sysconf("SC_CLK_TCK")

# ---- by hand ---------------------------------------------------------------------------------------------------------


@activity.defn(name="hand")
async def hand_activity(index: int) -> int:
    return index


async def call_by_hand(index: int) -> int:
    return await workflow.execute_activity(
        hand_activity,
        index,
        start_to_close_timeout=timedelta(minutes=5),
        heartbeat_timeout=timedelta(seconds=20),
    )


@workflow.defn(name="HandSequence", sandboxed=False)
class HandSequence:
    """Activities in a row: steps, or pages until the last one."""

    @workflow.run
    async def run(self, count: int, _in_flight: int) -> int:
        return len([await call_by_hand(index) for index in range(count)])


@workflow.defn(name="HandChunk", sandboxed=False)
class HandChunk:
    @workflow.run
    async def run(self, count: int, in_flight: int) -> list[int]:
        limit = asyncio.Semaphore(in_flight)

        async def limited_call(index: int) -> int:
            async with limit:
                return await call_by_hand(index)

        return await asyncio.gather(*(limited_call(index) for index in range(count)))


@workflow.defn(name="HandLoop", sandboxed=False)
class HandLoop:
    @workflow.run
    async def run(self, count: int, in_flight: int) -> int:
        sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
        share = in_flight // min(CHUNKS_IN_FLIGHT, len(sizes))
        limit = asyncio.Semaphore(CHUNKS_IN_FLIGHT)

        async def chunk(number: int, size: int) -> list[int]:
            async with limit:
                id_ = f"{workflow.info().workflow_id}/{number}"
                return await workflow.execute_child_workflow(HandChunk.run, args=[size, share], id=id_)

        chunks = await asyncio.gather(*(chunk(number, size) for number, size in enumerate(sizes)))
        return sum(map(len, chunks))


# ---- playbooks -------------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """``calls`` of ``in_flight`` at once, as a workflow by hand and as a playbook."""

    title: str
    calls: int
    in_flight: int
    by_hand: str
    playbook: str


HEAD = "apiVersion: noetl.io/{}\nkind: Playbook\nmetadata: {{name: bench, path: bench/overhead}}\n"


def sequence(count: int) -> str:
    steps = "".join(
        f"  - step: s{index}\n    tool: {{kind: noop, result: {index}}}\n    next: {{arcs: [{{step: s{index + 1}}}]}}\n"
        for index in range(count - 1)
    )
    return f"{HEAD.format('v2')}workflow:\n{steps}  - step: s{count - 1}\n    tool: {{kind: noop, result: 1}}\n"


def loop(count: int, in_flight: int) -> str:
    return (
        f"{HEAD.format('v2')}workload: {{items: {list(range(count))}}}\nworkflow:\n"
        "  - step: each\n"
        '    loop:\n      in: "{{ workload.items }}"\n      iterator: item\n'
        f"      spec: {{mode: parallel, max_in_flight: {in_flight}}}\n"
        '    tool: {kind: noop, result: "{{ iter.item }}"}\n'
    )


def pages(count: int) -> str:
    return HEAD.format("v1") + (
        "workflow:\n  - step: start\n    next: [{step: fetch}]\n"
        "  - step: fetch\n    tool: http\n    url: http://api.test/items\n    params: {page: 0}\n"
        '    retry:\n      on_success:\n        while: "{{ response.more }}"\n'
        f"        max_attempts: {count}\n"
        '        next_call: {params: {page: "{{ response.page + 1 }}"}}\n'
        "        collect: {strategy: append, path: items, into: pages}\n"
        "    next: [{step: end}]\n  - step: end\n"
    )


SHAPES = {
    "sequence": Shape("200 steps in a row", 200, 1, "HandSequence", sequence(200)),
    "fan": Shape("fan-out of 500, 50 in flight", 500, 50, "HandLoop", loop(500, 50)),
    "pages": Shape("100 pages", 100, 1, "HandSequence", pages(100)),
    "loop": Shape("loop of 2,000, 100 in flight", 2000, 100, "HandLoop", loop(2000, 100)),
}


def respond(request: Request, _context: ToolContext) -> Any:
    if request.kind == "noop":
        return request.config["result"]
    params: Any = request.config["params"]
    return {"items": [params["page"]], "page": params["page"], "more": True}


TOOLS: dict[str, Tool] = {kind: FakeTool(kind, respond) for kind in ("noop", "http")}

# ---- measuring -------------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    seconds: float
    cpu: float
    events: int
    size: int


class Sides(NamedTuple):
    """Two functions that run a shape and return the id of its workflow."""

    by_hand: Callable[[Shape], Awaitable[str]]
    by_playbook: Callable[[Shape], Awaitable[str]]


def family() -> Iterator[list[str]]:
    """Yield the fields of /proc/PID/stat from the state on, for this process and its descendants."""
    stats: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    pids = {os.getpid()}
    while new := {pid for pid, fields in stats.items() if int(fields[1]) in pids} - pids:
        pids |= new
    return (fields for pid, fields in stats.items() if pid in pids)


def cpu_seconds() -> float:
    return sum(int(fields[11]) + int(fields[12]) for fields in family()) / TICK


async def history_of(client: Client, workflow_id: str) -> tuple[int, int]:
    """Return the events and bytes of all runs of a workflow and its children."""
    query = f"WorkflowId = '{workflow_id}' OR RootWorkflowId = '{workflow_id}'"
    runs = {workflow.run_id: workflow.id async for workflow in client.list_workflows(query)}
    descriptions = [
        (await client.get_workflow_handle(id_, run_id=run).describe()).raw_description for run, id_ in runs.items()
    ]
    infos = [description.workflow_execution_info for description in descriptions]
    return sum(info.history_length for info in infos), sum(info.history_size_bytes for info in infos)


async def cost_of(client: Client, run: Callable[[Shape], Awaitable[str]], shape: Shape) -> Cost:
    cpu, start = cpu_seconds(), time.perf_counter()
    workflow_id = await run(shape)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    await asyncio.sleep(0.5)  # visibility is written a little later
    return Cost(seconds, cpu, *await history_of(client, workflow_id))


def line_of(shape: Shape, costs: list[tuple[Cost, Cost]]) -> str:
    hand, ours = (
        Cost(*(median(values) for values in zip(*(pair[side] for pair in costs), strict=True))) for side in (0, 1)
    )
    cells = [
        f"{shape.calls / hand.seconds:.0f}/s {shape.calls / ours.seconds:.0f}/s {ours.seconds / hand.seconds:.2f}",
        f"{hand.cpu * 1000 / shape.calls:.1f} {ours.cpu * 1000 / shape.calls:.1f} {ours.cpu / hand.cpu:.2f}",
        f"{hand.events:.0f} {ours.events:.0f} {ours.events / hand.events:.2f}",
        f"{hand.size / 1000:.0f} {ours.size / 1000:.0f} {ours.size / hand.size:.1f}",
    ]
    return f"{shape.title:29}" + "".join(f"{cell:>22}" for cell in cells)


async def measure(noetl: NoetlClient, shapes: list[Shape], rounds: int) -> None:
    client = noetl.temporal

    async def by_hand(shape: Shape) -> str:
        workflow_id = f"hand/{shape.by_hand}/{time.time_ns()}"
        await client.execute_workflow(
            shape.by_hand, args=[shape.calls, shape.in_flight], id=workflow_id, task_queue="hand"
        )
        return workflow_id

    async def by_playbook(shape: Shape) -> str:
        handle = await noetl.submit(graphs[shape.title])
        report = await handle.result()
        if report.status != "completed":
            raise SystemExit(f"the playbook {report.status}: {report.failures.cause}")
        return handle.workflow_id

    graphs = {shape.title: compile_or_raise(shape.playbook) for shape in shapes}
    titles = ("by hand, ours, ratio", "CPU-ms a call", "events", "KB of history")
    print(f"{'':29}" + "".join(f"{title:>22}" for title in titles))
    for shape in shapes:
        sides = Sides(by_hand, by_playbook)
        await asyncio.gather(*(run(shape) for run in sides))
        costs = [
            (await cost_of(client, sides.by_hand, shape), await cost_of(client, sides.by_playbook, shape))
            for _ in range(rounds)
        ]
        print(line_of(shape, costs), flush=True)


async def run(address: str, shapes: list[Shape], rounds: int) -> None:
    noetl = await NoetlClient.connect(address, tools=TOOLS)
    hand = Worker(
        noetl.temporal,
        task_queue="hand",
        workflows=[HandSequence, HandChunk, HandLoop],
        activities=[hand_activity],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=1000,
    )
    async with hand, serving(noetl.temporal, TOOLS, CredentialSource()):
        await measure(noetl, shapes, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, owned_stack(Home(Path(folder)), "run") as (_, addresses):
        os.environ.update(addresses.environment())
        asyncio.run(run(addresses.temporal, [SHAPES[name] for name in options.only], options.rounds))


if __name__ == "__main__":
    main()
