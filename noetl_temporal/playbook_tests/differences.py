"""Compares expected values with actual ones.

In expected values ``...`` matches anything: as a value, as the last item of a list for all further ones, as a key
for all other keys, in a string for any part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias, cast

from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.source import Span

__all__ = ["ABSENT", "ANYTHING", "Difference", "differences", "is_match", "span_at"]

ANYTHING = "..."

Path: TypeAlias = tuple[str | int, ...]
"""The path of a value: keys and indices."""


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()
"""Stands for a missing value on either side."""


class Difference(NamedTuple):
    """The value at ``path`` is another one."""

    path: Path
    expected: Any
    actual: Any


def is_match(expected: Any, actual: Any) -> bool:
    """Whether a value matches the expected one."""
    return next(differences(expected, actual), None) is None


def differences(expected: Any, actual: Any, path: Path = ()) -> Iterator[Difference]:
    """Yield all differences, as deep as possible, in the order of the expected value."""
    if isinstance(expected, str) and ANYTHING in expected:
        if not _matches_pattern(expected, actual):
            yield Difference(path, expected, actual)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from _mapping_differences(cast("dict[str, Any]", expected), cast("dict[str, Any]", actual), path)
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from _list_differences(cast("list[Any]", expected), cast("list[Any]", actual), path)
    elif isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        yield Difference(path, expected, actual)


def _matches_pattern(expected: str, actual: Any) -> bool:
    if expected == ANYTHING:
        return actual is not ABSENT
    pattern = ".*".join(map(re.escape, expected.split(ANYTHING)))
    return isinstance(actual, str) and re.fullmatch(pattern, actual, re.DOTALL) is not None


def _mapping_differences(expected: dict[str, Any], actual: dict[str, Any], path: Path) -> Iterator[Difference]:
    for key, value in expected.items():
        if key != ANYTHING:
            yield from differences(value, actual.get(key, ABSENT), (*path, key))
    if ANYTHING not in expected:
        for key in actual:
            if key not in expected:
                yield Difference((*path, key), ABSENT, actual[key])


def _list_differences(expected: list[Any], actual: list[Any], path: Path) -> Iterator[Difference]:
    if expected[-1:] == [ANYTHING]:
        expected = expected[:-1]
        actual = actual[: len(expected)]
    for index in range(max(len(expected), len(actual))):
        item = expected[index] if index < len(expected) else ABSENT
        other = actual[index] if index < len(actual) else ABSENT
        if item is ABSENT:
            yield Difference((*path, index), ABSENT, other)
        else:
            yield from differences(item, other, (*path, index))


def span_at(node: Node, path: Path) -> Span:
    """Return the span of a value, or of the mapping or list that lacks it."""
    for part in path:
        nearest: Node | None = None
        if isinstance(node, MappingNode):
            nearest = node.get(str(part))
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
            nearest = node.items[part]
        if nearest is None:
            break
        node = nearest
    return node.span
