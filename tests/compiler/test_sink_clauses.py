"""What a sink must say, and where it takes its credential from."""

from __future__ import annotations

import json

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code

STEP = (
    "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkflow:\n  - {step: start, tool: python, code: '', "
)


def test_a_sink_needs_a_tool() -> None:
    result = compile_text(f"{STEP}sink: {{table: t}}}}\n", "x.yaml")
    assert Code.MISSING_FIELD in {diagnostic.code for diagnostic in result.diagnostics}
    assert result.graph is None


@pytest.mark.parametrize(
    "auth", ["connection: main_db", "auth: main_db", "auth: {type: postgres, credential: main_db}"]
)
def test_a_sink_names_its_credential(auth: str) -> None:
    result = compile_text(f"{STEP}sink: {{tool: postgres, table: t, {auth}}}}}\n", "x.yaml")
    assert result.graph is not None
    [sink] = result.graph.steps["start"].tasks[0].sinks
    assert sink.auth is not None
    assert '"main_db"' in json.dumps(sink.auth.data)
