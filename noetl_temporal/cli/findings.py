"""What the compiler has to say, on stderr."""

from __future__ import annotations

import click

from noetl_compiler import Result
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity, render

__all__ = ["show_findings"]


def show_findings(result: Result, therefore: str) -> None:
    """Each finding with its line of the text; ``therefore`` is what errors among them mean."""
    credentials = [found.span for found in result.diagnostics if found.code is Code.CREDENTIAL_IN_TEXT]
    for found in result.diagnostics:
        click.echo(render(found, result.source, credentials), err=True)
    errors = sum(found.severity is Severity.ERROR for found in result.diagnostics)
    if errors:
        click.echo(f"{errors} error{'s' * (errors != 1)}: {therefore}", err=True)
