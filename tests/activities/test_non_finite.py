"""NaN and infinity, which JSON cannot say, become null wherever they come from, and a warning says so."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.http.data import parse_body
from noetl_activities.non_finite import replace_non_finite
from noetl_activities.outcome import Outcome
from noetl_activities.python import tool as python_tool
from noetl_temporal.calls.tool_outcome import plain_outcome

from .conftest import Context, request

ONE_WARNING = "a number of the result is NaN or infinite, which JSON cannot represent: it becomes null"
TWO = "2 numbers of the result are NaN or infinite, which JSON cannot represent: they become null"


@pytest.mark.parametrize(
    ("value", "expected", "meta"),
    [
        ({"a": [1.5, "nan", None, True]}, {"a": [1.5, "nan", None, True]}, {}),
        ({"a": math.nan}, {"a": None}, {"warning": ONE_WARNING}),
        ([[{"a": [math.inf]}], -math.inf, 1e308], [[{"a": [None]}], None, 1e308], {"warning": TWO}),
    ],
)
def test_non_finite_numbers_are_replaced_and_counted(value: Any, expected: Any, meta: Any) -> None:
    assert (replace_non_finite(value), value) == (meta, expected)


def test_an_outcome_reports_them_beside_what_its_tool_says() -> None:
    result = {"n": math.nan}
    outcome = plain_outcome(Outcome("ok", result, meta={"stdout": "x"}))
    assert (outcome["result"], outcome["meta"]) == ({"n": None}, {"stdout": "x", "warning": ONE_WARNING})
    assert math.isnan(result["n"]), "the tool's own value stays as it is"
    assert plain_outcome(Outcome("ok", math.inf)) == {"status": "ok", "result": None, "meta": {"warning": ONE_WARNING}}
    assert "meta" not in plain_outcome(Outcome("ok", {"n": 1.5}))


@pytest.mark.parametrize("body", ['{"n": [NaN, -Infinity]}', '{"n": [1e999, -1e999]}'])
async def test_a_body_that_python_reads(body: str) -> None:
    outcome = plain_outcome(Outcome("ok", await parse_body(body.encode(), "application/json")))
    assert (outcome["result"], outcome["meta"]["warning"]) == ({"n": [None, None]}, TWO)


@pytest.mark.usefixtures("duckdb_files")
async def test_a_result_of_duckdb(tmp_path: Path) -> None:
    sql = "select 'nan'::double as a, ['inf'::float, 1.5] as b"
    call = request("duckdb", command=sql, database=str(tmp_path / "x.duckdb"))
    outcome = plain_outcome(await duckdb_tool.TOOL.run(call, Context()))
    assert outcome["result"]["rows"] == [{"a": None, "b": [None, 1.5]}]
    assert outcome["meta"]["warning"] == TWO


@pytest.mark.usefixtures("duckdb_files")
async def test_several_statements_of_duckdb_count_each_number_once(tmp_path: Path) -> None:
    sql = "select 1.5::double as a; select 'nan'::double as a"
    call = request("duckdb", command=sql, database=str(tmp_path / "x.duckdb"))
    outcome = plain_outcome(await duckdb_tool.TOOL.run(call, Context()))
    assert outcome["meta"]["warning"] == ONE_WARNING
    assert outcome["result"]["statements"][1]["rows"] == outcome["result"]["rows"] == [{"a": None}]


@pytest.mark.usefixtures("task_folder")
async def test_a_result_of_python() -> None:
    outcome = plain_outcome(
        await python_tool.TOOL.run(request("python", code="result = {'n': float('nan')}"), Context())
    )
    assert (outcome["result"], outcome["meta"]["warning"]) == ({"n": None}, ONE_WARNING)


@pytest.mark.usefixtures("task_folder")
async def test_make_serializable_replaces_non_finite_numbers() -> None:
    code = "result = json.dumps(make_serializable({'n': [float('nan'), float('inf'), 1.5]}))"
    outcome = plain_outcome(await python_tool.TOOL.run(request("python", code=code), Context()))
    assert (outcome["result"], outcome.get("meta")) == ('{"n": [null, null, 1.5]}', None)
