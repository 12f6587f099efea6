"""The positions of the aliases of a text.

The nodes of an alias are those of its anchor, so a finding about them is reported once, at the anchor's text. Where
else that text is used is found here, by going through the parser's events once more; this is asked only of a text that
has findings and aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from msgspec.structs import replace

from noetl_compiler.diagnostics import Diagnostic, Related
from noetl_compiler.source import SourceFile, Span

__all__ = ["with_alias_places"]

_ALIAS = re.compile(r"(?:^|[\s\[,{])\*[^\s,\[\]{}*]")
_MOST_TOLD = 3
"""The maximum number of aliases reported with one finding."""


class _Alias(NamedTuple):
    name: str
    span: Span
    anchored: Span


def with_alias_places(source: SourceFile, found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics; those about the text of an anchor list the aliases that repeat it."""
    if not found or "&" not in source.text or not _ALIAS.search(source.text):
        return found
    try:
        aliases = list(_aliases(source))
    except yaml.YAMLError:
        return found
    return tuple(_with_aliases(one, aliases) for one in found)


def _with_aliases(found: Diagnostic, aliases: list[_Alias]) -> Diagnostic:
    using = [one for one in aliases if one.anchored <= found.span and _ends_within(found.span, one.anchored)]
    related = (Related(one.span, f'the alias "*{one.name}" repeats it here') for one in using[:_MOST_TOLD])
    return replace(found, related=(*found.related, *related))


def _ends_within(span: Span, around: Span) -> bool:
    return (span.end_line, span.end_col) <= (around.end_line, around.end_col)


def _aliases(source: SourceFile) -> Iterator[_Alias]:
    """Yield every alias with the place of its anchor's node."""
    anchors: dict[str, Span] = {}
    open_: list[tuple[str | None, int]] = []
    for event in _events(source.text):
        start, end = event.start_mark.index, event.end_mark.index
        match event:
            case yaml.AliasEvent(anchor=name) if name in anchors:
                yield _Alias(str(name), source.span(start, end), anchors[name])
            case yaml.ScalarEvent(anchor=str(name)):
                anchors[name] = source.span(start, end)
            case yaml.CollectionStartEvent():
                open_.append((event.anchor, start))
            case yaml.CollectionEndEvent():
                anchor, begin = open_.pop()
                if anchor:
                    anchors[anchor] = source.span(begin, end)
            case _:
                pass


def _events(text: str) -> Iterator[Any]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()
