"""A self-contained HTML page without scripts: diagram, forecast, diagnostics, and an explanation of each step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from noetl_compiler.diagnostics import Diagnostic, one_line
from noetl_compiler.forecast import Forecast
from noetl_compiler.graph import Graph
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.explain import Explainer
from noetl_compiler.preview.forecast_table import forecast_cells
from noetl_compiler.preview.key_paths import KeyPathLookup
from noetl_compiler.preview.order import reading_order
from noetl_compiler.preview.outline import heading
from noetl_compiler.preview.svg import svg
from noetl_compiler.preview.tree import tree
from noetl_compiler.printable import printable_line

__all__ = ["page"]

_TEMPLATE = re.compile(r"(\{\{.*?\}\})")


def page(
    graph: Graph,
    forecast: Forecast,
    diagnostics: Sequence[Diagnostic] = (),
    key_paths: KeyPathLookup | None = None,
    tools: Tools = KINDS,
) -> str:
    """Return the HTML document. Each box of the diagram links to the explanation of its step."""
    template = files("noetl_compiler.preview").joinpath("page.html").read_text(encoding="utf-8")
    steps, explainer = reading_order(graph), Explainer(graph, key_paths, tools)
    ids = {step.name: f"step-{index}" for index, step in enumerate(steps)}
    return (
        Environment(autoescape=True, undefined=StrictUndefined)
        .from_string(template)
        .render(
            name=printable_line(graph.source.name),
            heading=[_mark_templates(line) for line in heading(graph)],
            diagnostics=[
                (diagnostic.severity.value, _mark_templates(one_line(diagnostic))) for diagnostic in diagnostics
            ],
            picture=Markup(svg(graph, {name: f"#{id_}" for name, id_ in ids.items()}, tools)),  # noqa: S704 - svg() escapes
            tree=tree(graph, tools=tools),
            cost=forecast_cells(forecast),
            steps=[
                {"name": printable_line(step.name), "id": ids[step.name], "text": explainer.explain(step.name)}
                for step in steps
            ],
            version=graph.version,
            digest=graph.digest,
        )
    )


def _mark_templates(line: str) -> Markup:
    """Escape a line and wrap its templates in elements, so that the browser does not break them across lines."""
    parts = enumerate(_TEMPLATE.split(printable_line(line)))
    return Markup("").join(
        Markup("<span>{}</span>").format(part) if index % 2 else escape(part) for index, part in parts
    )
