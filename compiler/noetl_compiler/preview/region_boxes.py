"""Boxes around the steps of each loop's region, outer loops first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from noetl_compiler.forecasting.counts import loops_around
from noetl_compiler.graph import Graph
from noetl_compiler.preview.geometry import Box

__all__ = ["RegionBox", "region_boxes"]

MARGIN, HEADING = 16.0, 11.0


class RegionBox(NamedTuple):
    """A rectangle with its label, in pixels."""

    label: str
    left: float
    top: float
    width: float
    height: float


def region_boxes(graph: Graph, boxes: Sequence[Box]) -> list[RegionBox]:
    """Return the boxes, except those that would overlap a step outside of the loop."""
    enclosing_loops = loops_around(graph)
    loops = [name for name, step in graph.steps.items() if step.loop and step.loop.region]
    inner_steps = {loop: {name for name, outer in enclosing_loops.items() if loop in outer} for loop in loops}
    return list(
        _boxes(graph, sorted(loops, key=lambda loop: len(enclosing_loops[loop])), inner_steps, boxes, enclosing_loops)
    )


def _boxes(
    graph: Graph,
    loops: Sequence[str],
    inner_steps: Mapping[str, set[str]],
    boxes: Sequence[Box],
    enclosing_loops: Mapping[str, Sequence[str]],
) -> Iterator[RegionBox]:
    deepest = max((len(outer) for outer in enclosing_loops.values()), default=0)
    for name in loops:
        inner_boxes = [box for box in boxes if box.name in inner_steps[name]]
        loop = graph.steps[name].loop
        if not inner_boxes or loop is None:
            continue
        margin = MARGIN * (deepest - len(enclosing_loops[name])) / max(1, deepest)
        left, right = min(_left(box) for box in inner_boxes) - margin, max(_right(box) for box in inner_boxes) + margin
        top, bottom = (
            min(box.y for box in inner_boxes) - margin,
            max(box.y + box.height for box in inner_boxes) + margin,
        )
        region_box = RegionBox(f"each {loop.element}", left, top - HEADING, right - left, bottom - top + HEADING)
        if not any(_overlaps(region_box, box) for box in boxes if box.name not in inner_steps[name]):
            yield region_box


def _left(box: Box) -> float:
    return box.x - box.width / 2


def _right(box: Box) -> float:
    return box.x + box.width / 2


def _overlaps(region_box: RegionBox, box: Box) -> bool:
    is_beside = _right(box) <= region_box.left or _left(box) >= region_box.left + region_box.width
    return not is_beside and box.y < region_box.top + region_box.height and box.y + box.height > region_box.top
