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
    names_by_guarantee: dict[Guarantee, list[str]] = {}
    for guarantee, name in _guarantees(graph, tools):
        names_by_guarantee.setdefault(guarantee, []).append(name)
    lines = [
        Line(str(guarantee), [Line(", ".join(dict.fromkeys(names)))]) for guarantee, names in names_by_guarantee.items()
    ]
    return Line("delivery guarantees of calls and rows", lines) if lines else None


def _guarantees(graph: Graph, tools: Tools) -> Iterator[tuple[Guarantee, str]]:
    for step, task in steps_with_tasks(graph):
        name = task_name(step, task)
        if (task_guarantee := call_guarantee(task, tools)) is not None:
            yield task_guarantee, name
        for sink in task.sinks:
            if (sink_guarantee := rows_guarantee(sink)) is not None:
                yield sink_guarantee, f"rows of {name}"
