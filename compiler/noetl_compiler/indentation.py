"""Unknown keys that belong below the empty key above them: their lines are not indented far enough.

    tool:
    kind: http      # unknown in a step, known in a tool

The finding stays where it is and gets a hint. Of several keys below one empty key the first is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.source import Span

__all__ = ["with_indentation_hints"]


_MOST_LISTED = 4
_CODES = frozenset({Code.UNKNOWN_KEY, Code.DUPLICATE_KEY})


class _Key(NamedTuple):
    """A key in the order of the text. ``is_wrong``: unknown there, or there for the second time."""

    span: Span
    text: str
    is_empty: bool = False
    is_wrong: bool = False


def with_indentation_hints(found: Collection[Diagnostic], root: Node | None) -> list[Diagnostic]:
    """Return the diagnostics, those about unknown and duplicate keys with a hint where the keys belong."""
    wrong = {one.span: one for one in found if one.code in _CODES}
    hints: dict[Span, str] = {}
    also: set[Span] = set()
    for mapping in _mappings(root) if wrong and root is not None else ():
        for above, (first, *others) in _misplaced(_keys(mapping, wrong)).items():
            beside = f", along with {_listed([key.text for key in others])}" if others else ""
            hints[first.span] = f'indent it below "{above}"{beside}'
            also |= {key.span for key in others}
    unexplained = (one for one in found if one.code not in _CODES or one.span not in also)
    return [replace(one, hint=hints.get(one.span, one.hint)) if one.code in _CODES else one for one in unexplained]


def _keys(mapping: MappingNode, wrong: Mapping[Span, Diagnostic]) -> list[_Key]:
    keys = [_Key(key.span, key.text, _is_empty(value), key.span in wrong) for key, value in mapping.entries]
    first = {key.span: key.text for key in keys}
    again = [
        _Key(span, first[one.related[0].span], is_wrong=True)
        for span, one in wrong.items()
        if one.code is Code.DUPLICATE_KEY and one.related[0].span in first
    ]
    return sorted(keys + again) if again else keys


def _misplaced(keys: Iterable[_Key]) -> dict[str, list[_Key]]:
    """Empty key -> the wrong keys after it that belong below it."""
    found: dict[str, list[_Key]] = {}
    empty: list[str] = []
    previous = ""
    for key in keys:
        if not key.is_wrong:
            previous = key.text if key.is_empty else ""
            empty += [previous] if previous else []
        elif (above := _owner(key.text, empty, previous)) is not None:
            found.setdefault(above, []).append(key)
    return found


def _owner(key: str, empty: list[str], previous: str) -> str | None:
    """Return the nearest empty key below which the key is known, else the one just above it that takes any name."""
    from noetl_compiler.schema.keys_below import keys_below  # slow to import, and only a mistake needs it

    known = next((above for above in reversed(empty) if key in keys_below(above).known), None)
    return known or (previous if previous and keys_below(previous).is_open else None)


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None and not node.text


def _mappings(node: Node) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        yield node
        for _, item in node.entries:
            yield from _mappings(item)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _mappings(item)


def _listed(names: Sequence[str]) -> str:
    quoted = [f'"{name}"' for name in names[:_MOST_LISTED]]
    more = [f"{len(names) - len(quoted)} more"] if len(names) > len(quoted) else []
    *others, last = quoted + more
    return f"{', '.join(others)} and {last}" if others else last
