"""``noetl compile``: check playbooks and show what they compile to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from noetl_compiler import Result
from noetl_compiler.catalog import read_catalog, with_calls
from noetl_compiler.forecast import Sizes
from noetl_compiler.graph import Graph
from noetl_compiler.pipeline import lowered
from noetl_temporal.cli.findings import show_findings
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.cli.shown import SUFFIXES, View, shown
from noetl_temporal.cli.sizes import read_sizes
from noetl_temporal.cli.sources import understood

__all__ = ["compile_command"]

_FOR_COST = "For --forecast: "


@click.command("compile")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--format", "form", type=click.Choice(tuple(SUFFIXES)), default="tree", show_default=True, help="Form.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file; for several, this folder.")
@click.option(
    "--catalog",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Check calls of other playbooks against those in this folder.",
)
@click.option("--explain", "step", metavar="STEP", help="Show what this step compiles to, and why.")
@click.option("--forecast", "cost", is_flag=True, help="Show the events, bytes, calls and actions a run will take.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=f"{_FOR_COST}a value of the request.")
@click.option("--payload", metavar="JSON|@FILE", help=f"{_FOR_COST}the request.")
@click.option("--items", multiple=True, callback=read_sizes, metavar="STEP=N", help=f"{_FOR_COST}items of a loop.")
@click.option("--pages", multiple=True, callback=read_sizes, metavar="STEP=N", help=f"{_FOR_COST}pages of a step.")
@click.option(
    "--result-bytes", multiple=True, callback=read_sizes, metavar="STEP=N", help=f"{_FOR_COST}bytes of one result."
)
def compile_command(
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    catalog: Path | None,
    step: str | None,
    cost: bool,
    settings: tuple[str, ...],
    payload: str | None,
    **sizes: dict[str, int],
) -> None:
    """Check playbooks and show their graphs.

    A folder stands for all playbooks below it, - for stdin. Findings go to stderr. The exit status is 0 when every
    playbook has a graph, 1 when one has errors, 2 when the call is wrong.

    \b
    noetl compile playbook.yaml                              a tree for the terminal
    noetl compile playbook.yaml --format html -o page.html   a page: picture, cost, every step explained
    noetl compile playbook.yaml --explain fetch              what a step becomes, and why
    noetl compile playbook.yaml --forecast --items fetch=10000
    noetl compile playbooks/                                 check them all
    """
    view = View(form, step, cost, read_payload(payload, settings), Sizes(**sizes))
    results = _compiled(paths, catalog)
    for result in results:
        show_findings(result, "there is no graph")
    texts = [(graph, shown(graph, result, view)) for result in results if (graph := result.graph)]
    if output is None:
        _print(texts, several=len(results) > 1 and form == "tree")
    else:
        _write(texts, output, results, SUFFIXES["tree" if step or (cost and form != "json") else form])
    sys.exit(int(len(texts) < len(results)))


def _compiled(paths: Sequence[str], folder: Path | None) -> list[Result]:
    found = understood(paths)
    if folder is not None:
        catalog = read_catalog(folder)
        found = [with_calls(one, catalog) for one in found]
    return [lowered(one) for one in found]


def _print(texts: Sequence[tuple[Graph, str]], *, several: bool) -> None:
    for index, (graph, text) in enumerate(texts):
        if several:
            click.echo("\n" * bool(index) + f"# {graph.source.file}\n")
        click.echo(text)


def _write(texts: Sequence[tuple[Graph, str]], output: Path, results: Sequence[Result], suffix: str) -> None:
    """One playbook to the file, several to the folder, each under its own path there."""
    if len(results) == 1 and not output.is_dir():
        for _, text in texts:
            output.write_text(f"{text}\n", encoding="utf-8")
        return
    for graph, text in texts:
        relative = Path(*(part for part in Path(graph.source.file).parts if part not in ("..", "/")))
        target = (output / relative).with_suffix(f".{suffix}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{text}\n", encoding="utf-8")
