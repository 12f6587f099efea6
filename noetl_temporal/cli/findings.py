"""What the compiler has to say, on stderr."""

from __future__ import annotations

from collections.abc import Sequence

import click

from noetl_compiler import Result
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity, render, sort_and_dedupe
from noetl_compiler.printable import printable_line

__all__ = ["show_findings"]


_MOST_SHOWN = 100
"""Findings of one file. Who has more mends these first."""


def show_findings(result: Result, therefore: str) -> None:
    """Each finding with its line of the text, errors before warnings where there are too many; ``therefore`` is what
    errors among them mean.
    """
    credentials = [found.span for found in result.diagnostics if found.code is Code.CREDENTIAL_IN_TEXT]
    for found in _first(result.diagnostics):
        click.echo(render(found, result.source, credentials), err=True)
    if (more := len(result.diagnostics) - _MOST_SHOWN) > 0:
        file = printable_line(result.source.file)
        click.echo(f"{file}: {more:,} more findings are not shown; --diagnostics json gives all of them", err=True)
    errors = sum(found.severity is Severity.ERROR for found in result.diagnostics)
    if errors:
        click.echo(f"{errors:,} error{'s' * (errors != 1)}: {therefore}", err=True)


def _first(found: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    """As many as are shown, in reading order."""
    if len(found) <= _MOST_SHOWN:
        return found
    by_weight = sorted(found, key=lambda one: one.severity is not Severity.ERROR)
    return sort_and_dedupe(by_weight[:_MOST_SHOWN])
