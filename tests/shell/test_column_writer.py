"""Rows in columns, written one at a time: alignment, wrapping, and their cost compared with JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from noetl_temporal.cli import column_writer, events
from noetl_temporal.cli.column_writer import Column, ColumnWriter
from noetl_temporal.cli.console import PrintableConsole
from noetl_temporal.cli.logged_run import EventPage
from noetl_temporal.mirror.read import Event, LoggedEvent

COLUMNS = Column("node", 6), Column("seconds", 7, is_number=True)


def lines(capsys: pytest.CaptureFixture[str], *rows: tuple[str, str, str]) -> list[str]:
    writer = ColumnWriter(COLUMNS)
    writer.write_header()
    for row in rows:
        writer.write(*row)
    writer.flush()
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal of 50 cells."""

    def console() -> PrintableConsole:
        return PrintableConsole(force_terminal=True, width=50, color_system="standard")

    monkeypatch.setattr(column_writer, "console", console)


def test_cells_are_aligned_by_what_a_terminal_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, ("a", "0.5", "page 1"), ("世界", "10.25", "")) == [
        "node    seconds",
        "a           0.5  page 1",
        "世界      10.25",
    ]


def test_a_text_wider_than_its_column_moves_the_rest_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, ("a long name", "0.5", "page 1"))[1] == "a long name      0.5  page 1"


def test_a_row_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    _, row = lines(capsys, ("a", "0.5", "the first line\n" + "and more " * 100))
    assert row.startswith("a           0.5  the first line and more")
    assert row.count("and more") == 100


def test_nothing_is_written_that_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, ("\x1b[2J", "0.5", "[red]a\rb"))[1] == r"\x1b[2J      0.5  [red]a b"


@pytest.mark.usefixtures("terminal")
def test_the_rest_of_a_row_is_wrapped_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, *row = lines(capsys, ("a", "0.5", "word " * 12))
    assert row == ["a           0.5  " + "word " * 5 + "word", " " * 17 + "word " * 5 + "word"]


@pytest.mark.usefixtures("terminal")
def test_a_style_is_for_the_whole_line(capsys: pytest.CaptureFixture[str]) -> None:
    writer = ColumnWriter(COLUMNS)
    writer.write("a", "0.5", "page 1", style="dim")
    assert capsys.readouterr().out == "\x1b[2ma           0.5  page 1\x1b[0m\n"


def _row(index: int) -> LoggedEvent:
    event = Event(
        execution_id=1,
        event_id=index,
        parent_event_id=None,
        parent_execution_id=None,
        event_time=datetime(2026, 1, 1, tzinfo=UTC),
        event_type="task.attempt.completed",
        node_name="load",
        node_type="task",
        status="COMPLETED",
        duration=0.012,
        context=None,
        result=None,
        meta={"iteration": index, "retry": {"attempt_number": 1}},
        error=None,
        worker_id=None,
    )
    return LoggedEvent(event, is_superseded=False)


def _cpu(work: Callable[[], object]) -> float:
    """CPU seconds, the least of five."""
    seconds: list[float] = []
    for _ in range(5):
        started_at = time.process_time()
        work()
        seconds.append(time.process_time() - started_at)
    return min(seconds)


def test_a_log_costs_about_as_much_as_a_table_as_it_does_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    page = EventPage([_row(index) for index in range(1_000)], None)
    table = events.EventTable(page)
    costs = _cpu(lambda: table.write(page)), _cpu(lambda: events.print_json(page))
    assert len(capsys.readouterr().out.splitlines()) == 1 + 10_000
    assert costs[0] < 5 * costs[1], "a table of Rich takes 40 times as long"
