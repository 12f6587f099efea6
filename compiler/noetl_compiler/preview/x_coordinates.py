"""Assign x coordinates: each node is placed as near to the mean of its neighbours in adjacent rows as possible.

Each node of a row has a preferred x; order and minimum distances within the row are fixed. With the minimum distance to
the first node subtracted, the constraint is that x does not decrease, so the best placement is an isotonic regression
(pool adjacent violators): nodes that would overlap are pooled at the weighted mean of their preferred positions. Rows
are swept alternately down and up. A joint next to a joint has a large weight, which straightens long arrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from noetl_compiler.preview.geometry import GAP, Node, Row

__all__ = ["assign_x_coordinates"]

SWEEPS = 12
JOINT_WEIGHT = 50.0
"""Weight of a joint next to a joint, relative to a box next to a box."""


def assign_x_coordinates(rows: Sequence[Row]) -> None:
    """Set the x and y of every node in place. The first row begins at y = 0."""
    _set_heights(rows)
    for row in rows:
        _place_row(row, [0.0] * len(row), [1.0] * len(row))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            preferences = [_preferred_position(node, node.above if down else node.below) for node in row]
            _place_row(row, [position for position, _ in preferences], [weight for _, weight in preferences])


def _set_heights(rows: Sequence[Row]) -> None:
    y = 0.0
    for row in rows:
        tallest = max((node.box.height for node in row), default=0.0)
        for node in row:
            node.box.y = y
            if node.kind == "joint":
                node.box.height = tallest
        y += tallest + GAP


def _preferred_position(node: Node, neighbours: Sequence[Node]) -> tuple[float, float]:
    """Return the mean x of the neighbours with the largest weight, and that weight; without neighbours, its own x."""
    if not neighbours:
        return node.box.x, 0.1
    weights = [JOINT_WEIGHT if node.kind == other.kind == "joint" else other.weight for other in neighbours]
    largest = max(weights)
    positions = [other.box.x for other, weight in zip(neighbours, weights, strict=True) if weight == largest]
    return sum(positions) / len(positions), max(node.weight, largest)


def _place_row(row: Row, preferred_positions: Sequence[float], weights: Sequence[float]) -> None:
    """Place the nodes of a row as near to their preferred positions as their order and distances allow."""
    if not row:
        return
    offsets = list(accumulate((_distance(left, right) for left, right in pairwise(row)), initial=0.0))
    pools: list[tuple[float, float, int]] = []
    for preferred_position, offset, weight in zip(preferred_positions, offsets, weights, strict=True):
        pools.append((preferred_position - offset, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            pools.append(_pool(pools.pop(), pools.pop()))
    positions = [mean for mean, _, count in pools for _ in range(count)]
    for node, mean, offset in zip(row, positions, offsets, strict=True):
        node.box.x = mean + offset


def _pool(left: tuple[float, float, int], right: tuple[float, float, int]) -> tuple[float, float, int]:
    weight = left[1] + right[1]
    return (left[0] * left[1] + right[0] * right[1]) / weight, weight, left[2] + right[2]


def _distance(left: Node, right: Node) -> float:
    return (left.box.width + right.box.width) / 2 + (GAP / 2 if "joint" in (left.kind, right.kind) else GAP)
