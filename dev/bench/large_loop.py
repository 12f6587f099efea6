"""Measures very large loops of several sizes: rate, memory of the worker, and histories.

    python dev/bench/large_loop.py [--items 1000 10000 100000] [--in-flight 100] [--frame | --compare] [--sink]

Each size runs alone, in one worker process whose memory is read while it runs; another process submits it. Neither the
bytes an item nor the memory should grow with the size. The report has the number of items that succeeded: one with all
results would take 36 MB for a million numbers.

With ``--frame`` the items run in frames; with ``--compare`` unframed and then in frames, which shows how many times as
fast that is. With ``--sink`` each item stores a row in Postgres.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecution

from noetl_activities.credentials import CredentialSource
from noetl_activities.noop import TOOL
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.worker import serving

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: bench/large_loop}
workload: {items: []}
workflow:
  - step: each
    loop:
      in: "{{ workload.items }}"
      iterator: item
      spec: {mode: parallel, max_in_flight: IN_FLIGHT}
      FRAME
    tool: {kind: noop, result: "{{ iter.item }}" SINK}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ each.stats.success }}"}
"""

FRAME = "frame: {max_rows: 2000}"
TABLE = "large_loop"
SINK = f', sink: {{tool: {{kind: postgres, auth: pg_local, table: {TABLE}, data: {{n: "{{{{ item }}}}"}}}}}}'

TITLES = (
    *("items", "seconds", "items/s", "CPU-ms/item", "peak MB"),
    *("workflows", "bytes/item", "most events", "largest KB", "longest ms"),
)


class Histories(NamedTuple):
    """Of one run, its loop's chunks included. ``longest_task`` is the longest workflow task, in milliseconds."""

    workflows: int
    bytes: int
    most_events: int
    most_bytes: int
    longest_task: float


async def histories(client: Client, workflow_id: str) -> Histories:
    """Return the sizes of all workflows of a run after they have ended, from visibility."""
    query = f"WorkflowId = '{workflow_id}' OR RootWorkflowId = '{workflow_id}'"
    workflows = [workflow async for workflow in client.list_workflows(query)]
    infos = [workflow.raw_info for workflow in workflows]
    sizes = [info.history_size_bytes for info in infos]
    longest = max([await longest_task(client, workflow) for workflow in workflows])
    return Histories(len(infos), sum(sizes), max(info.history_length for info in infos), max(sizes), longest)


async def longest_task(client: Client, run: WorkflowExecution) -> float:
    """The milliseconds between start and completion of the longest workflow task of a run."""
    start_times: dict[int, int] = {}
    longest = 0.0
    async for event in client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
            start_times[event.event_id] = event.event_time.ToMilliseconds()
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            start = start_times[event.workflow_task_completed_event_attributes.started_event_id]
            longest = max(longest, event.event_time.ToMilliseconds() - start)
    return longest


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def peak_memory() -> AsyncGenerator[list[int]]:
    """Yield the peak memory of this process, the worker, during the block, in bytes."""
    peak = [0]

    async def watch() -> None:
        while True:
            peak[0] = max(peak[0], _resident())
            await asyncio.sleep(0.2)

    task = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        task.cancel()


class Rows:
    """The table of ``--sink``, in the database of playbooks."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def empty_table(self) -> None:
        """Create the table, or empty it."""
        await self._value(f"create table if not exists {TABLE} (n int); truncate {TABLE}")

    async def table_row(self, size: int) -> str:
        """Return the number of transactions that stored the rows. Raises SystemExit unless each item has one row."""
        count = await self._value(f"select count(*) from {TABLE} join generate_series(0, {size - 1}) g on g = n")
        if count != size:
            raise SystemExit(f"{count} rows of {size} items")
        transactions = await self._value(f"select count(distinct xmin::text) from {TABLE}")
        return f"{size:,} rows in {transactions:,} transactions"

    async def _value(self, sql: str) -> Any:
        connection = await asyncpg.connect(self._dsn)
        try:
            return await (connection.fetchval(sql) if sql.startswith("select") else connection.execute(sql))
        finally:
            await connection.close()


async def measure(addresses: Addresses, sizes: list[int], playbooks: list[str], rows: Rows | None) -> None:
    noetl = await NoetlClient.connect(addresses.temporal, dsn=addresses.postgres, tools={"noop": TOOL})
    print("".join(f"{title:>13}" for title in TITLES))
    async with serving(noetl.temporal, {"noop": TOOL}, CredentialSource(environment=addresses.environment())):
        for size in sizes:
            rates: list[float] = []
            for playbook in playbooks:
                if rows is not None:
                    await rows.empty_table()
                rates.append(await measure_one(noetl, addresses, playbook, size))
                if rows is not None:
                    print(f"{await rows.table_row(size):>130}")
            if len(rates) > 1:
                print(f"{size:,} items: {rates[-1] / rates[0]:.1f} times as fast in frames", flush=True)


class ClientRun(NamedTuple):
    """What the client knows of a run."""

    workflow_id: str
    seconds: float


def run_as_client(temporal: str, postgres: str, playbook: str, size: int) -> ClientRun:
    """Submit a run and check its result, in a process of the client's own."""
    return asyncio.run(_submit(temporal, postgres, playbook, size))


async def _submit(temporal: str, postgres: str, playbook: str, size: int) -> ClientRun:
    noetl = await NoetlClient.connect(temporal, dsn=postgres, tools={"noop": TOOL})
    graph, items = compile_or_raise(playbook), list(range(size))
    start = time.perf_counter()
    handle = await noetl.submit(graph, {"items": items})
    report = await handle.result()
    seconds = time.perf_counter() - start
    if report.status != "completed" or report.result != size:
        raise ValueError(f"the playbook {report.status}: {report.failures.detailed[:3]}")
    return ClientRun(handle.workflow_id, seconds)


async def measure_one(noetl: NoetlClient, addresses: Addresses, playbook: str, size: int) -> float:
    """Print the measurements of one run; return its items per second."""
    options, cpu = (addresses.temporal, addresses.postgres, playbook, size), time.process_time()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as client:
        async with peak_memory() as peak:
            run = await asyncio.get_running_loop().run_in_executor(client, run_as_client, *options)
    seconds, cpu = run.seconds, time.process_time() - cpu
    await asyncio.sleep(1)
    measurements = await histories(noetl.temporal, run.workflow_id)
    rate = f"{size / seconds:.0f}", f"{cpu * 1000 / size:.2f}", f"{peak[0] / 1e6:.0f}"
    columns = f"{measurements.workflows:,}", f"{measurements.bytes / size:,.0f}", f"{measurements.most_events:,}"
    largest = f"{measurements.most_bytes / 1e3:,.0f}", f"{measurements.longest_task:,.0f}"
    row = f"{size:,}", f"{seconds:.1f}", *rate, *columns, *largest
    print("".join(f"{cell:>13}" for cell in row), flush=True)
    return size / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--in-flight", type=int, default=100)
    framing = parser.add_mutually_exclusive_group()
    framing.add_argument("--frame", action="store_true")
    framing.add_argument("--compare", action="store_true")
    parser.add_argument("--sink", action="store_true")
    options = parser.parse_args()
    playbook = PLAYBOOK.replace("IN_FLIGHT", str(options.in_flight)).replace("SINK", SINK if options.sink else "")
    frames = ["", FRAME] if options.compare else [FRAME if options.frame else ""]
    with tempfile.TemporaryDirectory() as folder, owned_stack(Home(Path(folder)), "run") as (_, addresses):
        rows = Rows(addresses.playbooks) if options.sink else None
        asyncio.run(measure(addresses, options.items, [playbook.replace("FRAME", frame) for frame in frames], rows))


if __name__ == "__main__":
    main()
