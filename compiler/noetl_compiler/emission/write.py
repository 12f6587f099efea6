"""Nodes to YAML text.

PyYAML's emitter writes, for it knows when a string needs quotes. What it is told here: lists are indented, text
of several lines stands in a block, quotes are double where that needs no escapes, lines are never folded, and a
collection that the author wrote on one line stays there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

import yaml
from yaml.emitter import Emitter

from noetl_compiler.emission.origins import NOWHERE
from noetl_compiler.graph import Json
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalars import ScalarError, is_plain_text, resolve, written
from noetl_compiler.source import SourceFile

__all__ = ["write"]

_SHORT = 80

_NOT_IN_A_BLOCK = re.compile("[^\n\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_BREAK = re.compile("[\n\x85\u2028\u2029]")
"""In single quotes a break is folded away."""
_BLOCK = re.compile(r"\n* *[^ \n\t]")
"""A first line that begins with a tab would be taken for wrong indentation."""


def write(document: MappingNode, source: SourceFile) -> str:
    """The text of a document without comments; ``source`` is the text from which its nodes have their places."""
    out = StringIO()
    emitter = _Emitter(out, allow_unicode=True, width=sys.maxsize)
    for event in _events(document, source):
        emitter.emit(event)
    return out.getvalue()


def _events(document: MappingNode, source: SourceFile) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _node_events(document, source)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _node_events(node: Node, source: SourceFile) -> Iterator[yaml.Event]:
    if isinstance(node, ScalarNode):
        yield _scalar_event(node.value, node.text)
    elif isinstance(node, MappingNode):
        yield yaml.MappingStartEvent(None, None, True, flow_style=_is_on_one_line(node, source))
        for key, item in node.entries:
            yield _scalar_event(key.text, key.text)
            yield from _node_events(item, source)
        yield yaml.MappingEndEvent()
    else:
        yield yaml.SequenceStartEvent(None, None, True, flow_style=_is_on_one_line(node, source))
        for item in node.items:
            yield from _node_events(item, source)
        yield yaml.SequenceEndEvent()


def _is_on_one_line(node: MappingNode | SequenceNode, source: SourceFile) -> bool:
    """Whether the author wrote this on one line, in braces or brackets, and it has not grown too long for that."""
    if node.span == NOWHERE or node.span.line != node.span.end_line:
        return False
    own = source.slice(node.span)
    return own[:1] in ("{", "[") and _length(node) <= max(len(own), _SHORT)


def _length(node: Node) -> int:
    """About how many characters a node takes on one line."""
    if isinstance(node, ScalarNode):
        return len(node.text) + len(": ")
    children = node.items if isinstance(node, SequenceNode) else [part for entry in node.entries for part in entry]
    return sum(map(_length, children))


def _scalar_event(value: Json, text: str) -> yaml.ScalarEvent:
    if isinstance(value, str):
        return yaml.ScalarEvent(None, None, (is_plain_text(value), True), value, style="|" if "\n" in value else None)
    return yaml.ScalarEvent(None, None, (True, False), text if _means(text, value) else written(value))


def _means(text: str, value: Json) -> bool:
    """Whether the author's text has this value without the tag or the quotes that it may have had."""
    try:
        found = resolve(text, None, (True, False))
    except ScalarError:
        return False
    return bool(text) and type(found) is type(value) and found == value


class _Emitter(Emitter):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        del indentless
        return super().increase_indent(flow, False)

    def analyze_scalar(self, scalar: str) -> Any:
        analysis: Any = super().analyze_scalar(scalar)
        analysis.allow_block = _NOT_IN_A_BLOCK.search(scalar) is None and _BLOCK.match(scalar) is not None
        return analysis

    def choose_scalar_style(self) -> Any:
        style: Any = super().choose_scalar_style()
        event: Any = self.event
        text: str = event.value
        escapes = '"' in text or "\\" in text
        return '"' if style == "'" and (not escapes or _BREAK.search(text)) else style
