"""A graph as a plain-text tree: each step with its tasks, their rules, and its routes."""

from __future__ import annotations

from noetl_compiler.diagnostics import columns
from noetl_compiler.forecasting.counts import loops_around
from noetl_compiler.graph import Graph, Step
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.guarantee_table import guarantee_table
from noetl_compiler.preview.order import reading_order, unreached_steps
from noetl_compiler.preview.outline import Line, content, heading, routes
from noetl_compiler.preview.wrapping import wrap_at_spaces
from noetl_compiler.printable import printable_line

__all__ = ["draw", "guarantees", "tree"]


def tree(graph: Graph, width: int | None = None, tools: Tools = KINDS) -> str:
    """Return the tree, without a trailing newline, wrapped at ``width`` columns if given.

    The steps of a loop's region are indented.
    """
    unreached_names = set(unreached_steps(graph))
    enclosing_loops = loops_around(graph)
    lines = [row for line in heading(graph) for row in draw(Line(line), width=width)]
    for step in reading_order(graph):
        loops = [loop for name in enclosing_loops[step.name] if (loop := graph.steps[name].loop)]
        label = "added" if step.injected else "unreachable" if step.name in unreached_names else ""
        marks = ", ".join(filter(None, [label, f"each {loops[0].element}" if loops else ""]))
        margin = "    " * len(loops)
        lines += ["", *draw(_step(graph, step, marks, tools), margin, margin, width)]
    guarantee_lines = guarantee_table(graph, tools)
    return "\n".join([*lines, *(["", *draw(guarantee_lines, width=width)] if guarantee_lines else [])])


def guarantees(graph: Graph, width: int | None = None, tools: Tools = KINDS) -> str:
    """Return the delivery guarantees of calls and rows, as at the end of the tree."""
    guarantee_lines = guarantee_table(graph, tools)
    return "\n".join(draw(guarantee_lines, width=width)) if guarantee_lines else "no call has an effect"


def _step(graph: Graph, step: Step, marks: str, tools: Tools) -> Line:
    title = f"{step.name}{f' ({marks})' if marks else ''}{'  ' if step.desc else ''}{' '.join(step.desc.split())}"
    return Line(title, [*content(step, tools), *routes(graph, step)])


def draw(line: Line, first_prefix: str = "", rest_prefix: str = "", width: int | None = None) -> list[str]:
    """Draw a line and its nested lines with the branches of a tree in front of them."""
    continuation = f"{rest_prefix}{'│  ' if line.children else '   ' if rest_prefix else '  '}"
    head, *others = (
        wrap_at_spaces(printable_line(line.text), width - columns(continuation))
        if width
        else [printable_line(line.text)]
    )
    lines = [f"{first_prefix}{head}", *(f"{continuation}{other}" for other in others)]
    for index, children in enumerate(line.children):
        last = index == len(line.children) - 1
        lines += draw(
            children, f"{rest_prefix}{'└─ ' if last else '├─ '}", f"{rest_prefix}{'   ' if last else '│  '}", width
        )
    return lines
