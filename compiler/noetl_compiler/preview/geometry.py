"""What a picture is laid out from: boxes, the nodes of its rows, the curves of its arrows. All sizes are in pixels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from noetl_compiler.preview.arrows import Arrow

__all__ = ["GAP", "LABEL_HEIGHT", "Box", "Curve", "Node", "Point", "Row", "Size"]

GAP = 36.0
"""Between boxes side by side, and between a row and the next."""
LABEL_HEIGHT = 16.0

Size: TypeAlias = tuple[float, float]
Point: TypeAlias = tuple[float, float]


@dataclass(slots=True, eq=False)
class Box:
    """A step's place: the middle of its top edge, and its size."""

    name: str
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    def ends(self) -> tuple[Point, Point]:
        """The middle of its top edge and of its bottom edge."""
        return (self.x, self.y), (self.x, self.y + self.height)


@dataclass(slots=True, eq=False)
class Node:
    """A box in its row, of a step or a label, or a joint that arrows pass. ``pull`` is what it draws others with."""

    box: Box
    row: int
    kind: Literal["step", "label", "joint"] = "step"
    pull: float = 1.0
    above: list[Node] = field(default_factory=list["Node"])
    below: list[Node] = field(default_factory=list["Node"])
    order: float = 0.0


Row: TypeAlias = list[Node]


@dataclass(slots=True)
class Curve:
    """An arrow with the points it passes, its ends included, and the middle of its label.

    ``is_back``: it leads upwards, around the right side, in straight lines. ``is_joining``: it ends on the line of
    another arrow to the same step.
    """

    arrow: Arrow
    points: list[Point]
    label: Point | None
    is_back: bool = False
    is_joining: bool = False
