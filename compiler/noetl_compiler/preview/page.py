"""A graph as one HTML page that needs no network and runs no script: picture, forecast, each step explained."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from noetl_compiler.diagnostics import Diagnostic, one_line
from noetl_compiler.forecast import Forecast
from noetl_compiler.graph import Graph
from noetl_compiler.preview.explain import explain
from noetl_compiler.preview.forecast_table import forecast_table
from noetl_compiler.preview.order import reading_order
from noetl_compiler.preview.outline import heading
from noetl_compiler.preview.svg import svg

__all__ = ["page"]


def page(graph: Graph, forecast: Forecast, findings: Sequence[Diagnostic] = ()) -> str:
    """The whole document; ``findings`` stand at its head."""
    template = files("noetl_compiler.preview").joinpath("page.html").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            name=graph.source.name,
            heading=heading(graph),
            findings=[one_line(found) for found in findings],
            picture=Markup(svg(graph)),  # noqa: S704 - svg() escapes every text of the playbook
            forecast=forecast_table(forecast),
            steps=[{"name": step.name, "text": explain(graph, step.name)} for step in reading_order(graph)],
            version=graph.version,
            digest=graph.digest,
        )
    )
