"""Rows of boxes set side by side, each box as near as can be to the middle of those it is joined with.

A row wants each of its nodes at a certain place, but they keep their order and their distance. Measured from its
distance to the first, a node may only not lie left of the one before it, so the nearest allowed places are an isotonic
regression: neighbours that would overlap are pooled, and the pool takes the mean of what they want. Rows are set so,
downwards and upwards in turn; a joint that continues a joint pulls more than a box, so long arrows become straight.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from noetl_compiler.preview.geometry import GAP, Node, Row

__all__ = ["spread"]

SWEEPS = 12
STRAIGHT = 50.0
"""How much more a joint wants to stand below another than a box below a box."""


def spread(rows: Sequence[Row]) -> None:
    """Give every node its place. The first row begins at y = 0."""
    _set_heights(rows)
    for row in rows:
        _settle(row, [0.0] * len(row), [1.0] * len(row))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            pulls = [_pull(node, node.above if down else node.below) for node in row]
            _settle(row, [place for place, _ in pulls], [weight for _, weight in pulls])


def _set_heights(rows: Sequence[Row]) -> None:
    y = 0.0
    for row in rows:
        tallest = max((node.box.height for node in row), default=0.0)
        for node in row:
            node.box.y = y
            if node.kind == "joint":
                node.box.height = tallest
        y += tallest + GAP


def _pull(node: Node, neighbours: Sequence[Node]) -> tuple[float, float]:
    """Where those neighbours want a node that pull most, and how much; it stays where it is without any."""
    if not neighbours:
        return node.box.x, 0.1
    pulls = [STRAIGHT if node.kind == other.kind == "joint" else other.pull for other in neighbours]
    strongest = max(pulls)
    places = [other.box.x for other, pull in zip(neighbours, pulls, strict=True) if pull == strongest]
    return sum(places) / len(places), max(node.pull, strongest)


def _settle(row: Row, wanted: Sequence[float], weights: Sequence[float]) -> None:
    """Set the nodes of a row as near to the wanted places as their order and distance allow."""
    if not row:
        return
    offsets = list(accumulate((_distance(left, right) for left, right in pairwise(row)), initial=0.0))
    pools: list[tuple[float, float, int]] = []
    for place, offset, weight in zip(wanted, offsets, weights, strict=True):
        pools.append((place - offset, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            pools.append(_pooled(pools.pop(), pools.pop()))
    places = [mean for mean, _, count in pools for _ in range(count)]
    for node, mean, offset in zip(row, places, offsets, strict=True):
        node.box.x = mean + offset


def _pooled(one: tuple[float, float, int], other: tuple[float, float, int]) -> tuple[float, float, int]:
    weight = one[1] + other[1]
    return (one[0] * one[1] + other[0] * other[1]) / weight, weight, one[2] + other[2]


def _distance(left: Node, right: Node) -> float:
    return (left.box.width + right.box.width) / 2 + (GAP / 2 if "joint" in (left.kind, right.kind) else GAP)
