"""A graph as a Mermaid flowchart: https://mermaid.js.org/syntax/flowchart.html

Solid arrows are followed after success, dotted ones after a failure. Nodes are named n0, n1 ... because a step may have
any name, including ``end``, a keyword of Mermaid.
"""

from __future__ import annotations

from noetl_compiler.graph import Graph, Step
from noetl_compiler.preview.arrows import Arrow, arrows
from noetl_compiler.preview.order import reading_order
from noetl_compiler.preview.phrases import loop_in_words
from noetl_compiler.printable import printable_line

__all__ = ["mermaid"]

_ESCAPES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "|": "#124;", "`": "#96;", "\\": "#92;"}


def mermaid(graph: Graph) -> str:
    """Return the graph as a flowchart, without a trailing newline."""
    steps = reading_order(graph)
    ids = {step.name: f"n{index}" for index, step in enumerate(steps)}
    lines = ["flowchart TD"]
    lines += [f"    {ids[step.name]}{_node(graph, step)}" for step in steps]
    for step in steps:
        lines += [f"    {line}" for line in _region(step, ids)]
    for step in steps:
        lines += [f"    {_edge(arrow, ids)}" for arrow in arrows(graph, step)]
    return "\n".join(lines)


def _node(graph: Graph, step: Step) -> str:
    rows = [f"<b>{_escape(step.name)}</b>"]
    rows += [_escape(loop_in_words(step.loop))] if step.loop else []
    rows += [_escape(f"{task.label} [{task.kind}]") for task in step.tasks]
    text = f'"{"<br/>".join(rows)}"'
    if step.name in (graph.entry, graph.final):
        return f"([{text}])"
    if step.loop:
        return f"[[{text}]]"
    return f"[{text}]" if step.tasks else f"{{{{{text}}}}}"


def _region(step: Step, ids: dict[str, str]) -> list[str]:
    """Return a subgraph of the steps of a loop's region."""
    if not step.loop or not step.loop.region:
        return []
    inner_steps = [f"    {ids[name]}" for name in step.loop.region if name in ids]
    return [f'subgraph {ids[step.name]}_region["each {_escape(step.loop.element)}"]', *inner_steps, "end"]


def _edge(arrow: Arrow, ids: dict[str, str]) -> str:
    line = "-.->" if arrow.kind == "failure" else "-->"
    label = f'|"{_escape(arrow.label)}"|' if arrow.label else ""
    return f"{ids[arrow.start]} {line}{label} {ids[arrow.end]}"


def _escape(text: str) -> str:
    """Replace characters that Mermaid or HTML would interpret with Mermaid's entity codes."""
    return "".join(_ESCAPES.get(char, char) for char in printable_line(" ".join(text.split())))
