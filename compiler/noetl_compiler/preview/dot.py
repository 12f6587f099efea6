"""Graphviz output: https://graphviz.org/doc/info/lang.html"""

from __future__ import annotations

from noetl_compiler.graph import Graph, Step
from noetl_compiler.preview.arrows import MAX_LABEL_COLUMNS, Arrow, arrows
from noetl_compiler.preview.order import reading_order
from noetl_compiler.preview.phrases import loop_in_words
from noetl_compiler.preview.wrapping import wrap
from noetl_compiler.printable import printable_line

__all__ = ["dot"]

_STYLES = {"success": "", "failure": ", style=dashed, color=firebrick", "each": ", style=bold"}


def dot(graph: Graph) -> str:
    """Return the graph as a digraph in DOT, without a trailing newline."""
    steps = reading_order(graph)
    ids = {step.name: f"n{index}" for index, step in enumerate(steps)}
    lines = [f"digraph {_quote(graph.source.name)} {{", '  node [shape=box, style=rounded, fontname="sans-serif"]']
    lines += [f"  {ids[step.name]} [label={_quote(*_rows(step))}{_shape(graph, step)}]" for step in steps]
    lines += [f"  {line}" for step in steps for line in _cluster(step, ids)]
    lines += [f"  {_edge(arrow, ids)}" for step in steps for arrow in arrows(graph, step)]
    return "\n".join([*lines, "}"])


def _rows(step: Step) -> list[str]:
    loop = [loop_in_words(step.loop)] if step.loop else []
    return [step.name, *loop, *(f"{task.label} [{task.kind}]" for task in step.tasks)]


def _shape(graph: Graph, step: Step) -> str:
    if step.name in (graph.entry, graph.final):
        return ', style="rounded,bold"'
    return "" if step.tasks or step.loop else ", shape=diamond"


def _cluster(step: Step, ids: dict[str, str]) -> list[str]:
    if not step.loop or not step.loop.region:
        return []
    inner_steps = "; ".join(ids[name] for name in step.loop.region if name in ids)
    label = _quote(f"each {step.loop.element}")
    return [f"subgraph cluster_{ids[step.name]} {{ label={label}; {inner_steps} }}"]


def _edge(arrow: Arrow, ids: dict[str, str]) -> str:
    label = f"label={_quote(*wrap(printable_line(arrow.label), MAX_LABEL_COLUMNS))}" if arrow.label else 'label=""'
    return f"{ids[arrow.start]} -> {ids[arrow.end]} [{label}{_STYLES[arrow.kind]}]"


def _quote(*rows: str) -> str:
    escaped_rows = (printable_line(row).replace("\\", "\\\\").replace('"', '\\"') for row in rows)
    return '"' + "\\n".join(escaped_rows) + '"'
