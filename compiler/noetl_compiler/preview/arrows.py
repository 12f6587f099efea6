"""The ways of a graph as arrows between steps: what every picture of it draws.

What follows a loop over steps is drawn behind its region, from the region's last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from noetl_compiler.conditions import Moment, arc_condition
from noetl_compiler.graph import Arc, Graph, Step
from noetl_compiler.preview.order import falls_to_final
from noetl_compiler.preview.phrases import asked, condition

__all__ = ["Arrow", "arrows"]


class Arrow(NamedTuple):
    """From one step to another. ``kind`` is ``each`` from a loop into its region."""

    start: str
    end: str
    label: str = ""
    kind: Literal["way", "failure", "each"] = "way"


def arrows(graph: Graph, step: Step) -> Iterator[Arrow]:
    """The arrows that leave a step, in the order of its arcs."""
    entering = step.loop.enter.arcs if step.loop and step.loop.enter else ()
    yield from (_entering(step, arc) for arc in entering if arc.to in graph.steps)
    start = step.loop.end if step.loop and step.loop.end in graph.steps else step.name
    for index, arc in enumerate(step.route.arcs):
        if arc.to in graph.steps:
            arrow = _arrow(start, arc, "loop" if step.loop else "call")
            is_rest = index > 0 and step.route.mode == "exclusive" and not arrow.label
            yield arrow._replace(label="otherwise") if is_rest else arrow
    if falls_to_final(graph, step) and graph.final in graph.steps and not _ends_a_region(graph, step):
        yield Arrow(start, graph.final, "otherwise" if step.route.arcs else "")


def _ends_a_region(graph: Graph, step: Step) -> bool:
    return any(one.loop is not None and one.loop.end == step.name for one in graph.steps.values())


def _entering(step: Step, arc: Arc) -> Arrow:
    return Arrow(step.name, arc.to, f"each {condition(arc.when)}".strip(), "each")


def _arrow(start: str, arc: Arc, moment: Moment) -> Arrow:
    found = arc_condition(arc, moment)
    if found.on == "error":
        return Arrow(start, arc.to, f"failed {asked(found)}".strip(), "failure")
    return Arrow(start, arc.to, asked(found).removeprefix("when "))
