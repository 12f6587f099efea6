"""Rows in columns, written one at a time.

Rich lays out a whole table before it prints it, which takes forty times as long a row: too long for logs with hundreds
of thousands of rows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from noetl_compiler.printable import printable_line
from noetl_temporal.cli.console import console, styled

__all__ = ["Column", "ColumnWriter"]

_GAP = "  "

_LEAST_WIDTH = 20
"""On a terminal that leaves fewer cells for the last column, it is not wrapped."""


class Column(NamedTuple):
    """A column of a table.

    ``width`` in cells of a terminal.
    """

    title: str
    width: int
    is_number: bool = False


class ColumnWriter:
    """Writes rows to standard output. The last cell of a row is not in a column and takes the rest of the line; on a
    terminal it is wrapped. A cell that is wider than its column moves the rest of its line.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._console = console()
        self._indent = sum(column.width + len(_GAP) for column in columns)
        left = self._console.width - self._indent
        self._rest = left if self._console.is_terminal and left >= _LEAST_WIDTH else None

    def write_header(self) -> None:
        """Write the titles of the columns."""
        self.write(*(column.title for column in self._columns), "", style="dim")

    def write(self, *cells: str, style: str = "") -> None:
        """Write one row."""
        *texts, rest = map(printable_line, cells)
        start = _GAP.join(_padded(text, column) for text, column in zip(texts, self._columns, strict=True))
        for line in self._lines(start, rest):
            if style:
                self._console.print(styled((line, style)), soft_wrap=True)
            else:
                self._console.file.write(f"{line}\n")

    def flush(self) -> None:
        """Show what has been written."""
        self._console.file.flush()

    def _lines(self, start: str, rest: str) -> list[str]:
        if self._rest is None or cell_len(rest) <= self._rest:
            return [f"{start}{_GAP}{rest}".rstrip()]
        first, *more = textwrap.wrap(rest, self._rest)
        return [f"{start}{_GAP}{first}", *(" " * self._indent + line for line in more)]


def _padded(text: str, column: Column) -> str:
    spaces = " " * (column.width - cell_len(text))
    return spaces + text if column.is_number else text + spaces
