"""The routes of a graph as arrows between steps, shared by all diagram formats.

The routes that leave a loop over steps are drawn from the last step of its region.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from noetl_compiler.conditions import Moment, arc_condition
from noetl_compiler.graph import Arc, Graph, Step
from noetl_compiler.preview.order import can_fall_to_final
from noetl_compiler.preview.phrases import condition_in_words, when_in_words

__all__ = ["MAX_LABEL_COLUMNS", "Arrow", "arrows"]

MAX_LABEL_COLUMNS = 44
"""Columns at which diagrams wrap the label of an arrow."""


class Arrow(NamedTuple):
    """A route as it is drawn. ``kind`` is ``each`` for the routes from a loop into its region."""

    start: str
    end: str
    label: str = ""
    kind: Literal["success", "failure", "each"] = "success"


def arrows(graph: Graph, step: Step) -> Iterator[Arrow]:
    """Yield the arrows that leave a step, in the order of its arcs."""
    entering_arcs = step.loop.entry_route.arcs if step.loop and step.loop.entry_route else ()
    yield from (
        _entering(step, arc) for arc in entering_arcs if arc.target in graph.steps and arc.target != graph.final
    )
    start = step.loop.end if step.loop and step.loop.end in graph.steps else step.name
    for index, arc in enumerate(step.route.arcs):
        if arc.target in graph.steps:
            arrow = _arrow(start, arc, "loop" if step.loop else "call")
            is_otherwise = index > 0 and step.route.mode == "exclusive" and not arrow.label
            yield arrow._replace(label="otherwise") if is_otherwise else arrow
    if can_fall_to_final(graph, step) and graph.final in graph.steps and not _ends_a_region(graph, step):
        yield Arrow(start, graph.final, "otherwise" if step.route.arcs else "")


def _ends_a_region(graph: Graph, step: Step) -> bool:
    return any(other.loop is not None and other.loop.end == step.name for other in graph.steps.values())


def _entering(step: Step, arc: Arc) -> Arrow:
    return Arrow(step.name, arc.target, f"each {when_in_words(arc.when)}".strip(), "each")


def _arrow(start: str, arc: Arc, moment: Moment) -> Arrow:
    arc_test = arc_condition(arc, moment)
    if arc_test.on_status == "error":
        return Arrow(start, arc.target, f"failed {condition_in_words(arc_test)}".strip(), "failure")
    return Arrow(start, arc.target, condition_in_words(arc_test).removeprefix("when "))
