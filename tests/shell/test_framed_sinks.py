"""Items of a frame store their rows together, and each has what it has unframed: rows, outcome, retries, records."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.stack.addresses import Addresses
from tests.shell.conftest import Shell
from tests.shell.framed import Frame, chunk_of, input_of
from tests.shell.table import Base
from tests.shell.test_framed_runs import Run, run

ITEMS = 24
TOLERANT = "policy: {failure: {mode: best_effort}}"
RETRY = "{when: '{{ output.status == \"error\" }}', then: {do: retry, attempts: 3, delay: 0.01}}"
STATEMENT = "command: 'insert into TABLE values (:n)'"

CASES = {
    "append": ("mode: append", "table: TABLE", "{{ item }}", ""),
    "a row of the wrong type": ("mode: append", "table: TABLE", "{{ 'x' if item == 7 else item }}", ""),
    "rows that are refused": ("mode: append", "table: TABLE", "{{ 1000 if item % 5 == 1 else item }}", ""),
    "refused, and tried again": ("mode: append", "table: TABLE", "{{ 1000 if item == 3 else item }}", RETRY),
    "a template that fails": ("mode: append", "table: TABLE", "{{ item if item != 2 else nothing }}", ""),
    "upsert": ("mode: upsert, key: n", "table: TABLE", "{{ item % 4 }}", ""),
    "replace": ("mode: replace", "table: TABLE", "{{ item }}", ""),
    "statement": ("mode: append", STATEMENT, "{{ 1000 if item == 5 else item }}", ""),
    "no table": ("mode: append", "table: no_such_table", "{{ item }}", ""),
}


def step_of(case: str, table: str) -> str:
    mode, column, value, rule = CASES[case]
    column = column.replace("TABLE", table)
    policy = f"\n          spec: {{policy: {{rules: [{rule}]}}}}" if rule else ""
    return f"""  - step: many
    loop:
      in: "{{{{ range({ITEMS}) | list }}}}"
      iterator: item
      spec: {{mode: parallel, max_in_flight: 12, {TOLERANT}}}
    tool:
      - one:
          kind: noop
          input: {{n: "{{{{ item }}}}"}}
          sink:
            tool: {{kind: postgres, auth: pg_local, {column}, data: {{n: "{value}"}}}}
            {mode.replace(", ", chr(10) + "            ")}{policy}
"""


async def run_with_rows(step: str, servers: Addresses) -> tuple[Run, list[Any], int]:
    """The run, the rows of its table and in how many transactions they were written. Row 1000 is there before."""
    connection = await asyncpg.connect(servers.playbooks)
    shell = Shell(servers.temporal)
    shell.credentials = CredentialSource(environment=servers.environment())
    calls: Counter[str] = Counter()

    def answer(request: Request, _context: ToolContext) -> Any:
        calls[str(request.input["n"])] += 1
        return {"n": request.input["n"]}

    try:
        base = Base(connection)
        await connection.execute(f"create table {base.table} (n int primary key)")
        await connection.execute(f"insert into {base.table} values (1000)")
        async with shell.client(answer) as client:
            run_result = await run(shell, client, servers.postgres, calls, step.replace("BASE", base.table))
        rows = Counter({re.sub(base.table, "BASE", row): count for row, count in run_result.rows.items()})
        failures = [re.sub(base.table, "BASE", repr(failure)) for failure in run_result.failures]
        count = await connection.fetchval(f"select count(distinct xmin::text) from {base.table} where n < 1000")
        return run_result._replace(rows=rows, failures=failures), await base.rows(), count
    finally:
        await connection.close()


def with_frame(step: str) -> str:
    return step.replace("spec: {mode: parallel", "spec: {frame: {row_concurrency: 12}, mode: parallel")


@pytest.mark.parametrize("case", CASES)
async def test_a_framed_loop_with_a_sink_is_the_same_loop(
    case: str, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    step = step_of(case, "BASE")
    expected, rows, _ = await run_with_rows(step, servers)
    unframed_run, framed_rows, _ = await run_with_rows(with_frame(step), servers)
    assert framed_rows == rows
    assert (unframed_run.status, unframed_run.result, unframed_run.failures) == (
        expected.status,
        expected.result,
        expected.failures,
    )
    assert unframed_run.calls == expected.calls
    assert unframed_run.rows - expected.rows == Counter()
    assert expected.rows - unframed_run.rows == Counter()


async def test_rows_of_a_frame_are_few_transactions(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)
    _, rows, transactions = await run_with_rows(with_frame(step_of("append", "BASE")), servers)
    assert len(rows) == ITEMS + 1
    assert transactions <= ITEMS // 4


@pytest.mark.usefixtures("duckdb_files")
async def test_a_lost_frame_makes_no_more_attempts_than_the_rule_allows(servers: Addresses, tmp_path: Path) -> None:
    """No segment names the call whose attempts are forgotten: the stored rows show how many there were."""
    last = asyncio.Event()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        request_count = len(frame.tool.requests)
        if request_count == 5:
            last.set()
            await asyncio.Event().wait()
        return {"n": request_count} if request_count % 2 == 0 else Outcome("error", error=ErrorInfo("busy", "busy"))

    file = tmp_path / "rows.duckdb"
    sink = f"{{tool: {{kind: duckdb, database: '{file}', table: t, data: {{n: '{{{{ output.data.n }}}}'}}}}}}"
    rules = "[{else: {then: {do: retry, attempts: 5, delay: 0}}}]"
    frame = Frame(
        input_of(chunk_of(1, f"{{kind: noop, sink: {sink}, spec: {{policy: {{rules: {rules}}}}}}}")),
        servers.postgres,
        answer,
    )
    running = frame.start()
    await last.wait()
    await frame.lose(running)
    frame.beats.clear()  # none has arrived
    end = await frame.start()
    assert [entry["report"]["attempts"][-1]["number"] for entry in await frame.entries(end) if "call" in entry] == [5]
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("select n from t order by n").fetchall() == [(2,), (4,), (6,)]
