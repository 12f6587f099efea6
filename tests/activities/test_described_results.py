"""What the language says of a tool's result is what the tool yields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl_activities import noop
from noetl_activities.duckdb import tool as duckdb
from noetl_activities.http import tool as http
from noetl_activities.postgres import tool as postgres_tool
from noetl_activities.python import tool as python
from noetl_activities.shell import tool as shell
from noetl_activities.tool import BUILT_IN, Request
from noetl_compiler.language.tool_description import FieldType
from noetl_compiler.language.tools import KINDS

from .conftest import Context, request

TYPES: Mapping[FieldType, type | tuple[type, ...]] = {
    "text": str,
    "number": (int, float),
    "flag": bool,
    "mapping": dict,
    "list": list,
}
TWO = "select 1 as a; select 2 as a"


def check(kind: str, *results: dict[str, Any]) -> None:
    """Each result has keys of the table alone, of their types, and together they have all."""
    table = KINDS[kind].result
    for result in results:
        assert result.keys() <= table.keys()
        for name, value in result.items():
            assert not table[name].types or any(isinstance(value, TYPES[type_]) for type_ in table[name].types), name
    assert {name for result in results for name in result} == table.keys()


@pytest.mark.usefixtures("loopback")
async def test_results_of_http_have_the_described_keys(web: str) -> None:
    outcome = await http.TOOL.run(request("http", url=f"{web}/echo"), Context())
    check("http", outcome.result)


@pytest.mark.stack
async def test_results_with_rows_have_the_described_keys(postgres: Context) -> None:
    outcome = await postgres_tool.TOOL.run(request("postgres", "pg", query=TWO), postgres)
    check("postgres", outcome.result)


async def test_results_of_duckdb_have_the_described_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    outcome = await duckdb.TOOL.run(request("duckdb", query=TWO), Context())
    check("duckdb", outcome.result)


@pytest.mark.parametrize("command", ["date", "exit 1"])
async def test_results_of_shell_have_the_described_keys(command: str) -> None:
    outcome = await shell.TOOL.run(request("shell", cmds=command), Context())
    check("shell", outcome.result)


async def test_tools_without_a_fixed_result_are_described_as_such() -> None:
    assert {kind for kind in BUILT_IN if not KINDS[kind].result} == {"python", "noop", "nats"}
    code = await python.TOOL.run(request("python", code="result = [1]"), Context())
    main = await python.TOOL.run(request("python", code="def main(): return {'a': 1}"), Context())
    assert (code.result, main.result) == ([1], {"a": 1})
    outcome = await noop.TOOL.run(request("noop", result=[1]), Context())
    other = await noop.TOOL.run(Request("noop", {"message": "hi"}, {"name": "Ada"}), Context())
    assert (outcome.result, other.result) == ([1], {"status": "noop", "message": "hi", "name": "Ada"})
