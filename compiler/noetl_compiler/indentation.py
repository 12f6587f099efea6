"""Add hints for unknown keys that belong below a key above them, because they are not indented far enough.

    tool:
    kind: http      # unknown in a step, known in a tool

    tool:
      kind: http
    url: http://x   # the same, below a key that is not empty

Of several keys that belong below one key, only the first is reported; its hint lists the others. That the mapping lacks
one of them is not reported either.
"""

from __future__ import annotations

import re
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
_MISSING = re.compile(r'"([^"]+)"')
"""The names of fields in a message about missing ones."""


class _Key(NamedTuple):
    """A key of a mapping. ``is_wrong``: it is unknown there, or a duplicate. ``below`` is the mapping in lines of its
    own that is its value.
    """

    span: Span
    text: str
    is_empty: bool = False
    is_wrong: bool = False
    below: MappingNode | None = None


def with_indentation_hints(diagnostics: Collection[Diagnostic], root: Node | None) -> list[Diagnostic]:
    """Return the diagnostics. Those about misplaced keys get a hint where the keys belong."""
    by_span = {diagnostic.span: diagnostic for diagnostic in diagnostics if diagnostic.code in _CODES}
    hints: dict[Span, str] = {}
    explained_spans: set[Span] = set()
    found_keys: dict[Span, set[str]] = {}
    for mapping in _mappings(root) if by_span and root is not None else ():
        for parent, (first, *others) in _misplaced_keys(_keys(mapping, by_span)).items():
            listed_others = f", along with {_join_names([key.text for key in others])}" if others else ""
            hints[first.span] = f'indent it below "{parent.text}"{listed_others}'
            explained_spans |= {key.span for key in others}
            if parent.below is not None:
                found_keys[parent.below.span] = {first.text, *(key.text for key in others)}
    remaining_diagnostics = (
        diagnostic
        for diagnostic in diagnostics
        if not (diagnostic.code in _CODES and diagnostic.span in explained_spans)
        and not _lacks_one_of(found_keys.get(diagnostic.span, set()), diagnostic)
    )
    return [
        replace(diagnostic, hint=hints.get(diagnostic.span, diagnostic.hint))
        if diagnostic.code in _CODES
        else diagnostic
        for diagnostic in remaining_diagnostics
    ]


def _lacks_one_of(keys: Collection[str], diagnostic: Diagnostic) -> bool:
    """Whether a mapping is said to lack a field, one of these keys."""
    return diagnostic.code is Code.MISSING_FIELD and not set(_MISSING.findall(diagnostic.message)).isdisjoint(keys)


def _keys(mapping: MappingNode, diagnostics: Mapping[Span, Diagnostic]) -> list[_Key]:
    keys = [
        _Key(key.span, key.text, _is_empty(value), key.span in diagnostics, _block_below(key, value))
        for key, value in mapping.entries
    ]
    texts = {key.span: key.text for key in keys}
    duplicates = [
        _Key(span, texts[diagnostic.related[0].span], is_wrong=True)
        for span, diagnostic in diagnostics.items()
        if diagnostic.code is Code.DUPLICATE_KEY and diagnostic.related[0].span in texts
    ]
    return sorted(keys + duplicates, key=lambda key: key.span) if duplicates else keys


def _misplaced_keys(keys: Iterable[_Key]) -> dict[_Key, list[_Key]]:
    """Return key -> the wrong keys after it that belong below it; a duplicate only below an empty key."""
    misplaced_keys: dict[_Key, list[_Key]] = {}
    parents: list[_Key] = []
    texts: set[str] = set()
    previous: _Key | None = None
    for key in keys:
        if not key.is_wrong:
            previous = key if key.is_empty or key.below is not None else None
            parents += [previous] if previous else []
            texts.add(key.text)
        elif (parent := _parent_of(key.text, parents, previous, is_duplicate=key.text in texts)) is not None:
            misplaced_keys.setdefault(parent, []).append(key)
    return misplaced_keys


def _parent_of(key: str, parents: list[_Key], previous: _Key | None, *, is_duplicate: bool) -> _Key | None:
    """Return the nearest key above below which the key is known and has no value yet, preferably an empty one, or else
    the key just above it if that is empty and allows any key.
    """
    from noetl_compiler.schema.keys_below import keys_below  # slow to import, and only needed for mistakes

    knowing = [parent for parent in reversed(parents) if key in keys_below(parent.text).known_keys]
    free = [parent for parent in knowing if parent.below is not None and parent.below.get(key) is None]
    free = [] if is_duplicate else free
    nearest = next((parent for parent in knowing if parent.is_empty), None) or next(iter(free), None)
    return nearest or (previous if previous and previous.is_empty and keys_below(previous.text).is_open else None)


def _block_below(key: ScalarNode, value: Node) -> MappingNode | None:
    """Return the value of a key if it is a mapping that begins in a line of its own."""
    return value if isinstance(value, MappingNode) and value.span.line > key.span.line else None


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
