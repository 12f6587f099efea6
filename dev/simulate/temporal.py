"""Compares runs of a playbook on the machine alone and on Temporal: status, result and rows of the log must be equal.

Only playbooks whose outcome does not depend on the order in which calls end are compared: their runs on the machine
alone have the same outcome in several random orders, and are short and without a timeout.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from dev.simulate.playbooks import playbook
from dev.simulate.run_summary import DERIVED, RunSummary, differences, failure_of, row_of, summarize
from dev.simulate.run_trace import Finding, RunTrace
from dev.simulate.tasks import ROWS
from dev.simulate.tool_outcomes import ToolOutcomes
from dev.simulate.world import World
from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.testing import FakeTool
from noetl_compiler import compile_text
from noetl_temporal.client import NoetlClient
from noetl_temporal.machine.commands import StartTimer
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.worker import serving

__all__ = ["compare"]

ORDERS = 4
MAX_TURNS = 120
MAX_MS = 6_000
RUN_SECONDS = 120.0
SHORTEST_TIMEOUT = 8.0
"""A shorter timeout might expire on a busy computer, although the machine alone takes no time."""

UNSUITABLE = ('"replace"', "sink: {tool", '"path": "sim/called"')
"""Words of playbooks whose rows depend on what the tables had before, or are no numbers, or that call another."""

TABLES = ("t0", "t1", "t")
KINDS = ("noop", "http", "python", "postgres")


def compare(count: int, first_seed: int) -> int:
    """Return the exit status: 1 if a playbook had another outcome on Temporal."""
    with (
        tempfile.TemporaryDirectory(prefix="noetl-simulate-") as folder,
        owned_stack(Home(Path(folder)), "run") as (_, addresses),
    ):
        return asyncio.run(_compare_playbooks(addresses, count, first_seed))


async def _compare_playbooks(addresses: Addresses, count: int, first_seed: int) -> int:
    await migrate(addresses.postgres)
    login = addresses.environment()["NOETL_CREDENTIAL_PG_LOCAL"]
    credentials = CredentialSource(environment={"NOETL_CREDENTIAL_PG": login})
    count_of_differing = 0
    for (seed, run_trace, alone), number in zip(_suitable_playbooks(first_seed), range(1, count + 1), strict=False):
        tools = _tools(seed)
        client = await NoetlClient.connect(addresses.temporal, dsn=addresses.postgres, tools=tools)
        await _empty_tables(addresses.playbooks)
        async with serving(client.temporal, tools, credentials):
            run = await client.submit(run_trace.graph, {"given": 1, "rows": list(range(ROWS))}, content=run_trace.text)
            report = await asyncio.wait_for(run.result(), RUN_SECONDS)
        await follow_execution(client.temporal, addresses.postgres, run.workflow_id)
        rows = await _rows_in_log(addresses.postgres, run.execution_id)
        failures = Counter(failure_of(failure) for failure in report.failures.detailed)
        summary = RunSummary(report.status, report.result, failures, rows, await _rows_in_tables(addresses.playbooks))
        difference_lines = list(differences(alone, summary, ("alone", "on Temporal")))
        verdict = "DIFFERS" if difference_lines else "same"
        print(f"{number:4} seed {seed}: {alone.status}, {alone.rows.total()} rows, {verdict}")
        for line in difference_lines:
            print(f"     {line[:600]}", flush=True)
        count_of_differing += bool(difference_lines)
    print(f"{count} playbooks on Temporal, {count_of_differing} differ from the machine alone")
    return int(bool(count_of_differing))


# ---- the machine alone ----------------------------------------------------------------------------------------------


def _suitable_playbooks(first_seed: int) -> Iterator[tuple[int, RunTrace, RunSummary]]:
    seed = first_seed
    while True:
        runs = [_run_without_faults(seed, order) for order in range(ORDERS)]
        summaries = [summarize(run_trace)._replace(results={}) for run_trace in runs if run_trace is not None]
        if runs[0] is not None and len(summaries) == ORDERS and all(summary == summaries[0] for summary in summaries):
            yield seed, runs[0], summaries[0]
        seed += 1


def _run_without_faults(seed: int, order: int) -> RunTrace | None:
    """Return a short run in which nothing goes wrong, or None."""
    text = playbook(random.Random(f"{seed}/playbook"))
    graph = compile_text(text, f"seed {seed}").graph
    if graph is None or len(graph.steps) > 20 or ToolOutcomes(seed).odd or any(word in text for word in UNSUITABLE):
        return None
    run_trace = RunTrace(seed, text, graph)
    try:
        World(run_trace, order).run()
    except Finding:
        return None
    turns = [turn for trace in run_trace.traces.values() for turn in trace.turns]
    timers = [command for turn in turns for command in turn.commands if isinstance(command, StartTimer)]
    has_short_timeout = any(
        timer.timer_id.endswith(":timeout") and timer.seconds < SHORTEST_TIMEOUT for timer in timers
    )
    duration_ms = run_trace.main.turns[-1].fact.at - run_trace.main.turns[0].fact.at
    return None if has_short_timeout or len(turns) > MAX_TURNS or len(turns) < 4 or duration_ms > MAX_MS else run_trace


# ---- on Temporal ----------------------------------------------------------------------------------------------------


def _tools(seed: int) -> dict[str, FakeTool]:
    tool_outcomes = ToolOutcomes(seed)

    def fake_tool(kind: str) -> FakeTool:
        def outcome(request: Any, context: Any) -> Outcome:
            return msgspec.convert(tool_outcomes.outcome(kind, request.key, context.attempt), Outcome)

        return FakeTool(kind, outcome)

    return {kind: fake_tool(kind) for kind in KINDS}


async def _empty_tables(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for table in TABLES:
            await connection.execute(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (n int)")
    finally:
        await connection.close()


async def _rows_in_tables(dsn: str) -> Counter[str]:
    """Rows that sinks stored: table and row, as the machine's world writes them."""
    connection = await asyncpg.connect(dsn)
    try:
        rows_by_table = {table: await connection.fetch(f"SELECT n FROM {table}") for table in TABLES}
    finally:
        await connection.close()
    return Counter(f"{table} {dict(row)}" for table, rows in rows_by_table.items() for row in rows)


async def _rows_in_log(dsn: str, execution_id: int) -> Counter[str]:
    connection = await asyncpg.connect(dsn)
    try:
        records = await connection.fetch(
            "SELECT event_type, node_name, status, meta->>'iteration' AS iteration FROM noetl.event"
            " WHERE execution_id = $1",
            execution_id,
        )
    finally:
        await connection.close()
    rows = Counter(
        row_of(record["event_type"], record["node_name"], record["status"], record["iteration"]) for record in records
    )
    return Counter({row: count for row, count in rows.items() if not row.startswith(DERIVED)})
