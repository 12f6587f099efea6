"""Shows the progress of a run: redrawn in place on a terminal, else a line for each important event."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Protocol

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from noetl_temporal.cli.console import PrintableConsole, error_console, styled_text
from noetl_temporal.cli.progress import Progress, Row, StepLine

__all__ = ["LineView", "QuietView", "ScreenView", "View", "open_view"]

BAR_WIDTH = 20

_CHANGING_PART = re.compile(r", attempt | \([\d,]+ more\)$")
"""Where the changing end of a warning begins: its number of attempts, or the number of other warnings."""

MARKS = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("-", "dim"),
    "cancelled": ("!", "yellow"),
    "held": ("‖", "yellow"),
    "waiting": ("…", "cyan"),
}
"""The mark of a step on a terminal and its colour, by status."""


def open_view(quiet: bool) -> View:
    """Return a view on standard error. With ``quiet``, progress is shown only on a terminal."""
    errors = error_console()
    if errors.is_terminal:
        return ScreenView(errors)
    return QuietView(errors) if quiet else LineView(errors)


class View(Protocol):
    """Shows the progress of a run."""

    def __enter__(self) -> View: ...
    def __exit__(self, *_: object) -> None: ...
    def feed(self, row: Row) -> None:
        """Process one row of the event log."""
        ...

    def show_message(self, text: str) -> None:
        """Show a message that is not an event."""
        ...

    def print_line(self, text: str) -> None:
        """Show a line that a task has printed; it stays."""
        ...

    def warn(self, lines: Sequence[str]) -> None:
        """Show what blocks the run now, if anything."""
        ...


class LineView:
    """Progress for a log: a line for each important event."""

    def __init__(self, console: PrintableConsole) -> None:
        self._console, self._progress = console, Progress()
        self._last_warnings: Sequence[str] = ()

    def __enter__(self) -> LineView:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def feed(self, row: Row) -> None:
        """Process one row of the event log."""
        line = self._progress.feed(row)
        if line:
            self.show_message(line)

    def show_message(self, text: str) -> None:
        """Show a message that is not an event."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def print_line(self, text: str) -> None:
        """Show a line that a task has printed."""
        self.show_message(text)

    def warn(self, lines: Sequence[str]) -> None:
        """Show what blocks the run, each problem once while it lasts."""
        for line in lines:
            if _subject(line) not in map(_subject, self._last_warnings):
                self.show_message(line)
        self._last_warnings = lines


class ScreenView:
    """Progress on a terminal: a table of steps, redrawn in place, which stays at the end."""

    def __init__(self, console: PrintableConsole) -> None:
        self._progress, self._message = Progress(), ""
        self._warnings: Sequence[str] = ()
        self._spinner = Spinner("dots")
        # With redirected streams, Rich would interpret escape sequences in text that is printed meanwhile.
        self._live = Live(
            console=console,
            get_renderable=self._layout,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> ScreenView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def feed(self, row: Row) -> None:
        """Process one row of the event log."""
        self._progress.feed(row)

    def show_message(self, text: str) -> None:
        """Show a message that is not an event."""
        self._message = text

    def print_line(self, text: str) -> None:
        """Show a line that a task has printed, above the table."""
        self._live.console.print(text, highlight=False, soft_wrap=True)

    def warn(self, lines: Sequence[str]) -> None:
        """Show what blocks the run now."""
        self._warnings = lines

    def _layout(self) -> Group:
        table, messages = Table.grid(padding=(0, 2, 0, 0)), list[Text]()
        for line in self._progress.steps.values():
            running = line.status in ("running", "waiting")
            seconds = time.monotonic() - line.started_at if running or line.seconds is None else line.seconds
            mark = self._spinner if line.status == "running" else styled_text(MARKS[line.status])
            table.add_row(mark, line.name, f"{seconds:.1f} s", _bar(line), line.counts(), styled_text(_note(line)))
        for warning in (*self._progress.warnings, *self._warnings):
            messages.append(styled_text(("! ", "yellow"), (warning, "yellow")))
        if self._message:
            messages.append(styled_text((self._message, "dim")))
        return Group(table, *messages)


class QuietView(LineView):
    """Shows messages and warnings, and no progress."""

    def feed(self, row: Row) -> None:
        """Ignore the row."""


def _bar(line: StepLine) -> ProgressBar | str:
    """Return the progress bar of a loop; "" for other steps."""
    if line.total is None:
        return ""
    return ProgressBar(total=max(1, line.total), completed=line.iterations if line.total else 1, width=BAR_WIDTH)


def _note(line: StepLine) -> tuple[str, str]:
    """Return the last problem of a step, else the pace of a loop, with its style."""
    if line.is_after_failure:
        return "after failure", "yellow"
    return (line.note, "yellow") if line.note or line.status != "running" else (line.pace(), "dim")


def _subject(line: str) -> str:
    """Return a warning without the parts that may change."""
    return _CHANGING_PART.split(line)[0]
