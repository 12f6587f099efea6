"""A template of a sink is rendered in the activity, which says where one is that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_compiler.graph import Span, Value
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.machine.call import SinkCall, ToolCall, ToolReport
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

pytestmark = pytest.mark.usefixtures("duckdb_files")


async def test_a_template_that_fails_is_reported_with_its_place(tmp_path: Path) -> None:
    templates = {"/data/n": Span(7, 19, 7, 38), "/data/m": Span(8, 19, 8, 43)}
    data = {"n": "{{ result.n }}", "m": "{{ result.absent }}"}
    config = Value({"database": str(tmp_path / "sink.duckdb"), "table": "t", "data": data}, templates)
    call = ToolCall("c", "1/k", "step", "task", "noop", 1, "call", sinks=(SinkCall("duckdb", config, "key"),))
    tool = FakeTool("noop", lambda _request, _context: {"n": 3})
    activity = tool_activity(tool, CredentialSource(environment={}), ValueStore(data_converter()))
    report: ToolReport = await ActivityEnvironment().run(activity, call)
    assert report.outcome["error"]["kind"] == "template"
    assert report.outcome["span"] == [8, 19, 8, 43]
