"""The delivery guarantees of a graph: each reason once, with the calls and rows to which it applies."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Graph
from noetl_compiler.guarantees import call_guarantee, rows_guarantee, steps_with_tasks, task_name
from noetl_compiler.language.tool_description import Guarantee, Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.outline import Line

__all__ = ["guarantee_table"]


def guarantee_table(graph: Graph, tools: Tools = KINDS) -> Line | None:
    """Group calls and rows under ``exactly once: reason``; None if no call has an effect."""
    found: dict[Guarantee, list[str]] = {}
    for guarantee, name in _all(graph, tools):
        found.setdefault(guarantee, []).append(name)
    lines = [Line(str(one), [Line(", ".join(dict.fromkeys(names)))]) for one, names in found.items()]
    return Line("delivery guarantees of calls and rows", lines) if lines else None


def _all(graph: Graph, tools: Tools) -> Iterator[tuple[Guarantee, str]]:
    for step, task in steps_with_tasks(graph):
        name = task_name(step, task)
        if (of_task := call_guarantee(task, tools)) is not None:
            yield of_task, name
        for sink in task.sinks:
            if (of_sink := rows_guarantee(sink)) is not None:
                yield of_sink, f"rows of {name}"
