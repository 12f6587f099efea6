"""A graph in the form that was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click
import msgspec

from noetl_compiler import Result, preview
from noetl_compiler.diagnostics import nearest
from noetl_compiler.forecast import Sizes, forecast
from noetl_compiler.graph import Graph, Json, encode
from noetl_compiler.reader import read

__all__ = ["FORMATS", "Wanted", "shown"]

_SUFFIXES = {"tree": "txt", "mermaid": "mmd", "dot": "dot", "json": "json", "svg": "svg", "html": "html"}
FORMATS = tuple(_SUFFIXES)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show of a graph: a ``step`` explained, else its cost, else the whole in a format. Text for people
    is broken at ``width`` columns if given.
    """

    form: str
    step: str | None
    cost: bool
    request: dict[str, Json]
    sizes: Sizes
    width: int | None = None

    @property
    def suffix(self) -> str:
        """Of a file that has it."""
        is_text = self.step is not None or (self.cost and self.form != "json")
        return "txt" if is_text else _SUFFIXES[self.form]


def shown(graph: Graph, result: Result, wanted: Wanted) -> str:
    """The text, without a line break at the end. Raises click.UsageError for a step that is not there."""
    unknown = {*wanted.sizes.items, *wanted.sizes.pages, *wanted.sizes.result_bytes} - graph.steps.keys()
    for name in (wanted.step, *sorted(unknown)):
        if name is not None and name not in graph.steps:
            hint = nearest(name, graph.steps) or f"there are {', '.join(graph.steps)}"
            raise click.UsageError(f"{graph.source.file} has no step {json.dumps(name)}: {hint}")
    if wanted.step is not None:
        return preview.explain(graph, wanted.step, _origins(result), wanted.width)
    if wanted.cost:
        foreseen = forecast(graph, wanted.request, wanted.sizes)
        return msgspec.json.encode(foreseen).decode() if wanted.form == "json" else preview.forecast_table(foreseen)
    return _whole(graph, result, wanted)


def _whole(graph: Graph, result: Result, wanted: Wanted) -> str:
    match wanted.form:
        case "json":
            return encode(graph).decode()
        case "mermaid":
            return preview.mermaid(graph)
        case "dot":
            return preview.dot(graph)
        case "svg":
            return preview.svg(graph)
        case "html":
            return preview.page(
                graph, forecast(graph, wanted.request, wanted.sizes), result.diagnostics, _origins(result)
            )
        case _:
            return preview.tree(graph, wanted.width)


def _origins(result: Result) -> preview.Origins:
    root, _ = read(result.source)
    return preview.Origins(root)
