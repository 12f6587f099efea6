"""A graph as a plain-text tree: each step with its tasks, their rules, and its edges."""

from __future__ import annotations

from noetl_compiler.diagnostics import columns
from noetl_compiler.forecasting.counts import loops_around
from noetl_compiler.graph import Graph, Step
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.guarantee_table import guarantee_table
from noetl_compiler.preview.order import reading_order, unreached
from noetl_compiler.preview.outline import Line, content, edges, heading
from noetl_compiler.preview.wrapping import broken
from noetl_compiler.printable import printable_line

__all__ = ["drawn", "guarantees", "tree"]


def tree(graph: Graph, width: int | None = None, tools: Tools = KINDS) -> str:
    """Return the tree, without a trailing newline, wrapped at ``width`` columns if given.

    The steps of a loop's region are indented.
    """
    dead = set(unreached(graph))
    around = loops_around(graph)
    lines = [row for line in heading(graph) for row in drawn(Line(line), width=width)]
    for step in reading_order(graph):
        loops = [loop for name in around[step.name] if (loop := graph.steps[name].loop)]
        mark = "added" if step.injected else "unreachable" if step.name in dead else ""
        marks = ", ".join(filter(None, [mark, f"each {loops[0].element}" if loops else ""]))
        margin = "    " * len(loops)
        lines += ["", *drawn(_step(graph, step, marks, tools), margin, margin, width)]
    found = guarantee_table(graph, tools)
    return "\n".join([*lines, *(["", *drawn(found, width=width)] if found else [])])


def guarantees(graph: Graph, width: int | None = None, tools: Tools = KINDS) -> str:
    """Return the delivery guarantees of calls and rows, as at the end of the tree."""
    found = guarantee_table(graph, tools)
    return "\n".join(drawn(found, width=width)) if found else "no call has an effect"


def _step(graph: Graph, step: Step, marks: str, tools: Tools) -> Line:
    title = f"{step.name}{f' ({marks})' if marks else ''}{'  ' if step.desc else ''}{' '.join(step.desc.split())}"
    return Line(title, [*content(step, tools), *edges(graph, step)])


def drawn(line: Line, first: str = "", rest: str = "", width: int | None = None) -> list[str]:
    """Draw a line and its nested lines with the branches of a tree in front of them."""
    beside = f"{rest}{'│  ' if line.below else '   ' if rest else '  '}"
    head, *others = broken(printable_line(line.text), width - columns(beside)) if width else [printable_line(line.text)]
    lines = [f"{first}{head}", *(f"{beside}{other}" for other in others)]
    for index, below in enumerate(line.below):
        last = index == len(line.below) - 1
        lines += drawn(below, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}", width)
    return lines
