"""Prints diagnostics of the compiler to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from noetl_compiler import Result
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity, render, sort_and_dedupe
from noetl_compiler.graph import Span
from noetl_compiler.printable import printable_line

__all__ = ["credential_spans", "show_all_diagnostics", "show_diagnostics"]

_MAX_SHOWN = 100
"""The maximum number of diagnostics of one file that are shown."""


def show_diagnostics(result: Result, consequence: str, *, strict: bool = False) -> None:
    """Print the diagnostics with their lines, errors first if there are too many; ``consequence`` follows errors.

    ``strict``: warnings fail as well.
    """
    errors, warnings = _show(result)
    if errors:
        click.echo(f"{_count(errors, 'error')}: {consequence}", err=True)
    if warnings and strict:
        click.echo(f"{_count(warnings, 'warning')}: failed because of --strict", err=True)


def show_all_diagnostics(results: Sequence[Result], consequence: str) -> None:
    """Print the diagnostics of several files; ``consequence`` follows errors, once."""
    errors = [errors for errors, _ in map(_show, results) if errors]
    if errors:
        files = f" in {len(errors):,} files" if len(errors) > 1 else ""
        click.echo(f"{_count(sum(errors), 'error')}{files}: {consequence}", err=True)


def credential_spans(result: Result) -> tuple[Span, ...]:
    """Return the spans of literal credentials in a playbook, which must not be printed."""
    return tuple(diagnostic.span for diagnostic in result.diagnostics if diagnostic.code is Code.CREDENTIAL_IN_TEXT)


def _show(result: Result) -> tuple[int, int]:
    """Print the diagnostics of a file; return the numbers of errors and warnings."""
    credentials = credential_spans(result)
    for diagnostic in _first_diagnostics(result.diagnostics):
        source = result.source_of(diagnostic)
        _echo(render(diagnostic, source, credentials if source is result.source else ()), diagnostic)
    if (more := len(result.diagnostics) - _MAX_SHOWN) > 0:
        file = printable_line(result.source.file)
        click.echo(f"{file}: {more:,} more diagnostics; --diagnostics json prints all of them", err=True)
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic in result.diagnostics)
    return errors, len(result.diagnostics) - errors


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _echo(text: str, diagnostic: Diagnostic) -> None:
    """Print a diagnostic, in colour on a terminal or with FORCE_COLOR; NO_COLOR overrides both."""
    is_coloured = sys.stderr.isatty() or os.environ.get("FORCE_COLOR")
    if not is_coloured or os.environ.get("NO_COLOR"):
        click.echo(text, err=True)
        return
    from noetl_temporal.cli.colours import echo_diagnostic  # rich is slow to import, and only a terminal needs it

    echo_diagnostic(text, diagnostic)


def _first_diagnostics(diagnostics: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    """Return the diagnostics that are shown, in reading order; if there are too many, errors before warnings."""
    if len(diagnostics) <= _MAX_SHOWN:
        return diagnostics
    errors_first = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity is not Severity.ERROR)
    return sort_and_dedupe(errors_first[:_MAX_SHOWN])
