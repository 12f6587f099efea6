"""Colours for previews (steps, kinds of tools, routes, failures, warnings) and diagnostics on a terminal."""

from __future__ import annotations

from typing import ClassVar

from rich.highlighter import RegexHighlighter
from rich.theme import Theme

from noetl_compiler.diagnostics import Diagnostic, Severity
from noetl_compiler.printable import printable
from noetl_temporal.cli.console import console, error_console, styled_text

__all__ = ["echo_coloured", "echo_diagnostic"]


class _Preview(RegexHighlighter):
    base_style = "preview."
    highlights: ClassVar = [
        r"^(?P<step>[^\s│├└:]+)(?=$|  | \(added)",
        r"(?P<kind>\[[\w-]+\])",
        r"(?P<route>-> \S+)",
        r"[├└]─ (?P<failure>(?:if it fails|fail|skip)\b)",
        r"(?P<branch>[│├└]─?)",
        r"^(?P<warning>warning:)",
    ]


_THEME = Theme(
    {
        "preview.step": "bold",
        "preview.kind": "cyan",
        "preview.route": "green",
        "preview.failure": "red",
        "preview.branch": "dim",
        "preview.warning": "yellow",
    }
)


def echo_coloured(text: str) -> None:
    """Print to stdout; without colours if NO_COLOR is set or the terminal has none."""
    terminal = console(highlighter=_Preview(), theme=_THEME, soft_wrap=True)
    for line in printable(text).splitlines():
        terminal.print(line)


_SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


def echo_diagnostic(text: str, diagnostic: Diagnostic) -> None:
    """Print a rendered diagnostic to stderr; without colours if the terminal has none."""
    word = f"{diagnostic.severity.value}[{diagnostic.code.value}]"
    before, _, after = text.partition(f": {word}: ")
    line = styled_text(f"{before}: ", (word, _SEVERITIES[diagnostic.severity]), f": {after}")
    error_console().print(line, soft_wrap=True, highlight=False)
