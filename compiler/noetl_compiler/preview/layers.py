"""Layered layout of a diagram (Sugiyama's method): steps in rows from top to bottom, and the points of their arrows.

1. Back edges, found by a depth-first walk, are set aside. A step's row is its longest distance from the entry.
2. Between two rows of steps is a row of labels, so labels overlap nothing.
3. An arrow has a joint in each row that it crosses. Arrows of one kind to the same step share their joints, so the many
   arrows to the final step become one line.
4. Boxes and joints of a row are sorted by the mean position of their neighbours, sweeping down and up.
5. Coordinates are assigned (x_coordinates.py), and back edges are routed on the right (back_edges.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from noetl_compiler.preview.arrows import Arrow
from noetl_compiler.preview.back_edges import route_back_edges
from noetl_compiler.preview.geometry import NO_LABEL, Box, Curve, Node, Row, Size
from noetl_compiler.preview.x_coordinates import assign_x_coordinates

__all__ = ["lay_out"]

JOINT_WIDTH = 10.0
SWEEPS = 8
NEXT_ROW_WEIGHT = 200.0
"""Weight of an arrow to the next row, relative to a longer arrow."""

_Trunk: TypeAlias = tuple[str, str, int]
"""Target step, kind of arrow, row: identifies the joint shared by all such arrows."""


def lay_out(
    sizes: Mapping[str, Size], arrows: Sequence[Arrow], labels: Sequence[Size]
) -> tuple[list[Box], list[Curve]]:
    """Return a box for each step, in the order of ``sizes``, and a curve for each arrow between two of them.

    ``labels`` has the size of each arrow's label, 0 by 0 for none.
    """
    back_edges = _back_edges(list(sizes), arrows)
    forward = [index for index in range(len(arrows)) if index not in back_edges]
    depths = _depths(list(sizes), [arrows[index] for index in forward])
    nodes = {name: Node(Box(name, *size), 2 * depths[name]) for name, size in sizes.items()}
    trunks: dict[_Trunk, Node] = {}
    chains = [_chain(arrows[index], labels[index], nodes, trunks) for index in forward]
    rows = _rows([*nodes.values(), *dict.fromkeys(node for chain in chains for node in chain[1:-1])])
    _sort(rows)
    assign_x_coordinates(rows)
    curves = [_curve(arrows[index], chain) for index, chain in zip(forward, chains, strict=True)]
    curves += route_back_edges([(arrows[index], labels[index]) for index in sorted(back_edges)], nodes, rows)
    return [node.box for node in nodes.values()], curves


def _back_edges(names: list[str], arrows: Sequence[Arrow]) -> set[int]:
    """Return the indices of the back edges of a depth-first walk in the given order."""
    outgoing: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    for index, arrow in enumerate(arrows):
        outgoing[arrow.start].append((index, arrow.end))
    back_edges: set[int] = set()
    state: dict[str, str] = {}
    for first in names:
        path = [(first, iter(outgoing[first]))] if first not in state else []
        state.setdefault(first, "open")
        while path:
            name, edges = path[-1]
            index, end = next(edges, (-1, ""))
            if index < 0:
                state[name] = "done"
                path.pop()
            elif state.get(end) == "open":
                back_edges.add(index)
            elif end not in state:
                state[end] = "open"
                path.append((end, iter(outgoing[end])))
    return back_edges


def _depths(names: list[str], forward: Sequence[Arrow]) -> dict[str, int]:
    """Return the length of the longest path to each step, visiting steps in topological order."""
    depths = dict.fromkeys(names, 0)
    unvisited_counts = dict.fromkeys(names, 0)
    outgoing: dict[str, list[str]] = {name: [] for name in names}
    for arrow in forward:
        unvisited_counts[arrow.end] += 1
        outgoing[arrow.start].append(arrow.end)
    ready = [name for name in names if not unvisited_counts[name]]
    for name in ready:
        for end in outgoing[name]:
            depths[end] = max(depths[end], depths[name] + 1)
            unvisited_counts[end] -= 1
            ready += [end] if not unvisited_counts[end] else []
    return depths


def _chain(arrow: Arrow, label: Size, nodes: Mapping[str, Node], trunks: dict[_Trunk, Node]) -> list[Node]:
    """Return the nodes along an arrow: its start, its label, its joints up to the first shared one, or its end."""
    start, end = nodes[arrow.start], nodes[arrow.end]
    chain, weight = [start], NEXT_ROW_WEIGHT if end.row == start.row + 2 else 1.0
    if label != NO_LABEL:
        chain.append(Node(Box("", *label), start.row + 1, "label", weight))
    chain += _joints(arrow, start.row + len(chain), end, weight, trunks)
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _joints(arrow: Arrow, first: int, end: Node, weight: float, trunks: dict[_Trunk, Node]) -> Iterator[Node]:
    """Yield new joints, then the first existing joint, or the end if there is none."""
    for row in range(first, end.row):
        trunk = (arrow.end, arrow.kind, row)
        if trunk in trunks:
            yield trunks[trunk]
            return
        trunks[trunk] = Node(Box("", JOINT_WIDTH, 0.0), row, "joint", weight)
        yield trunks[trunk]
    yield end


def _rows(nodes: list[Node]) -> list[Row]:
    rows: list[Row] = [[] for _ in range(1 + max(node.row for node in nodes))]
    for node in nodes:
        rows[node.row].append(node)
    for row in rows:
        for index, node in enumerate(row):
            node.order = float(index)
    return rows


def _sort(rows: list[Row]) -> None:
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            means = {node: _mean(node.above if down else node.below, node.order) for node in row}
            row.sort(key=means.__getitem__)
            for index, node in enumerate(row):
                node.order = float(index)


def _mean(neighbours: list[Node], default: float) -> float:
    return sum(node.order for node in neighbours) / len(neighbours) if neighbours else default


def _curve(arrow: Arrow, chain: list[Node]) -> Curve:
    start, last = chain[0].box, chain[-1]
    joints = [point for node in chain[1:-1] for point in node.box.ends()]
    label = next(((node.box.x, node.box.y + node.box.height / 2) for node in chain if node.kind == "label"), None)
    points = [(start.x, start.y + start.height), *joints, (last.box.x, last.box.y)]
    return Curve(arrow, points, label, is_joining=last.kind == "joint")
