"""``noetl compile``: check a playbook and show what it compiles to."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noetl_compiler import compile_file
from noetl_compiler.diagnostics import Diagnostic, Severity, one_line, render
from noetl_compiler.graph import Graph, encode
from noetl_compiler.reader import read_file

__all__ = ["compile_command"]

FORMATS = ("tree", "json", "mermaid")


@click.command("compile")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="tree", show_default=True, help="What to show.")
def compile_command(file: Path, form: str) -> None:
    """Check the playbook FILE and show its graph.

    Findings go to stderr. The exit status is 1 when any of them is an error; then there is no graph.
    """
    result = compile_file(file)
    _tell(file, result.diagnostics)
    if result.graph is None:
        sys.exit(1)
    click.echo(_shown(result.graph, form))


def _tell(file: Path, diagnostics: tuple[Diagnostic, ...]) -> None:
    source, unreadable = read_file(file)
    for found in diagnostics:
        click.echo(one_line(found) if unreadable else render(found, source), err=True)
    errors = sum(found.severity is Severity.ERROR for found in diagnostics)
    if errors:
        click.echo(f"{errors} error{'s' * (errors != 1)}: there is no graph", err=True)


def _shown(graph: Graph, form: str) -> str:
    from noetl_compiler import preview

    if form == "json":
        return encode(graph).decode()
    return preview.mermaid(graph) if form == "mermaid" else preview.tree(graph)
