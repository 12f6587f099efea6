"""The table of ``noetl list``."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from noetl_temporal.cli.console import PrintableConsole
from noetl_temporal.cli.list_runs import run_table
from noetl_temporal.inspection.run_list import ListedRun

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def printed(*runs: ListedRun) -> list[list[str]]:
    out = io.StringIO()
    PrintableConsole(file=out, width=200).print(run_table(runs))
    return [line.split() for line in out.getvalue().splitlines()]


def listed(execution_id: int, caller: int | None = None) -> ListedRun:
    return ListedRun(execution_id, "w", "a/b", "1", "completed", NOON, NOON, parent_execution_id=caller)


def test_a_called_run_shows_its_caller() -> None:
    header, called, caller = printed(listed(2, 1), listed(1))
    assert header == ["execution", "status", "path", "called", "by", "started", "(UTC)", "seconds"]
    assert called[:4] == ["2", "completed", "a/b", "1"]
    assert caller[:4] == ["1", "completed", "a/b", "2026-01-01"]


def test_the_column_of_callers_is_absent_without_called_runs() -> None:
    header, *_ = printed(listed(1))
    assert "called" not in header
