"""A sink is performed in the activity of the tool, only where its guard allows it; its failure names it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_compiler.graph import Guard, Span, Template, Value
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.machine.call import SinkCall, ToolCall, ToolReport
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

pytestmark = pytest.mark.usefixtures("duckdb_files")

SPAN = Span(1, 1, 1, 2)


def condition(source: str) -> Template:
    return Template(source, SPAN)


async def store_with_guard(guard: Guard, file: Path, is_guarded: bool = False) -> tuple[ToolReport, int]:
    """The report of a call whose tool gives ``{n: 3}``, and the rows its sink has stored."""
    config = Value({"database": str(file), "table": "t", "data": {"n": "{{ result.n }}"}}, {"/data/n": SPAN})
    call = ToolCall(
        "c", "1/k", "step", "task", "noop", 1, "call",
        sinks=(SinkCall("duckdb", config, "key", guard=guard),),
        scope={"limit": 2, "result": {"n": 7}},
        is_guarded=is_guarded,
    )  # fmt: skip
    tool = FakeTool("noop", lambda _request, _context: {"n": 3})
    activity = tool_activity(tool, CredentialSource(environment={}), ValueStore(data_converter()))
    report: ToolReport = await ActivityEnvironment().run(activity, call)
    with duckdb.connect(str(file)) as connection:
        tables = connection.execute("select table_name from duckdb_tables() where table_name = 't'").fetchall()
        rows = connection.execute("select n from t").fetchall() if tables else []
    return report, len(rows)


@pytest.mark.parametrize(
    ("guard", "rows"),
    [
        (Guard(when=condition("{{ event.name == 'call.done' and response.n > limit }}")), 1),
        (Guard(when=condition("{{ response.n < limit }}")), 0),
        (Guard(when=condition("{{ response.absent > limit }}")), 0),
        (Guard(unless=(condition("{{ response.absent > limit }}"),)), 1),
        (Guard(unless=(condition("{{ response.n > limit }}"),)), 0),
        (Guard("error"), 0),
    ],
)
async def test_a_guard_is_evaluated_with_the_outcome_of_the_call(guard: Guard, rows: int, tmp_path: Path) -> None:
    report, outcome = await store_with_guard(guard, tmp_path / "sink.duckdb")
    assert outcome == rows
    assert len(report.attempts[-1].sinks) == rows
    assert report.outcome["status"] == "ok"


async def test_a_guard_that_cannot_be_evaluated_fails_the_attempt(tmp_path: Path) -> None:
    report, rows = await store_with_guard(Guard(when=condition("{{ 'a' * 10 ** 9 }}")), tmp_path / "sink.duckdb")
    assert (report.outcome["status"], rows) == ("error", 0)


async def test_the_sink_of_an_aside_reads_the_call_of_its_task(tmp_path: Path) -> None:
    _, rows = await store_with_guard(
        Guard(when=condition("{{ result.n == 7 }}")), tmp_path / "sink.duckdb", is_guarded=True
    )
    assert rows == 1


async def test_a_failed_sink_names_its_key(tmp_path: Path) -> None:
    config = Value({"database": str(tmp_path / "sink.duckdb"), "table": "not a table"})
    call = ToolCall("c", "1/k", "step", "task", "noop", 1, sinks=(SinkCall("duckdb", config, "1/k/sink0"),))
    tool = FakeTool("noop", lambda _request, _context: {"n": 3})
    activity = tool_activity(tool, CredentialSource(environment={}), ValueStore(data_converter()))
    report: ToolReport = await ActivityEnvironment().run(activity, call)
    assert report.outcome["meta"]["sink"] == "1/k/sink0"
    assert "invalid table 'not a table'" in report.outcome["error"]["message"]
