"""``noetl compile``: check playbooks and show what they compile to."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from noetl_activities.installed_tools import installed_tools
from noetl_compiler import Result
from noetl_compiler.diagnostics_json import diagnostics_json
from noetl_compiler.forecast import Sizes
from noetl_compiler.graph import Json
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import compile_parsed
from noetl_compiler.playbook_set import read_folder, with_call_diagnostics
from noetl_compiler.printable import printable_json
from noetl_compiler.sarif import sarif
from noetl_compiler.scripts import with_scripts
from noetl_compiler.value_merge import mapping_of
from noetl_temporal.cli.arguments import read_sizes
from noetl_temporal.cli.output import FileOutput, print_outputs, terminal_width, write_outputs
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.cli.render import FORMATS, RenderOptions, render_graph
from noetl_temporal.cli.show_diagnostics import show_diagnostics
from noetl_temporal.cli.sources import parsed_playbooks

__all__ = ["compile_command"]

_FOR_FORECAST = "For --forecast: "
_FOR_REQUEST = "For --forecast and scripts: "


@click.command("compile")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...", type=click.Path())
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="tree", show_default=True, help="Output format."
)
@click.option("-o", "--output", type=click.Path(), help="Output file; for several playbooks, output folder.")
@click.option(
    "--playbooks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Check calls of other playbooks against the playbooks in this folder.",
)
@click.option(
    "--diagnostics",
    "diagnostics_format",
    type=click.Choice(("text", "json", "sarif")),
    default="text",
    show_default=True,
    help="text: to stderr, with the graph on stdout; json or sarif (for CI): to stdout, without the graph.",
)
@click.option(
    "--explain", "explained_steps", multiple=True, metavar="STEP", help="Show what this step compiles to, and why."
)
@click.option(
    "--forecast", "shows_forecast", is_flag=True, help="Show the events, bytes, calls and actions a run will take."
)
@click.option(
    "--guarantees",
    "shows_guarantees",
    is_flag=True,
    help="Show what each call guarantees if a worker or server crashes.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=f"{_FOR_REQUEST}a value of the request.")
@click.option("--payload", metavar="JSON|@FILE", help=f"{_FOR_REQUEST}the request.")
@click.option("--items", multiple=True, callback=read_sizes, metavar="STEP=N", help=f"{_FOR_FORECAST}items of a loop.")
@click.option("--pages", multiple=True, callback=read_sizes, metavar="STEP=N", help=f"{_FOR_FORECAST}pages of a step.")
@click.option(
    "--result-bytes", multiple=True, callback=read_sizes, metavar="STEP=N", help=f"{_FOR_FORECAST}bytes of one result."
)
@click.option("--strict", is_flag=True, help="Exit with status 1 on warnings too.")
def compile_command(
    paths: tuple[str, ...],
    output_format: str,
    output: str | None,
    playbooks: Path | None,
    diagnostics_format: str,
    explained_steps: tuple[str, ...],
    shows_forecast: bool,
    shows_guarantees: bool,
    settings: tuple[str, ...],
    payload: str | None,
    strict: bool,
    **sizes: dict[str, int],
) -> None:
    """Check playbooks and show their graphs.

    A folder means all playbooks below it, - means stdin. Diagnostics go to stderr. The exit status is 0 if all
    playbooks compile, 1 if one has errors (with --strict: or warnings), 2 if the command line is wrong.

    \b
    noetl compile playbook.yaml                              a tree for the terminal
    noetl compile playbook.yaml --format html -o page.html   a page: diagram, cost, every step explained
    noetl compile playbook.yaml --explain fetch              what a step compiles to, and why
    noetl compile playbook.yaml --guarantees --format json   delivery guarantees of each call, as JSON
    noetl compile playbook.yaml --forecast --items fetch=10000
    noetl compile playbooks/                                 check them all
    """
    tools = installed_tools()
    width = terminal_width() if output is None else None
    options = RenderOptions(
        output_format,
        explained_steps,
        shows_forecast,
        shows_guarantees,
        read_payload(payload, settings),
        Sizes(**sizes),
        tools,
        width,
    )
    results = _compile_all(paths, playbooks, options.request, tools)
    if options.request and not options.has_forecast and not any(map(_has_script, results)):
        raise click.UsageError("--set and --payload need --forecast, --format html or a playbook with scripts")
    prints_several = diagnostics_format == "text" and len(results) > 1
    is_folder = prints_several or (output or "").endswith(os.sep)
    if prints_several and output is None and output_format in ("svg", "html") and options.suffix != "txt":
        raise click.UsageError(f"--format {output_format} of {len(results)} playbooks needs -o FOLDER")
    outputs = (
        _render_graphs(results, options, strict=strict)
        if diagnostics_format == "text"
        else _render_diagnostics(results, diagnostics_format)
    )
    if output is None:
        print_outputs(
            outputs, has_titles=prints_several and options.suffix == "txt", has_colours=options.suffix == "txt"
        )
    else:
        write_outputs(outputs, Path(output), options.suffix, into_folder=is_folder)
    sys.exit(int(any(result.graph is None or (strict and result.diagnostics) for result in results)))


def _has_script(result: Result) -> bool:
    """Whether a task has an external script, whose address may depend on the request. True if there are errors."""
    if result.graph is None:
        return True
    tasks = (task for step in result.graph.steps.values() for task in step.tasks)
    return any(isinstance(mapping_of(task.config).get("script"), dict) for task in tasks)


def _render_graphs(results: Sequence[Result], options: RenderOptions, *, strict: bool) -> list[FileOutput]:
    for result in results:
        show_diagnostics(result, "there is no graph", strict=strict)
    if len(results) > 1:
        click.echo(_summary(results), err=True)
    return [
        FileOutput(graph.source.file, render_graph(graph, result, options))
        for result in results
        if (graph := result.graph)
    ]


def _summary(results: Sequence[Result]) -> str:
    """Return ``12 playbooks: 10 compile (3 with warnings), 2 have errors``."""
    valid = [result for result in results if result.graph is not None]
    warning_count = sum(bool(result.diagnostics) for result in valid)
    warnings = f" ({warning_count} with warnings)" if warning_count else ""
    failed_count = len(results) - len(valid)
    errors = f", {failed_count} {'has' if failed_count == 1 else 'have'} errors" if failed_count else ""
    return f"{len(results)} playbooks: {len(valid)} {'compiles' if len(valid) == 1 else 'compile'}{warnings}{errors}"


def _render_diagnostics(results: Sequence[Result], diagnostics_format: str) -> list[FileOutput]:
    diagnostics = [diagnostic for result in results for diagnostic in result.diagnostics]
    text = sarif(diagnostics, str(Path.cwd())) if diagnostics_format == "sarif" else diagnostics_json(diagnostics)
    return [FileOutput("diagnostics", printable_json(text))]


def _compile_all(paths: Sequence[str], folder: Path | None, request: dict[str, Json], tools: Tools) -> list[Result]:
    playbooks = parsed_playbooks(paths, tools)
    if folder is not None and not folder.is_dir():
        raise click.UsageError(f"{str(folder)!r} is not a folder")
    if folder is not None:
        playbook_set = read_folder(folder, playbooks, tools)
        playbooks = [with_call_diagnostics(playbook, playbook_set) for playbook in playbooks]
    return [compile_parsed(with_scripts(playbook, request)) for playbook in playbooks]
