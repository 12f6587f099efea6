"""A graph as a tree of plain text for a terminal: each step with its tasks, their rules, and the ways on."""

from __future__ import annotations

from noetl_compiler.diagnostics import columns
from noetl_compiler.forecasting.counts import loops_around
from noetl_compiler.graph import Graph, Step
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.order import reading_order, unreached
from noetl_compiler.preview.outline import Line, content, heading, ways
from noetl_compiler.preview.promises import promises
from noetl_compiler.preview.wrapping import broken
from noetl_compiler.printable import printable_line

__all__ = ["drawn", "guarantees", "tree"]


def tree(graph: Graph, width: int | None = None, tools: Tools = KINDS) -> str:
    """Many lines without a line break at the end, broken at ``width`` columns if given. The steps of a loop's region
    stand further to the right.
    """
    dead = set(unreached(graph))
    around = loops_around(graph)
    lines = [row for line in heading(graph) for row in drawn(Line(line), width=width)]
    for step in reading_order(graph):
        loops = [loop for name in around[step.name] if (loop := graph.steps[name].loop)]
        mark = "added" if step.injected else "no way leads here" if step.name in dead else ""
        marks = ", ".join(filter(None, [mark, f"each {loops[0].element}" if loops else ""]))
        margin = "    " * len(loops)
        lines += ["", *drawn(_step(graph, step, marks, tools), margin, margin, width)]
    found = promises(graph, tools)
    return "\n".join([*lines, *(["", *drawn(found, width=width)] if found else [])])


def guarantees(graph: Graph, width: int | None = None, tools: Tools = KINDS) -> str:
    """How often calls take effect and rows are stored, and why: the end of the tree."""
    found = promises(graph, tools)
    return "\n".join(drawn(found, width=width)) if found else "no call changes anything"


def _step(graph: Graph, step: Step, marks: str, tools: Tools) -> Line:
    title = f"{step.name}{f' ({marks})' if marks else ''}{'  ' if step.desc else ''}{' '.join(step.desc.split())}"
    return Line(title, [*content(step, tools), *ways(graph, step)])


def drawn(line: Line, first: str = "", rest: str = "", width: int | None = None) -> list[str]:
    """A line and those below it, with the branches of a tree before them."""
    beside = f"{rest}{'│  ' if line.below else '   ' if rest else '  '}"
    head, *others = broken(printable_line(line.text), width - columns(beside)) if width else [printable_line(line.text)]
    lines = [f"{first}{head}", *(f"{beside}{other}" for other in others)]
    for index, below in enumerate(line.below):
        last = index == len(line.below) - 1
        lines += drawn(below, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}", width)
    return lines
