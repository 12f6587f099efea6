"""Add hints for unknown keys that belong below the empty key above them, because they are not indented far enough.

    tool:
    kind: http      # unknown in a step, known in a tool

Of several keys that belong below one empty key, only the first is reported; its hint lists the others.
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


_MAX_LISTED = 4
_CODES = frozenset({Code.UNKNOWN_KEY, Code.DUPLICATE_KEY})


class _Key(NamedTuple):
    """A key of a mapping. ``is_wrong``: it is unknown there, or a duplicate."""

    span: Span
    text: str
    is_empty: bool = False
    is_wrong: bool = False


def with_indentation_hints(diagnostics: Collection[Diagnostic], root: Node | None) -> list[Diagnostic]:
    """Return the diagnostics. Those about misplaced keys get a hint where the keys belong."""
    by_span = {diagnostic.span: diagnostic for diagnostic in diagnostics if diagnostic.code in _CODES}
    hints: dict[Span, str] = {}
    explained_spans: set[Span] = set()
    for mapping in _mappings(root) if by_span and root is not None else ():
        for empty_key, (first, *others) in _misplaced_keys(_keys(mapping, by_span)).items():
            listed_others = f", along with {_join_names([key.text for key in others])}" if others else ""
            hints[first.span] = f'indent it below "{empty_key}"{listed_others}'
            explained_spans |= {key.span for key in others}
    remaining_diagnostics = (
        diagnostic
        for diagnostic in diagnostics
        if diagnostic.code not in _CODES or diagnostic.span not in explained_spans
    )
    return [
        replace(diagnostic, hint=hints.get(diagnostic.span, diagnostic.hint))
        if diagnostic.code in _CODES
        else diagnostic
        for diagnostic in remaining_diagnostics
    ]


def _keys(mapping: MappingNode, diagnostics: Mapping[Span, Diagnostic]) -> list[_Key]:
    keys = [_Key(key.span, key.text, _is_empty(value), key.span in diagnostics) for key, value in mapping.entries]
    texts = {key.span: key.text for key in keys}
    duplicates = [
        _Key(span, texts[diagnostic.related[0].span], is_wrong=True)
        for span, diagnostic in diagnostics.items()
        if diagnostic.code is Code.DUPLICATE_KEY and diagnostic.related[0].span in texts
    ]
    return sorted(keys + duplicates) if duplicates else keys


def _misplaced_keys(keys: Iterable[_Key]) -> dict[str, list[_Key]]:
    """Return empty key -> the wrong keys after it that belong below it."""
    misplaced_keys: dict[str, list[_Key]] = {}
    empty_keys: list[str] = []
    previous = ""
    for key in keys:
        if not key.is_wrong:
            previous = key.text if key.is_empty else ""
            empty_keys += [previous] if previous else []
        elif (empty_key := _key_above(key.text, empty_keys, previous)) is not None:
            misplaced_keys.setdefault(empty_key, []).append(key)
    return misplaced_keys


def _key_above(key: str, empty_keys: list[str], previous: str) -> str | None:
    """Return the nearest empty key below which the key is known, or else the key just above it if it allows any key."""
    from noetl_compiler.schema.keys_below import keys_below  # slow to import, and only needed for mistakes

    nearest = next((empty_key for empty_key in reversed(empty_keys) if key in keys_below(empty_key).known_keys), None)
    return nearest or (previous if previous and keys_below(previous).is_open else None)


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


def _join_names(names: Sequence[str]) -> str:
    quoted_names = [f'"{name}"' for name in names[:_MAX_LISTED]]
    remainder = [f"{len(names) - len(quoted_names)} more"] if len(names) > len(quoted_names) else []
    *others, last = quoted_names + remainder
    return f"{', '.join(others)} and {last}" if others else last
