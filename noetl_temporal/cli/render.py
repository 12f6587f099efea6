"""Renders a graph in the format of ``--format``."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click
import msgspec

from noetl_compiler import Result, preview
from noetl_compiler.credential_names import credentials_json
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.forecast import Sizes, forecast
from noetl_compiler.forecasting.call_counts import repeats_itself
from noetl_compiler.forecasting.reachability import cycles, successors_of
from noetl_compiler.graph import Graph, Json, encode
from noetl_compiler.guarantees import guarantees_json
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.printable import printable_json
from noetl_compiler.reader import read

__all__ = ["FORMATS", "RenderOptions", "render_graph"]

_SUFFIXES = {"tree": "txt", "mermaid": "mmd", "dot": "dot", "json": "json", "svg": "svg", "html": "html"}
FORMATS = tuple(_SUFFIXES)


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """What to print: an explanation of ``explained_steps``, else a forecast, else guarantees, else the whole graph.

    ``tools`` are those that the graph may call. Text is wrapped at ``width`` columns, if given. Raises click.UsageError
    for options that exclude each other.
    """

    output_format: str
    explained_steps: tuple[str, ...]
    shows_forecast: bool
    shows_guarantees: bool
    request: dict[str, Json]
    sizes: Sizes
    tools: Tools
    width: int | None = None

    def __post_init__(self) -> None:
        if self.explained_steps and self.output_format != "tree":
            raise click.UsageError("--explain prints text: omit --format, or use html, which explains every step")
        if self.shows_forecast and self.output_format not in ("tree", "json"):
            raise click.UsageError("--forecast prints a table or json: omit --format, or use html without --forecast")
        if self.shows_guarantees and (
            self.output_format not in ("tree", "json") or self.shows_forecast or self.explained_steps
        ):
            raise click.UsageError("--guarantees prints text or json: omit --forecast, --explain and other formats")
        if self.sizes != Sizes() and not self.has_forecast:
            raise click.UsageError("--items, --pages and --result-bytes need --forecast or --format html")

    @property
    def has_forecast(self) -> bool:
        """Whether the output includes a forecast."""
        return self.shows_forecast or self.output_format == "html"

    @property
    def suffix(self) -> str:
        """The suffix of a file with this format."""
        is_text = bool(self.explained_steps) or (
            (self.shows_forecast or self.shows_guarantees) and self.output_format != "json"
        )
        return "txt" if is_text else _SUFFIXES[self.output_format]


def render_graph(graph: Graph, result: Result, options: RenderOptions) -> str:
    """Return the text, without a line break at the end. Raises click.UsageError for a step that does not exist."""
    _check_steps(graph, options)
    text = _render_steps_or_whole(graph, result, options)
    return printable_json(text) if options.output_format == "json" else text


def _render_steps_or_whole(graph: Graph, result: Result, options: RenderOptions) -> str:
    if options.explained_steps:
        origins = _key_paths(result)
        return "\n\n".join(
            preview.explain(graph, name, origins, options.width, options.tools) for name in options.explained_steps
        )
    if options.shows_forecast:
        cost = forecast(graph, options.request, options.sizes)
        return msgspec.json.encode(cost).decode() if options.output_format == "json" else preview.forecast_table(cost)
    if options.shows_guarantees:
        if options.output_format == "json":
            return guarantees_json(graph, options.tools)
        return preview.guarantees(graph, options.width, options.tools)
    return _render_whole(graph, result, options)


def _check_steps(graph: Graph, options: RenderOptions) -> None:
    sizes = options.sizes
    for name in dict.fromkeys([*options.explained_steps, *sizes.items, *sizes.pages, *sizes.result_bytes]):
        if name not in graph.steps:
            hint = did_you_mean(name, graph.steps) or f"there are {', '.join(graph.steps)}"
            raise click.UsageError(f"{graph.source.file} has no step {json.dumps(name)}: {hint}")
    for name in sizes.pages:
        _check_pages(graph, name)
    for name in sizes.items:
        if graph.steps[name].loop is None:
            loops = [step.name for step in graph.steps.values() if step.loop]
            hint = f"loops are {', '.join(loops)}" if loops else "there is none in this playbook"
            raise click.UsageError(f"step {json.dumps(name)} of {graph.source.file} has no loop: {hint}")


def _check_pages(graph: Graph, name: str) -> None:
    """Raise click.UsageError for a step that is not repeated by a rule or a cycle of steps."""
    if repeats_itself(graph.steps[name]) or any(name in cycle for cycle in cycles(successors_of(graph))):
        return
    raise click.UsageError(f"step {json.dumps(name)} of {graph.source.file} has no pages: nothing calls it again")


def _render_whole(graph: Graph, result: Result, options: RenderOptions) -> str:
    match options.output_format:
        case "json":
            return f'{{"credentials":{credentials_json(graph)},{encode(graph).decode()[1:]}'
        case "mermaid":
            return preview.mermaid(graph)
        case "dot":
            return preview.dot(graph)
        case "svg":
            return preview.svg(graph, tools=options.tools)
        case "html":
            cost = forecast(graph, options.request, options.sizes)
            return preview.page(graph, cost, result.diagnostics, _key_paths(result), options.tools)
        case _:
            return preview.tree(graph, options.width, options.tools)


def _key_paths(result: Result) -> preview.KeyPathLookup:
    root, _ = read(result.source)
    return preview.KeyPathLookup(root)
