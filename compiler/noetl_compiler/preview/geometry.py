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

    ``weight`` is that of its position in an average.
    """

    box: Box
    row: int
    kind: Literal["step", "label", "joint"] = "step"
    weight: float = 1.0
    above: list[Node] = msgspec.field(default_factory=list["Node"])
    below: list[Node] = msgspec.field(default_factory=list["Node"])
    order: float = 0.0


Row: TypeAlias = list[Node]


class Curve(msgspec.Struct):
    """An arrow with its points, ends included, and the centre of its label.

    ``is_back``: it is a back edge, drawn upwards on the right in straight lines. ``is_joining``: it ends on the line of
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
    return _cornered_path(curve.points) if curve.is_back else _curved_path(curve.points)


def _curved_path(points: list[Point]) -> str:
    path = "M{:g} {:g}".format(*points[0])
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        path += f"V{y2:g}" if x1 == x2 else f"C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
    return path


def _cornered_path(points: list[Point]) -> str:
    path = "M{:g} {:g}".format(*points[0])
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        (x1, y1), (x2, y2) = _near(corner, before), _near(corner, after)
        path += f"L{x1:g} {y1:g}Q{corner[0]:g} {corner[1]:g} {x2:g} {y2:g}"
    return path + "L{:g} {:g}".format(*points[-1])


def _near(corner: Point, other: Point) -> Point:
    """Return the point at which the rounding of a corner begins."""
    (x1, y1), (x2, y2) = corner, other
    length = abs(x2 - x1) + abs(y2 - y1)
    fraction = min(RADIUS, length / 2) / length if length else 0.0
    return x1 + (x2 - x1) * fraction, y1 + (y2 - y1) * fraction
