"""What the compiler has to say, on stderr."""

from __future__ import annotations

from pathlib import Path

import click

from noetl_compiler.diagnostics import Diagnostic, Severity, one_line, render
from noetl_compiler.reader import read_file

__all__ = ["show_findings"]


def show_findings(file: Path, diagnostics: tuple[Diagnostic, ...], therefore: str) -> None:
    """Each finding with its line of ``file``; ``therefore`` is what errors among them mean."""
    source, unreadable = read_file(file)
    for found in diagnostics:
        click.echo(one_line(found) if unreadable else render(found, source), err=True)
    errors = sum(found.severity is Severity.ERROR for found in diagnostics)
    if errors:
        click.echo(f"{errors} error{'s' * (errors != 1)}: {therefore}", err=True)
