"""Writes nodes as YAML text.

PyYAML's emitter decides when a string needs quotes. Lists are indented, strings of several lines are block scalars,
quotes are double if that needs no escapes, and lines are not folded. The original style is kept where possible:
collections on one line, the kind of quotes, and folded strings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from types import MappingProxyType
from typing import Any

import yaml
from msgspec.structs import replace
from yaml.emitter import Emitter

from noetl_compiler.graph import Json
from noetl_compiler.migration.source_lookup import NO_SPAN
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalars import ScalarError, is_plain_text, resolve, scalar_text
from noetl_compiler.source import ScalarStyle, SourceFile, Span

__all__ = ["write"]

_MAX_SHORT_CHARS = 80
_FOLD_AT = 100
_FOLDABLE = re.compile(r"\S+(?: \S+)*\n?")
_QUOTES: Mapping[ScalarStyle | None, str] = MappingProxyType({"single": "'", "double": '"'})

_NOT_IN_A_BLOCK = re.compile("[^\n\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_BREAK = re.compile("[\n\x85\u2028\u2029]")
"""Line breaks, which are folded in single quotes."""
_BLOCK = re.compile(r"\n* *[^ \n\t]")
"""Strings that can be block scalars: a first line that begins with a tab would be read as wrong indentation."""


def write(document: MappingNode, source: SourceFile, root: Node | None = None) -> str:
    """Return the text of a document, without comments. Its spans refer to ``source``, which was parsed to ``root``."""
    out = StringIO()
    emitter = _Emitter(out, allow_unicode=True, width=sys.maxsize)
    for event in _SourceStyle(source, root).events(document):
        emitter.emit(event)
    return out.getvalue()


class _SourceStyle:
    """Converts a document to YAML events, with the styles of the original text."""

    def __init__(self, source: SourceFile, root: Node | None) -> None:
        self._source = source
        self._styles = dict(_styles(root)) if root else {}

    def events(self, document: MappingNode) -> Iterator[yaml.Event]:
        yield yaml.StreamStartEvent()
        yield yaml.DocumentStartEvent(explicit=False)
        yield from self._node(document)
        yield yaml.DocumentEndEvent(explicit=False)
        yield yaml.StreamEndEvent()

    def _node(self, node: Node) -> Iterator[yaml.Event]:
        if isinstance(node, ScalarNode):
            yield self._scalar(node.value, node)
        elif isinstance(node, MappingNode):
            yield yaml.MappingStartEvent(None, None, True, flow_style=self._is_on_one_line(node))
            for key, item in node.entries:
                yield self._scalar(key.text, key if self._is_original(key) else replace(key, span=NO_SPAN))
                yield from self._node(item)
            yield yaml.MappingEndEvent()
        else:
            yield yaml.SequenceStartEvent(None, None, True, flow_style=self._is_on_one_line(node))
            for item in node.items:
                yield from self._node(item)
            yield yaml.SequenceEndEvent()

    def _scalar(self, value: Json, node: ScalarNode) -> yaml.ScalarEvent:
        if not isinstance(value, str):
            text = node.text if _has_same_value(node.text, value) else scalar_text(value)
            return yaml.ScalarEvent(None, None, (True, False), text)
        original_style = self._styles.get(node.span)
        if original_style == "folded" and _FOLDABLE.fullmatch(value):
            style: str | None = ">"
        elif original_style in _QUOTES and node.span.line == node.span.end_line:
            style = _QUOTES[original_style]
        else:
            style = "|" if "\n" in value else None
        return yaml.ScalarEvent(None, None, (is_plain_text(value), True), value, style=style)

    def _is_original(self, key: ScalarNode) -> bool:
        """Whether the original text has this key at its span; a new key may have the span of another."""
        return self._source.slice(key.span).strip("'\"") == key.text

    def _is_on_one_line(self, node: MappingNode | SequenceNode) -> bool:
        """Whether the original is on one line, in braces or brackets, and the new one still fits there."""
        if node.span == NO_SPAN or node.span.line != node.span.end_line:
            return False
        original_text = self._source.slice(node.span)
        return original_text[:1] in ("{", "[") and _length(node) <= max(len(original_text), _MAX_SHORT_CHARS)


def _styles(node: Node) -> Iterator[tuple[Span, ScalarStyle]]:
    """Yield the style of every scalar, by its span and by that of the templates in it."""
    if isinstance(node, ScalarNode):
        yield node.span, node.style
        if node.template_span:
            yield node.template_span, node.style
    elif isinstance(node, MappingNode):
        yield from (style for entry in node.entries for part in entry for style in _styles(part))
    else:
        yield from (style for item in node.items for style in _styles(item))


def _length(node: Node) -> int:
    """Estimate the number of characters of a node on one line."""
    if isinstance(node, ScalarNode):
        return len(node.text) + len(": ")
    children = node.items if isinstance(node, SequenceNode) else [part for entry in node.entries for part in entry]
    return sum(map(_length, children))


def _has_same_value(text: str, value: Json) -> bool:
    """Whether the original text, as a plain scalar, has this value."""
    try:
        resolved_value = resolve(text, None, (True, False))
    except ScalarError:
        return False
    return bool(text) and type(resolved_value) is type(value) and resolved_value == value


class _Emitter(Emitter):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        del indentless
        return super().increase_indent(flow, False)

    def analyze_scalar(self, scalar: str) -> Any:
        analysis: Any = super().analyze_scalar(scalar)
        analysis.allow_block = _NOT_IN_A_BLOCK.search(scalar) is None and _BLOCK.match(scalar) is not None
        return analysis

    def determine_block_hints(self, text: str) -> str:
        """Omit the indentation indicator if the first non-empty line determines it."""
        hints: str = super().determine_block_hints(text)
        return hints if text.lstrip("\n").startswith(" ") else hints.lstrip("123456789")

    def write_folded(self, text: str) -> None:
        original_width, self.best_width = self.best_width, _FOLD_AT
        super().write_folded(text)
        self.best_width = original_width

    def choose_scalar_style(self) -> Any:
        style: Any = super().choose_scalar_style()
        event: Any = self.event
        if event.style == style:
            return style
        text: str = event.value
        escapes = '"' in text or "\\" in text
        return '"' if style == "'" and (not escapes or _BREAK.search(text)) else style
