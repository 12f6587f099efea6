"""The lines of a picture's arrows as SVG path data."""

from __future__ import annotations

from itertools import pairwise

from noetl_compiler.preview.geometry import Curve, Point

__all__ = ["path_data"]

RADIUS = 8.0


def path_data(curve: Curve) -> str:
    """Down from point to point in curves; back in straight lines with round corners."""
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
    """The point before a corner where its curve begins."""
    (x, y), (to, down) = corner, other
    length = abs(to - x) + abs(down - y)
    share = min(RADIUS, length / 2) / length if length else 0.0
    return x + (to - x) * share, y + (down - y) * share
