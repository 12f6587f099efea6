"""The ways of a graph as arrows between steps: what every picture of it draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from noetl_compiler.graph import Arc, Graph, Step
from noetl_compiler.preview.order import falls_to_final
from noetl_compiler.preview.words import condition, shown

__all__ = ["Arrow", "arrows"]


class Arrow(NamedTuple):
    """From one step to another. ``kind`` is ``each`` from a loop into its region."""

    start: str
    end: str
    label: str = ""
    kind: Literal["way", "failure", "each"] = "way"


def arrows(graph: Graph, step: Step) -> Iterator[Arrow]:
    """The arrows that leave a step, in the order of its arcs."""
    for arc in step.loop.enter.arcs if step.loop and step.loop.enter else ():
        yield Arrow(step.name, arc.to, f"each {condition(arc.when)}".strip(), "each")
    yield from (_arrow(step, arc) for arc in step.route.arcs if arc.to in graph.steps)
    if falls_to_final(graph, step) and graph.final in graph.steps:
        yield Arrow(step.name, graph.final, "otherwise" if step.route.arcs else "")


def _arrow(step: Step, arc: Arc) -> Arrow:
    if arc.on == "error":
        return Arrow(step.name, arc.to, f"failed {condition(arc.when)}".strip(), "failure")
    return Arrow(step.name, arc.to, shown(arc.when.source) if arc.when else "")
