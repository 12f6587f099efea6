"""A call of the duckdb tool keeps its outcome in the file that it wrote to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerOutcome, LedgerResult, LedgerSlot, LedgerTool
from noetl_compiler.sql_effects import sql_effect

from .conftest import Context, request

pytestmark = pytest.mark.usefixtures("duckdb_files")


class File:
    """A file with a table ``t``, and one call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.query("create table t (id int)")

    def query(self, sql: str) -> list[Any]:
        with duckdb.connect(str(self.path)) as connection:
            return [row[0] for row in connection.execute(sql).fetchall()]

    def ids(self) -> list[int]:
        return self.query("select id from t order by id")

    def has_ledger(self) -> bool:
        return "noetl_ledger" in self.query("show tables")

    async def run(self, sql: str, n: int = 1, key: str = "42/k") -> LedgerResult:
        request_ = request("duckdb", command=sql, database=str(self.path))
        return await duckdb_tool.TOOL.run_with_ledger(request_, Context(), _slot(n, key))

    async def find(self) -> LedgerResult | None:
        request_ = request("duckdb", database=str(self.path))
        return await duckdb_tool.TOOL.find_outcome(request_, Context(), _slot(1, "42/k"))


def _slot(n: int, key: str) -> LedgerSlot:
    return LedgerSlot(key, n, _text)


def _text(outcome: Outcome) -> str:
    return msgspec.json.encode(LedgerOutcome(outcome)).decode()


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "l.duckdb")


INSERT = "insert into t values (1); select count(*) as n from t"


async def test_a_second_attempt_takes_the_outcome(file: File) -> None:
    assert isinstance(duckdb_tool.TOOL, LedgerTool)
    assert await file.find() is None
    first = await file.run(INSERT)
    second = await file.run(INSERT)
    assert (first.is_in_ledger, first.is_reused, second.is_reused) == (True, False, True)
    assert second.outcome == first.outcome
    assert file.ids() == [1]
    assert await file.find() == second
    assert (await file.run(INSERT, 2)).outcome.result["rows"] == [{"n": 2}]


async def test_a_call_that_reads_leaves_no_entry(file: File) -> None:
    for _ in range(2):
        answer = await file.run("set threads = 2; select * from t; show tables")
        assert (answer.outcome.error, answer.is_in_ledger, answer.is_reused) == (None, False, False)
    assert not file.has_ledger()


async def test_an_error_leaves_neither_rows_nor_entry(file: File) -> None:
    failed = await file.run("insert into t values (1); select nope")
    assert (failed.outcome.status, failed.is_in_ledger) == ("error", False)
    assert file.ids() == []
    assert await file.find() is None


async def test_concurrent_attempts_take_effect_once(file: File) -> None:
    sql = "insert into t select 1 from range(3000000) having count(*) > 0; select uuid() as id"
    answers = await asyncio.gather(*(file.run(sql) for _ in range(4)))
    assert file.ids() == [1]
    assert len({answer.outcome.result["rows"][0]["id"] for answer in answers}) == 1


async def test_concurrent_calls_of_a_file_do_not_conflict(file: File) -> None:
    answers = await asyncio.gather(*(file.run(f"insert into t values ({n})", key=f"42/{n}") for n in range(6)))
    assert [answer.outcome.error for answer in answers] == [None] * 6
    assert file.ids() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "sql",
    [
        "begin; insert into t values (1); commit",
        "insert into t values (1); checkpoint",
        "attach '{other}' as o; create or replace table o.u (a int); insert into t values (1); detach o",
    ],
)
async def test_statements_that_refuse_a_transaction_run_again(file: File, sql: str, tmp_path: Path) -> None:
    for _ in range(2):
        answer = await file.run(sql.format(other=tmp_path / "other.duckdb"))
        assert (answer.outcome.error, answer.is_in_ledger) == (None, False)
    assert file.ids() == [1, 1]


@pytest.mark.parametrize(
    "sql",
    ["select 1", "from t", "show tables", "describe t", "set threads = 2", "pragma version", "explain select 1",
     "summarize t", "insert into t values (1)", "create table u (a int)", "copy t from '{csv}'", "force checkpoint",
     "start transaction; insert into t values (1); commit"],
)  # fmt: skip
async def test_the_compiler_reports_before_what_duckdb_reports_then(file: File, sql: str, tmp_path: Path) -> None:
    csv = tmp_path / "t.csv"
    csv.write_text("1\n")
    answer = await file.run(sql.format(csv=csv))
    assert answer.outcome.error is None
    assert answer.is_in_ledger == (sql_effect("duckdb", [sql]).kind == "commits")


async def test_a_file_that_is_missing_is_not_made_by_asking(tmp_path: Path) -> None:
    path = tmp_path / "none.duckdb"
    request_ = request("duckdb", database=str(path))
    assert await duckdb_tool.TOOL.find_outcome(request_, Context(), _slot(1, "k")) is None
    assert not await asyncio.to_thread(path.exists)
