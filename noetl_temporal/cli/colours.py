"""Previews on a terminal in colours: names of steps and tasks, kinds of tools, ways on, failures, warnings."""

from __future__ import annotations

from typing import ClassVar

from rich.highlighter import RegexHighlighter
from rich.theme import Theme

from noetl_compiler.printable import printable
from noetl_temporal.cli.console import console

__all__ = ["echo_coloured"]


class _Preview(RegexHighlighter):
    base_style = "preview."
    highlights: ClassVar = [
        r"^(?P<step>[^\s│├└:]+)(?=$|  | \(added)",
        r"(?P<kind>\[[\w-]+\])",
        r"(?P<way>-> \S+)",
        r"[├└]─ (?P<failure>(?:if it fails|fail|skip)\b)",
        r"(?P<branch>[│├└]─?)",
        r"^(?P<warning>warning:)",
    ]


_THEME = Theme(
    {
        "preview.step": "bold",
        "preview.kind": "cyan",
        "preview.way": "green",
        "preview.failure": "red",
        "preview.branch": "dim",
        "preview.warning": "yellow",
    }
)


def echo_coloured(text: str) -> None:
    """To stdout; without colours where NO_COLOR is set or the terminal has none."""
    terminal = console(highlighter=_Preview(), theme=_THEME, soft_wrap=True)
    for line in printable(text).splitlines():
        terminal.print(line)
