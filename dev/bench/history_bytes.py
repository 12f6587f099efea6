"""Compares bytes of history of runs with those of hand-written workflows: `python -m dev.bench.history_bytes`.

On a server and a Postgres of its own. By hand in two ways: an activity that has the argument and the result of ours,
and one that takes a number and gives it back. Each of a sequence, a fan-out and a sequential loop of COUNT noop calls;
a workflow counts with its children. ``--types`` prints the bytes of each type of event as well, ``--show`` one event of
each type. With ``--result-bytes N`` all results are texts of N hexadecimal digits.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, Tool, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.ids import new_execution_id
from noetl_temporal.inspection.replay import histories_of
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.naming import activity_type, tool_queue
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.worker import serving

COUNT = 50
EXECUTION = 754318462739161088
"""An id of maximum length."""
SHAPES = ("sequence", "fan-out", "loop")
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/bytes}\n"


result_bytes = 0
"""The size of the results of calls; 0 for numbers."""


def result_of(number: int) -> Any:
    """Return the result of a call: the number, or a text of the requested size that hardly compresses."""
    return random.Random(number).randbytes(result_bytes // 2).hex() if result_bytes else number


def respond(request: Request, _context: ToolContext) -> Any:
    return result_of(request.config["result"])


TOOLS: dict[str, Tool] = {"noop": FakeTool("noop", respond)}


@activity.defn(name="bench.same")
async def same(number: int) -> Any:
    return result_of(number)


async def execute_call(index: int, is_ours: bool) -> Any:
    """Return the result of a call with the argument of our interpreter, or with the smallest one."""
    if not is_ours:
        return await workflow.execute_activity(same, index, start_to_close_timeout=timedelta(minutes=5))
    call = ToolCall(
        id=f"s{index}#1:s{index}_task:1",
        key=f"{EXECUTION}/s{index}#1/s{index}_task/1",
        step=f"s{index}",
        task=f"s{index}_task",
        kind="noop",
        event_id=EXECUTION + index,
        config={"result": index},
    )
    report: ToolReport = await workflow.execute_activity(
        activity_type("noop"),
        call,
        task_queue=tool_queue("noop"),
        result_type=ToolReport,
        start_to_close_timeout=timedelta(minutes=5),
        heartbeat_timeout=timedelta(seconds=10),
    )
    return report.outcome["result"]


@workflow.defn(name="HandSequence", sandboxed=False)
class HandSequence:
    """Returns the result of the last call, as a playbook does, or all results as a loop does."""

    @workflow.run
    async def run(self, is_ours: bool, is_loop: bool) -> Any:
        results = [await execute_call(index, is_ours) for index in range(COUNT)]
        return results if is_loop else results[-1]


@workflow.defn(name="HandFan", sandboxed=False)
class HandFan:
    @workflow.run
    async def run(self, is_ours: bool, _is_loop: bool) -> list[Any]:
        return await asyncio.gather(*(execute_call(index, is_ours) for index in range(COUNT)))


@workflow.defn(name="HandChild", sandboxed=False)
class HandChild:
    """A loop has a child workflow of its own. It returns the results of all calls, as a playbook does."""

    @workflow.run
    async def run(self, name: str, is_ours: bool) -> list[Any]:
        child = f"{workflow.info().workflow_id}/loop"
        results: list[Any] = await workflow.execute_child_workflow(name, args=[is_ours, True], id=child)
        return results


def playbook(shape: str) -> str:
    if shape == "sequence":
        steps = "".join(
            f"  - step: s{index}\n    tool: {{kind: noop, result: {index}}}\n"
            f"    next: {{arcs: [{{step: s{index + 1}}}]}}\n"
            for index in range(COUNT - 1)
        )
        return f"{HEAD}workflow:\n{steps}  - step: s{COUNT - 1}\n    tool: {{kind: noop, result: 1}}\n"
    spec = f"{{mode: parallel, max_in_flight: {COUNT}}}" if shape == "fan-out" else "{mode: sequential}"
    return (
        f"{HEAD}workload: {{items: {list(range(COUNT))}}}\nworkflow:\n  - step: each\n"
        f'    loop:\n      in: "{{{{ workload.items }}}}"\n      iterator: item\n      spec: {spec}\n'
        '    tool: {kind: noop, result: "{{ iter.item }}"}\n'
    )


async def events_of(client: Client, workflow_id: str) -> AsyncIterator[HistoryEvent]:
    async for history in histories_of(client, workflow_id):
        for event in history.events:
            yield event


Side = Callable[[str], Awaitable[str]]


def sides(client: NoetlClient) -> dict[str, Side]:
    async def by_hand(shape: str, is_ours: bool) -> str:
        workflow_id = f"hand/{shape}/{new_execution_id()}"
        child = "HandFan" if shape == "fan-out" else "HandSequence"
        if shape == "sequence":
            await client.temporal.execute_workflow(child, args=[is_ours, False], id=workflow_id, task_queue="hand")
        else:
            await client.temporal.execute_workflow(
                HandChild.run, args=[child, is_ours], id=workflow_id, task_queue="hand"
            )
        return workflow_id

    async def by_playbook(shape: str) -> str:
        text = playbook(shape)
        handle = await client.submit(compile_or_raise(text), content=text)
        report = await handle.result()
        if report.status != "completed":
            raise SystemExit(f"the playbook {report.status}: {report.failures.cause}")
        return handle.workflow_id

    return {
        "int to int": lambda shape: by_hand(shape, False),
        "same values": lambda shape: by_hand(shape, True),
        "playbook": by_playbook,
    }


def name_of(event: HistoryEvent) -> str:
    return EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")


def in_place(event: HistoryEvent) -> str:
    return f"--- {name_of(event)}, {event.ByteSize()} bytes\n{event}"


def hand_worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue="hand",
        workflows=[HandSequence, HandFan, HandChild],
        activities=[same],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def histories(client: NoetlClient, shape: str) -> dict[str, list[HistoryEvent]]:
    """All events of each side's run of a shape."""
    by_type: dict[str, list[HistoryEvent]] = {}
    for name, side in sides(client).items():
        workflow_id = await side(shape)
        by_type[name] = [event async for event in events_of(client.temporal, workflow_id)]
    return by_type


async def measure(address: str, dsn: str, options: argparse.Namespace) -> None:
    client = await NoetlClient.connect(address, dsn=dsn, tools=TOOLS)
    async with hand_worker(client.temporal), serving(client.temporal, TOOLS, CredentialSource()):
        for shape in SHAPES:
            print(f"\n{shape} of {COUNT}")
            show(await histories(client, shape), options)


def show(by_type: dict[str, list[HistoryEvent]], options: argparse.Namespace) -> None:
    totals = {name: sum(event.ByteSize() for event in events) for name, events in by_type.items()}
    for name, events in by_type.items():
        ratio = totals["playbook"] / totals[name]
        print(f"  {name:12}{len(events):6} events{totals[name]:9,} bytes   the playbook's are {ratio:.2f} times these")
    if options.types:
        sizes: dict[str, Counter[str]] = {
            name: sum((Counter({name_of(event): event.ByteSize()}) for event in events), Counter[str]())
            for name, events in by_type.items()
        }
        for kind in sorted({kind for size_by_type in sizes.values() for kind in size_by_type}):
            columns = "".join(f"{size_by_type[kind]:12,}" for size_by_type in sizes.values())
            print(f"    {kind.lower():46}{columns}")
    if options.show:
        last_events: dict[str, Any] = {name_of(event): event for event in by_type["playbook"]}
        print("\n".join(in_place(event) for event in last_events.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--result-bytes", type=int, default=0)
    options = parser.parse_args()
    global result_bytes
    result_bytes = options.result_bytes
    with tempfile.TemporaryDirectory() as folder, owned_stack(Home(Path(folder)), "run") as (_, addresses):
        asyncio.run(measure(addresses.temporal, addresses.postgres, options))


if __name__ == "__main__":
    main()
