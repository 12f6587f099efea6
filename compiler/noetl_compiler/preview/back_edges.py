"""Curves of back edges: each runs in its own lane to the right of the rows between its ends.

A back edge leaves a box on the right, or at the bottom if another box is to the right, and enters in the same manner.
Shorter edges are routed first, so longer ones run outside them and their labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from noetl_compiler.preview.arrows import Arrow
from noetl_compiler.preview.geometry import GAP, Curve, Node, Point, Row, Size

__all__ = ["route_back_edges"]

LANE_WIDTH = 18.0
_EMPTY_EXTENT: Point = (math.inf, -math.inf)
"""The top and bottom of a row without nodes, which is beside nothing."""
_SIDE_OFFSET = 0.3
"""Offset of a back edge from the middle of a side, as a fraction of the box's width or height."""


class _Lane(msgspec.Struct):
    """The rows that a lane spans, and the x coordinate (px) of its label's right end."""

    first: int
    last: int
    right: float


def route_back_edges(
    arrows: Sequence[tuple[Arrow, Size]], nodes: Mapping[str, Node], rows: Sequence[Row]
) -> list[Curve]:
    """Return a curve for each pair of an arrow and the size of its label."""
    right_sides = [max((node.box.x + node.box.width / 2 for node in row), default=0.0) for row in rows]
    extents = [
        (row[0].box.y, max(node.box.y + node.box.height for node in row)) if row else _EMPTY_EXTENT for row in rows
    ]
    lanes: list[_Lane] = []
    curves: list[Curve] = []
    for arrow, (width, height) in sorted(arrows, key=lambda pair: nodes[pair[0].start].row - nodes[pair[0].end].row):
        start, end = nodes[arrow.start], nodes[arrow.end]
        middle = (_exit_points(start, rows, 0.0)[-1][1] + _entry_points(end, rows, 0.0)[0][1]) / 2
        first, last = _rows_beside(extents, end.row - 1, start.row + 1, middle - height / 2, middle + height / 2)
        lane_ends = [lane.right for lane in lanes if lane.first <= last and lane.last >= first]
        x = max([*right_sides[first : last + 1], *lane_ends]) + LANE_WIDTH
        lanes.append(_Lane(first, last, x + width))
        points = [*_exit_points(start, rows, x), *_entry_points(end, rows, x)]
        curves.append(Curve(arrow, points, (x + width / 2, middle) if width else None, is_back=True))
    return curves


def _rows_beside(extents: Sequence[Point], first: int, last: int, top: float, bottom: float) -> tuple[int, int]:
    """Return the first and last row that an arrow and its label span."""
    beside = [index for index, (y, end) in enumerate(extents) if y <= bottom and end >= top]
    return max(0, min([first, *beside])), min(len(extents) - 1, max([last, *beside]))


def _exit_points(start: Node, rows: Sequence[Row], x: float) -> list[Point]:
    box = start.box
    if not _is_beside_another(start, rows):
        y = box.y + box.height * (0.5 + _SIDE_OFFSET)
        return [(box.x + box.width / 2, y), (x, y)]
    bottom = max(other.box.y + other.box.height for other in rows[start.row])
    side, y = box.x + box.width * _SIDE_OFFSET, bottom + GAP / 3
    return [(side, box.y + box.height), (side, y), (x, y)]


def _entry_points(end: Node, rows: Sequence[Row], x: float) -> list[Point]:
    box = end.box
    if not _is_beside_another(end, rows):
        y = box.y + box.height * (0.5 - _SIDE_OFFSET)
        return [(x, y), (box.x + box.width / 2, y)]
    side, y = box.x + box.width * _SIDE_OFFSET, box.y - GAP / 3
    return [(x, y), (side, y), (side, box.y)]


def _is_beside_another(node: Node, rows: Sequence[Row]) -> bool:
    return any(other.box.x > node.box.x for other in rows[node.row])
