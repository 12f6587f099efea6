"""A call whose sink keeps its outcome: taken after a reset, completed after a failed sink, its own for each poll."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from click.testing import CliRunner
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot
from noetl_activities.sinks.postgres_ledger import DDL
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler.graph import Span, Value
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.cli.commands import cli
from noetl_temporal.machine.call import CallRule, SinkCall, ToolCall, ToolReport
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

pytestmark = pytest.mark.usefixtures("duckdb_files")

SPAN = Span(1, 1, 1, 2)


class Calls:
    """The attempts of one call that stores ``n`` of its results; ``answer`` is given the number of the call."""

    def __init__(
        self,
        file: Path,
        *tables: str,
        rules: tuple[CallRule, ...] = (),
        answer: Callable[[int], Any] = lambda n: {"n": n},
    ) -> None:
        self.file = file
        sinks = tuple(self._sink(table, index) for index, table in enumerate(tables))
        self.call = ToolCall(
            "c", "1/s/t/1", "step", "task", "noop", 1, "usual", sinks=sinks, rules=rules, idempotent=False
        )
        self.tool = FakeTool("noop", lambda _request, _context: answer(len(self.tool.requests)))
        self._details: list[Any] = []
        self._number = 0

    def _sink(self, table: str, index: int) -> SinkCall:
        data = {"database": str(self.file), "table": table, "data": {"n": "{{ result.n }}"}}
        return SinkCall("duckdb", Value(data, {"/data/n": SPAN}), f"1/s/t/1/sink{index}", f"1/s/t/sink{index}")

    def reset(self) -> None:
        """Forget the attempts, as a reset of the workflow does."""
        self._details, self._number = [], 0

    async def attempt(self) -> ToolReport | None:
        """The report, None when another attempt is to follow."""
        self._number += 1
        environment = ActivityEnvironment()
        environment.info = dataclasses.replace(
            environment.info, attempt=self._number, heartbeat_details=list(self._details)
        )
        environment.on_heartbeat = self._keep
        activity = tool_activity(self.tool, CredentialSource(environment={}), ValueStore(data_converter()))
        try:
            return await environment.run(activity, self.call)
        except ApplicationError:
            return None

    def _keep(self, *details: Any) -> None:
        self._details = [msgspec.to_builtins(detail) for detail in details]

    def rows(self, table: str) -> list[int]:
        with duckdb.connect(str(self.file)) as connection:
            return [row[0] for row in connection.execute(f"select n from {table} order by n").fetchall()]

    def execute(self, sql: str) -> None:
        with duckdb.connect(str(self.file)) as connection:
            connection.execute(sql)


async def test_a_reset_workflow_takes_the_outcome(tmp_path: Path) -> None:
    calls = Calls(tmp_path / "l.duckdb", "t")
    first = await calls.attempt()
    calls.reset()
    second = await calls.attempt()
    assert first is not None
    assert second is not None
    assert second.outcome == first.outcome
    assert (second.attempts[-1].is_reused, second.attempts[-1].is_called) == (True, False)
    assert len(calls.tool.requests) == 1
    assert calls.rows("t") == [1]


async def test_a_failed_sink_is_done_again_without_the_call(tmp_path: Path) -> None:
    """The second of two sinks fails: the call's outcome is known by then, and so are the rows of the first."""
    calls = Calls(tmp_path / "l.duckdb", "a", "b", rules=(CallRule(0, "retry", "error", attempts=Value(5)),))
    calls.execute("create table b (other int)")
    assert await calls.attempt() is None
    calls.execute("drop table b")
    report = await calls.attempt()
    assert report is not None
    assert report.outcome["status"] == "ok"
    assert len(calls.tool.requests) == 1
    assert (calls.rows("a"), calls.rows("b")) == ([1], [1])


async def test_each_poll_is_a_call_with_rows_of_its_own_also_after_a_reset(tmp_path: Path) -> None:
    calls = Calls(tmp_path / "l.duckdb", "t", rules=(CallRule(0, "retry", "ok", "{{ result.n < 3 }}"),))
    assert await calls.attempt() is None
    assert await calls.attempt() is None
    report = await calls.attempt()
    assert report is not None
    assert report.outcome["result"] == {"n": 3}
    calls.reset()
    assert [await calls.attempt() for _ in range(2)] == [None, None]
    second_report = await calls.attempt()
    assert second_report is not None
    assert second_report.outcome == report.outcome
    assert calls.rows("t") == [1, 2, 3]
    assert len(calls.tool.requests) == 3


async def test_attempts_that_failed_before_a_reset_count_as_before(tmp_path: Path) -> None:
    """They stored nothing; the entries of later calls show that."""
    rules = (CallRule(0, "retry", attempts=Value(4)),)
    calls = Calls(tmp_path / "l.duckdb", "t", rules=rules, answer=_fails_first_and_third)
    details = [await calls.attempt() for _ in range(4)]
    assert details[:3] == [None] * 3
    assert calls.rows("t") == [2, 4]
    calls.reset()
    assert await calls.attempt() is None
    second_report = await calls.attempt()
    assert second_report is not None
    assert second_report.exhausted
    assert len(calls.tool.requests) == 4
    assert calls.rows("t") == [2, 4]
    assert [(attempt.number, attempt.status, attempt.is_reused) for attempt in second_report.attempts] == [
        (1, "error", False),
        (2, "ok", True),
        (3, "error", False),
        (4, "ok", True),
    ]


def _fails_first_and_third(n: int) -> Any:
    return Outcome("error", error=ErrorInfo("busy", "busy")) if n in (1, 3) else {"n": n}


async def test_an_outcome_kept_by_a_tool_counts_earlier_failed_attempts(tmp_path: Path) -> None:
    calls = Calls(tmp_path / "l.duckdb", rules=(CallRule(0, "retry", "ok", attempts=Value(3)),))
    calls.tool = _Keeper(byte_count=3)
    report = await calls.attempt()
    assert report is not None
    assert report.exhausted
    assert [attempt.status for attempt in report.attempts] == ["error", "error", "ok"]


class _Keeper(FakeTool):
    """A tool that has kept the outcome of the ``used_attempts``-th attempt."""

    def __init__(self, byte_count: int) -> None:
        super().__init__("noop", lambda _request, _context: None)
        self._answer_kept = LedgerResult(Outcome("ok", 1), is_reused=True, is_in_ledger=True, used_attempts=byte_count)

    async def run_with_ledger(self, _request: Request, _context: ToolContext, _slot: LedgerSlot) -> LedgerResult:
        return self._answer_kept

    async def find(self, _request: Request, _context: ToolContext, _slot: LedgerSlot) -> LedgerResult | None:
        return self._answer_kept


@pytest.mark.parametrize("location", ["{{ result.file }}", "{{ nothing }}"])
async def test_a_ledger_whose_place_depends_on_the_result_is_read_once_there_is_one(
    tmp_path: Path, location: str
) -> None:
    calls = Calls(tmp_path / "l.duckdb", "t")
    [sink] = calls.call.sinks
    config = Value({**sink.config.data, "database": location}, {"/database": SPAN, "/data/n": SPAN})
    calls.call = msgspec.structs.replace(calls.call, sinks=(msgspec.structs.replace(sink, config=config),))
    calls.tool = FakeTool("noop", lambda _request, _context: {"n": 7, "file": str(calls.file)})
    report = await calls.attempt()
    assert report is not None
    if location == "{{ nothing }}":
        assert report.outcome["error"]["kind"] == "template"
        return
    calls.reset()
    await calls.attempt()
    assert calls.rows("t") == [7]


def test_the_sql_of_the_ledger_is_printed() -> None:
    result = CliRunner().invoke(cli, ["ledger", "sql"])
    assert result.exit_code == 0
    assert result.output.startswith(DDL)
    assert "grant select, insert, delete" in result.output
