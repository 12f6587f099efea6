"""Where the boxes of a picture stand: steps in layers from top to bottom, and the points their arrows pass.

How it works, after Sugiyama: an arrow that leads back to a step being walked is set aside; a step's layer is its
longest way from the entry; an arrow over several layers gets a joint in each it passes; within a layer, boxes and
joints are sorted by the mean place of their neighbours, sweeping down and up; then each layer is set side by side and
centred. Arrows that lead back are drawn around the right side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from noetl_compiler.preview.arrows import Arrow

__all__ = ["Box", "Route", "Size", "place"]

GAP = 36.0
LAYER_GAP = 64.0
JOINT = 12.0
SWEEPS = 8

Size = tuple[float, float]
Point = tuple[float, float]


@dataclass(slots=True)
class Box:
    """A step's place: the middle of its top edge, and its size. All in pixels."""

    name: str
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


@dataclass(slots=True)
class Route:
    """An arrow with the points it passes, its ends included. ``back``: it leads upwards, around the right side."""

    arrow: Arrow
    points: list[Point]
    back: bool = False


@dataclass(slots=True)
class _Node:
    """A box, or a joint of a long arrow, which has no name."""

    box: Box
    layer: int
    above: list[_Node] = field(default_factory=list["_Node"])
    below: list[_Node] = field(default_factory=list["_Node"])
    order: float = 0.0


def place(sizes: dict[str, Size], arrows: Sequence[Arrow]) -> tuple[list[Box], list[Route]]:
    """The boxes in the order of ``sizes``, and a route for each arrow between two of them."""
    back = _leading_back(list(sizes), arrows)
    forward = [arrow for index, arrow in enumerate(arrows) if index not in back]
    layers = _layers(list(sizes), forward)
    nodes = {name: _Node(Box(name, *size), layers[name]) for name, size in sizes.items()}
    chains = [_chain(nodes, arrow) for arrow in forward]
    rows = _rows([*nodes.values(), *(joint for chain in chains for joint in chain[1:-1])])
    _sort(rows)
    _spread(rows)
    routes = [_route(arrow, chain) for arrow, chain in zip(forward, chains, strict=True)]
    routes += [_around(arrows[index], nodes) for index in sorted(back)]
    return [node.box for node in nodes.values()], routes


def _leading_back(names: list[str], arrows: Sequence[Arrow]) -> set[int]:
    """The indices of the arrows that close a circle, walking depth first in the given order."""
    leaving: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    for index, arrow in enumerate(arrows):
        leaving[arrow.start].append((index, arrow.end))
    back: set[int] = set()
    state: dict[str, str] = {}
    for first in names:
        if first in state:
            continue
        state[first] = "open"
        path = [(first, iter(leaving[first]))]
        while path:
            name, ways = path[-1]
            step = next(ways, None)
            if step is None:
                state[name] = "done"
                path.pop()
            elif state.get(step[1]) == "open":
                back.add(step[0])
            elif step[1] not in state:
                state[step[1]] = "open"
                path.append((step[1], iter(leaving[step[1]])))
    return back


def _layers(names: list[str], forward: Sequence[Arrow]) -> dict[str, int]:
    """The longest way to each step; there are no circles left, so as many rounds as steps suffice."""
    layers = dict.fromkeys(names, 0)
    for _ in names:
        moved = False
        for arrow in forward:
            if layers[arrow.end] <= layers[arrow.start]:
                layers[arrow.end] = layers[arrow.start] + 1
                moved = True
        if not moved:
            break
    return layers


def _chain(nodes: dict[str, _Node], arrow: Arrow) -> list[_Node]:
    start, end = nodes[arrow.start], nodes[arrow.end]
    joints = [_Node(Box("", JOINT, 0.0), layer) for layer in range(start.layer + 1, end.layer)]
    chain = [start, *joints, end]
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _rows(nodes: list[_Node]) -> list[list[_Node]]:
    rows: list[list[_Node]] = [[] for _ in range(1 + max(node.layer for node in nodes))]
    for node in nodes:
        rows[node.layer].append(node)
    for row in rows:
        for index, node in enumerate(row):
            node.order = float(index)
    return rows


def _sort(rows: list[list[_Node]]) -> None:
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = {id(node): _mean(node.above if down else node.below, node.order) for node in row}
            row.sort(key=lambda node: wanted[id(node)])
            for index, node in enumerate(row):
                node.order = float(index)


def _mean(neighbours: list[_Node], otherwise: float) -> float:
    return sum(node.order for node in neighbours) / len(neighbours) if neighbours else otherwise


def _spread(rows: list[list[_Node]]) -> None:
    """Set each row side by side, its middle at x = 0, below the row before; joints lead straight past its boxes."""
    y = 0.0
    for row in rows:
        x = -(sum(node.box.width for node in row) + GAP * (len(row) - 1)) / 2
        for node in row:
            node.box.x, node.box.y = x + node.box.width / 2, y
            x += node.box.width + GAP
        tallest = max(node.box.height for node in row)
        for joint in (node for node in row if not node.box.name):
            joint.box.height = tallest
        y += tallest + LAYER_GAP


def _route(arrow: Arrow, chain: list[_Node]) -> Route:
    start, end = chain[0].box, chain[-1].box
    joints = [point for node in chain[1:-1] for point in _ends(node.box)]
    return Route(arrow, [(start.x, start.y + start.height), *joints, (end.x, end.y)])


def _ends(box: Box) -> tuple[Point, Point]:
    return (box.x, box.y), (box.x, box.y + box.height)


def _around(arrow: Arrow, nodes: dict[str, _Node]) -> Route:
    start, end = nodes[arrow.start].box, nodes[arrow.end].box
    right = max(box.x + box.width / 2 for box in (start, end)) + GAP
    leaves = (start.x + start.width / 2, start.y + start.height / 2)
    enters = (end.x + end.width / 2, end.y + end.height / 2)
    return Route(arrow, [leaves, (right, leaves[1]), (right, enters[1]), enters], back=True)
