"""Add the positions of aliases to diagnostics.

An alias has the nodes of its anchor, so a problem in them is reported once, at the text of the anchor. This module
finds the aliases that repeat that text, by parsing the document once more. It does so only for a document with
diagnostics and aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from msgspec.structs import replace

from noetl_compiler.diagnostics import Diagnostic, Related
from noetl_compiler.source import SourceFile, Span

__all__ = ["add_alias_locations"]

_ALIAS = re.compile(r"(?:^|[\s\[,{])\*[^\s,\[\]{}*]")
_MAX_REPORTED_ALIASES = 3
"""The number of aliases reported with one diagnostic."""


class _Alias(NamedTuple):
    name: str
    span: Span
    anchor_span: Span


def add_alias_locations(source: SourceFile, diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics; those about the text of an anchor list the aliases that repeat it."""
    if not diagnostics or "&" not in source.text or not _ALIAS.search(source.text):
        return diagnostics
    try:
        aliases = list(_aliases(source))
    except yaml.YAMLError:
        return diagnostics
    return tuple(_add_aliases(diagnostic, aliases) for diagnostic in diagnostics)


def _add_aliases(diagnostic: Diagnostic, aliases: list[_Alias]) -> Diagnostic:
    uses = [alias for alias in aliases if alias.anchor_span.contains(diagnostic.span)]
    related = (
        Related(alias.span, f'the alias "*{alias.name}" repeats it here') for alias in uses[:_MAX_REPORTED_ALIASES]
    )
    return replace(diagnostic, related=(*diagnostic.related, *related))


def _aliases(source: SourceFile) -> Iterator[_Alias]:
    """Yield every alias with the span of the node of its anchor."""
    anchors: dict[str, Span] = {}
    open_collections: list[tuple[str | None, int]] = []
    for event in _events(source.text):
        start, end = event.start_mark.index, event.end_mark.index
        match event:
            case yaml.AliasEvent(anchor=name) if name in anchors:
                yield _Alias(str(name), source.span(start, end), anchors[name])
            case yaml.ScalarEvent(anchor=str(name)):
                anchors[name] = source.span(start, end)
            case yaml.CollectionStartEvent():
                open_collections.append((event.anchor, start))
            case yaml.CollectionEndEvent():
                anchor, start_offset = open_collections.pop()
                if anchor:
                    anchors[anchor] = source.span(start_offset, end)
            case _:
                pass


def _events(text: str) -> Iterator[Any]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()
