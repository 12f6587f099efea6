"""Rich consoles that escape control characters and do not interpret markup.

Rich reads ``[red]`` and ``[link=...]`` in strings as markup and ``:smile:`` as an emoji. These consoles print strings
as they are; :func:`styled_text` creates text with a style.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from noetl_compiler.printable import printable
from noetl_temporal.cli.printable_stream import stream_for_console

__all__ = ["PrintableConsole", "console", "error_console", "print_table", "styled_text"]

PIPE_WIDTH = 400


class PrintableConsole(Console):
    """A console without markup and emoji; it takes the other options of Console."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape the text before it is measured, so that columns have the right width."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape control characters in all output, except Rich's own cursor movements, which have a ``control``."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def console(**options: Any) -> PrintableConsole:
    """Return a console for standard output, where results go. In a pipe or a file lines are PIPE_WIDTH wide."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return PrintableConsole(file=stream_for_console(sys.stdout), width=width, **options)


def print_table(table: Table) -> None:
    """Print a table to stdout, without the trailing spaces with which Rich pads lines."""
    output = console()
    if output.is_terminal:
        output.print(table)
        return
    with output.capture() as lines:
        output.print(table)
    for line in lines.get().splitlines():
        output.file.write(f"{line.rstrip()}\n")
    output.file.flush()


def error_console() -> PrintableConsole:
    """Return a console for standard error, where progress goes."""
    return PrintableConsole(file=stream_for_console(sys.stderr))


def styled_text(*parts: str | tuple[str, str]) -> Text:
    """Join strings, each plain or with a style, to one text."""
    return Text.assemble(
        *(printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts)
    )
