"""Geometry of a diagram: boxes of steps, nodes of rows, curves of arrows. All sizes are in pixels."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.preview.arrows import Arrow

__all__ = ["GAP", "NO_LABEL", "Box", "Curve", "Node", "Point", "Row", "Size", "path_data"]

GAP = 36.0
"""Distance between adjacent boxes, and between adjacent rows."""

Size: TypeAlias = tuple[float, float]
Point: TypeAlias = tuple[float, float]

NO_LABEL: Size = (0.0, 0.0)


class Box(msgspec.Struct, eq=False):
    """The position of a step: x is its horizontal middle, y its top."""

    name: str
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    def ends(self) -> tuple[Point, Point]:
        """Return the midpoints of its top and bottom side."""
        return (self.x, self.y), (self.x, self.y + self.height)


class Node(msgspec.Struct, eq=False):
    """An element of a row: the box of a step or label, or a joint of an arrow that crosses the row.

    ``pull`` is its weight when the positions of its neighbours are averaged.
    """

    box: Box
    row: int
    kind: Literal["step", "label", "joint"] = "step"
    pull: float = 1.0
    above: list[Node] = msgspec.field(default_factory=list["Node"])
    below: list[Node] = msgspec.field(default_factory=list["Node"])
    order: float = 0.0


Row: TypeAlias = list[Node]


class Curve(msgspec.Struct):
    """An arrow with its points, ends included, and the centre of its label.

    ``is_back``: a back edge, drawn upwards on the right in straight lines. ``is_joining``: it ends on the line of
    another arrow to the same step.
    """

    arrow: Arrow
    points: list[Point]
    label: Point | None
    is_back: bool = False
    is_joining: bool = False


RADIUS = 8.0


def path_data(curve: Curve) -> str:
    """Return the SVG path data: curves for forward edges, straight lines with rounded corners for back edges."""
    return _cornered(curve.points) if curve.is_back else _flowing(curve.points)


def _flowing(points: list[Point]) -> str:
    drawn = "M{:g} {:g}".format(*points[0])
    for (x, y), (to, down) in pairwise(points):
        middle = (y + down) / 2
        drawn += f"V{down:g}" if x == to else f"C{x:g} {middle:g} {to:g} {middle:g} {to:g} {down:g}"
    return drawn


def _cornered(points: list[Point]) -> str:
    drawn = "M{:g} {:g}".format(*points[0])
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        (x, y), (to, down) = _near(corner, before), _near(corner, after)
        drawn += f"L{x:g} {y:g}Q{corner[0]:g} {corner[1]:g} {to:g} {down:g}"
    return drawn + "L{:g} {:g}".format(*points[-1])


def _near(corner: Point, other: Point) -> Point:
    """Return the point at which the rounding of a corner begins."""
    (x, y), (to, down) = corner, other
    length = abs(to - x) + abs(down - y)
    share = min(RADIUS, length / 2) / length if length else 0.0
    return x + (to - x) * share, y + (down - y) * share
