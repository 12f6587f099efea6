"""``noetl compile``: check a playbook and show what it compiles to."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noetl_compiler import compile_file
from noetl_compiler.graph import Graph, encode
from noetl_temporal.cli.findings import show_findings

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
    show_findings(file, result.diagnostics, "there is no graph")
    if result.graph is None:
        sys.exit(1)
    click.echo(_shown(result.graph, form))


def _shown(graph: Graph, form: str) -> str:
    from noetl_compiler import preview

    if form == "json":
        return encode(graph).decode()
    return preview.mermaid(graph) if form == "mermaid" else preview.tree(graph)
