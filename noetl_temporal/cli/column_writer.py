"""Rows in columns, written one at a time.

Rich lays out a whole table before it prints it, which takes forty times as long per row: too slow for logs with
hundreds of thousands of rows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from noetl_compiler.printable import printable_line
from noetl_temporal.cli.console import console, styled_text

__all__ = ["Column", "ColumnWriter"]

_GAP = "  "

_MIN_LAST_WIDTH = 20
"""The last column is not wrapped if the terminal has fewer cells left for it."""


class Column(NamedTuple):
    """A column of a table. ``width`` is in cells of a terminal."""

    title: str
    width: int
    is_number: bool = False


class ColumnWriter:
    """Writes rows to standard output.

    A row has one more cell than there are columns: the last cell takes the rest of the line, and is wrapped on a
    terminal. A cell that is wider than its column shifts the rest of its line.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._console = console()
        self._indent = sum(column.width + len(_GAP) for column in columns)
        remaining_width = self._console.width - self._indent
        self._last_width = remaining_width if self._console.is_terminal and remaining_width >= _MIN_LAST_WIDTH else None

    def write_header(self) -> None:
        """Write the titles of the columns."""
        self.write(*(column.title for column in self._columns), "", style="dim")

    def write(self, *cells: str, style: str = "") -> None:
        """Write one row."""
        *column_cells, last_cell = map(printable_line, cells)
        start = _GAP.join(_pad(text, column) for text, column in zip(column_cells, self._columns, strict=True))
        for line in self._lines(start, last_cell):
            if style:
                self._console.print(styled_text((line, style)), soft_wrap=True)
            else:
                self._console.file.write(f"{line}\n")

    def flush(self) -> None:
        """Flush standard output."""
        self._console.file.flush()

    def _lines(self, start: str, last_cell: str) -> list[str]:
        if self._last_width is None or cell_len(last_cell) <= self._last_width:
            return [f"{start}{_GAP}{last_cell}".rstrip()]
        first, *more = textwrap.wrap(last_cell, self._last_width)
        return [f"{start}{_GAP}{first}", *(" " * self._indent + line for line in more)]


def _pad(text: str, column: Column) -> str:
    spaces = " " * (column.width - cell_len(text))
    return spaces + text if column.is_number else text + spaces
