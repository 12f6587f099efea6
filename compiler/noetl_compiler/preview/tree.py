"""A graph as a tree of plain text for a terminal: each step with its tasks, their rules, and the ways on."""

from __future__ import annotations

from noetl_compiler.diagnostics import printable
from noetl_compiler.graph import Graph, Step
from noetl_compiler.preview.order import reading_order, unreached
from noetl_compiler.preview.outline import Line, content, heading, ways

__all__ = ["drawn", "tree"]


def tree(graph: Graph) -> str:
    """Many lines without a line break at the end."""
    dead = set(unreached(graph))
    lines = heading(graph)
    for step in reading_order(graph):
        lines += ["", *drawn(_step(graph, step, step.name in dead))]
    return "\n".join(lines)


def _step(graph: Graph, step: Step, dead: bool) -> Line:
    marks = " (added)" if step.injected else " (no way leads here)" if dead else ""
    title = f"{step.name}{marks}{'  ' if step.desc else ''}{' '.join(step.desc.split())}"
    return Line(title, [*content(step), *ways(graph, step)])


def drawn(line: Line, first: str = "", rest: str = "") -> list[str]:
    """A line and those below it, with the branches of a tree before them."""
    lines = [f"{first}{printable(line.text)}"]
    for index, below in enumerate(line.below):
        last = index == len(line.below) - 1
        lines += drawn(below, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
    return lines
