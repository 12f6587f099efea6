"""Where progress is seen: redrawn in place on a terminal, else a line for each thing worth telling."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from noetl_temporal.cli.progress import Progress, Row

__all__ = ["Lines", "Quiet", "Screen", "View", "console", "open_view"]

PIPE_WIDTH = 400
MARKS = {"completed": "[green]✓[/]", "failed": "[red]✗[/]", "skipped": "[dim]-[/]", "cancelled": "[yellow]![/]"}


def console() -> Console:
    """Standard output, where results go. In a pipe or a file no line is cut to the width of a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def open_view(quiet: bool) -> View:
    """Progress goes to standard error. ``quiet`` shows it only to a person at a terminal."""
    errors = Console(stderr=True)
    if errors.is_terminal:
        return Screen(errors)
    return Quiet(errors) if quiet else Lines(errors)


class View(Protocol):
    """Where progress is seen."""

    def __enter__(self) -> View: ...
    def __exit__(self, *_: object) -> None: ...
    def feed(self, row: Row) -> None:
        """Take in one row of the event log."""
        ...

    def say(self, text: str) -> None:
        """Tell something that is no event."""
        ...

    def warn(self, lines: Sequence[str]) -> None:
        """Tell what keeps the run from going on now; nothing when there is nothing."""
        ...


class Lines:
    """Progress for a log: a line for each thing worth telling."""

    def __init__(self, console: Console) -> None:
        self._console, self._progress = console, Progress()
        self._warned: Sequence[str] = ()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def feed(self, row: Row) -> None:
        """Take in one row of the event log."""
        line = self._progress.feed(row)
        if line:
            self.say(line)

    def say(self, text: str) -> None:
        """Tell something that is no event."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def warn(self, lines: Sequence[str]) -> None:
        """Tell what keeps the run from going on, once for as long as it lasts."""
        for line in lines:
            if _subject(line) not in map(_subject, self._warned):
                self.say(line)
        self._warned = lines


class Screen:
    """Progress on a terminal: a table of steps, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._progress, self._said = Progress(), ""
        self._warnings: Sequence[str] = ()
        self._spinner = Spinner("dots")
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=8, transient=True)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def feed(self, row: Row) -> None:
        """Take in one row of the event log."""
        self._progress.feed(row)

    def say(self, text: str) -> None:
        """Tell something that is no event."""
        self._said = text

    def warn(self, lines: Sequence[str]) -> None:
        """Tell what keeps the run from going on now."""
        self._warnings = lines

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for line in self._progress.steps.values():
            running = line.status == "running"
            seconds = time.monotonic() - line.began if running or line.seconds is None else line.seconds
            mark = self._spinner if running else Text.from_markup(MARKS[line.status])
            table.add_row(mark, line.name, f"{seconds:.1f} s", line.told(), f"[yellow]{escape(line.note)}[/]")
        for warning in (*self._progress.warnings, *self._warnings):
            table.add_row(Text("!", style="yellow"), Text(warning, style="yellow"))
        if self._said:
            table.add_row("", Text(self._said, style="dim"))
        return table


class Quiet(Lines):
    """No progress; only what is said."""

    def feed(self, row: Row) -> None:
        """Nothing is shown of it."""


def _subject(line: str) -> str:
    """What a warning is about; how often it was tried since may change."""
    return line.partition(", attempt ")[0]
