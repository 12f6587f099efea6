"""Where the boxes of a picture stand: steps in rows from top to bottom, and the points their arrows pass.

How it works, after Sugiyama. An arrow that leads back to a step being walked is set aside, and a step's row is its
longest way from the entry. Between two rows of steps lies a row of labels, so that a label has a place of its own. An
arrow passes a joint in each row between its ends; arrows of one kind to the same step share their joints, so many that
lead to the end become one line. Within a row, boxes and joints are sorted by the mean place of their neighbours,
sweeping down and up (this file), then set side by side as straight above each other as their widths allow
(x_coordinates.py). Arrows that lead back are drawn around the right side, each on a lane of its own (back_edges.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from noetl_compiler.preview.arrows import Arrow
from noetl_compiler.preview.back_edges import around
from noetl_compiler.preview.geometry import NO_LABEL, Box, Curve, Node, Row, Size
from noetl_compiler.preview.x_coordinates import spread

__all__ = ["place"]

JOINT = 10.0
SWEEPS = 8
NEXT = 200.0
"""How much more an arrow to the next row pulls than one that leads further."""

_Trunk: TypeAlias = tuple[str, str, int]
"""The joint in a row of all arrows of one kind to one step."""


def place(sizes: Mapping[str, Size], arrows: Sequence[Arrow], labels: Sequence[Size]) -> tuple[list[Box], list[Curve]]:
    """The boxes in the order of ``sizes``, and a curve for each arrow between two of them. ``labels`` are the sizes of
    the arrows' labels, 0 by 0 without one.
    """
    back = _leading_back(list(sizes), arrows)
    forward = [index for index in range(len(arrows)) if index not in back]
    depths = _depths(list(sizes), [arrows[index] for index in forward])
    nodes = {name: Node(Box(name, *size), 2 * depths[name]) for name, size in sizes.items()}
    trunks: dict[_Trunk, Node] = {}
    chains = [_chain(arrows[index], labels[index], nodes, trunks) for index in forward]
    rows = _rows([*nodes.values(), *dict.fromkeys(node for chain in chains for node in chain[1:-1])])
    _sort(rows)
    spread(rows)
    curves = [_curve(arrows[index], chain) for index, chain in zip(forward, chains, strict=True)]
    curves += around([(arrows[index], labels[index]) for index in sorted(back)], nodes, rows)
    return [node.box for node in nodes.values()], curves


def _leading_back(names: list[str], arrows: Sequence[Arrow]) -> set[int]:
    """The indices of the arrows that close a cycle, walking depth first in the given order."""
    leaving: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    for index, arrow in enumerate(arrows):
        leaving[arrow.start].append((index, arrow.end))
    back: set[int] = set()
    state: dict[str, str] = {}
    for first in names:
        path = [(first, iter(leaving[first]))] if first not in state else []
        state.setdefault(first, "open")
        while path:
            name, ways = path[-1]
            index, end = next(ways, (-1, ""))
            if index < 0:
                state[name] = "done"
                path.pop()
            elif state.get(end) == "open":
                back.add(index)
            elif end not in state:
                state[end] = "open"
                path.append((end, iter(leaving[end])))
    return back


def _depths(names: list[str], forward: Sequence[Arrow]) -> dict[str, int]:
    """The longest way to each step; there are no cycles left, so each is taken when all that lead to it were."""
    depths = dict.fromkeys(names, 0)
    missing = dict.fromkeys(names, 0)
    leaving: dict[str, list[str]] = {name: [] for name in names}
    for arrow in forward:
        missing[arrow.end] += 1
        leaving[arrow.start].append(arrow.end)
    ready = [name for name in names if not missing[name]]
    for name in ready:
        for end in leaving[name]:
            depths[end] = max(depths[end], depths[name] + 1)
            missing[end] -= 1
            ready += [end] if not missing[end] else []
    return depths


def _chain(arrow: Arrow, label: Size, nodes: Mapping[str, Node], trunks: dict[_Trunk, Node]) -> list[Node]:
    """The nodes that an arrow passes, its label as the first between its ends; it is over where it meets a trunk."""
    start, end = nodes[arrow.start], nodes[arrow.end]
    chain, pull = [start], NEXT if end.row == start.row + 2 else 1.0
    if label != NO_LABEL:
        chain.append(Node(Box("", *label), start.row + 1, "label", pull))
    chain += _joints(arrow, start.row + len(chain), end, pull, trunks)
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _joints(arrow: Arrow, first: int, end: Node, pull: float, trunks: dict[_Trunk, Node]) -> Iterator[Node]:
    """New joints as far as the first that is there already, which leads on, or the end."""
    for row in range(first, end.row):
        trunk = (arrow.end, arrow.kind, row)
        if trunk in trunks:
            yield trunks[trunk]
            return
        trunks[trunk] = Node(Box("", JOINT, 0.0), row, "joint", pull)
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
            wanted = {node: _mean(node.above if down else node.below, node.order) for node in row}
            row.sort(key=wanted.__getitem__)
            for index, node in enumerate(row):
                node.order = float(index)


def _mean(neighbours: list[Node], otherwise: float) -> float:
    return sum(node.order for node in neighbours) / len(neighbours) if neighbours else otherwise


def _curve(arrow: Arrow, chain: list[Node]) -> Curve:
    start, last = chain[0].box, chain[-1]
    joints = [point for node in chain[1:-1] for point in node.box.ends()]
    label = next(((node.box.x, node.box.y + node.box.height / 2) for node in chain if node.kind == "label"), None)
    points = [(start.x, start.y + start.height), *joints, (last.box.x, last.box.y)]
    return Curve(arrow, points, label, is_joining=last.kind == "joint")
