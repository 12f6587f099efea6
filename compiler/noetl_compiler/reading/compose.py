"""Build nodes from parser events, within budgets (reader.py has an overview).

:class:`Composer` handles one event after the other. It collects diagnostics, and raises :class:`StopReading` for one
after which it cannot continue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec
import yaml
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, Severity
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.reading.budget import MAX_ENTRIES, TOO_MANY_ENTRIES, Budget, Size
from noetl_compiler.reading.scalars import ScalarError, is_merge, resolve, short_tag
from noetl_compiler.reading.syntax_errors import BARE_TEMPLATE, QUOTE_THE_TEMPLATE
from noetl_compiler.source import ScalarStyle, SourceFile, Span, expression_spans

__all__ = ["Composer", "StopReading"]

MAX_DIAGNOSTICS = 500

_STYLES: dict[str | None, ScalarStyle] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_PROPERTIES = re.compile(r"(?:[!&]\S*(?:\s+(?:#[^\n]*\n\s*)*|$))*")
_COLLECTION_TAGS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MISCOUNTED = re.compile("[\x85\u2028\u2029\ufeff]")
"""Characters that the parser counts otherwise than editors: as a line break, or not as a column."""


class StopReading(Exception):  # noqa: N818 - control flow, not an error of this program
    """Reading cannot continue; ``diagnostic`` is the reason."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Anchor(msgspec.Struct, frozen=True):
    """The node of an anchor, once it is complete."""

    node: Node
    size: Size


_Expected: TypeAlias = Literal["item", "key", "value", "merged", "compared", "dropped"]


class _OpenCollection:
    """A collection being read. ``expected`` is the role of its next child: after a key its ``value``, after ``<<`` a
    mapping to be ``merged``, after a duplicate key a value to be ``compared`` with the first, after an invalid key a
    value to be ``dropped``.

    ``last_span`` is that of its last child, and ``height`` grows with its children. ``size_before`` is the budget used
    when it began, if it has an anchor.
    """

    __slots__ = (
        "anchor",
        "entries",
        "expected",
        "height",
        "is_bare_template",
        "items",
        "key",
        "last_span",
        "merged",
        "size_before",
        "span",
    )

    def __init__(self, span: Span, expected: _Expected) -> None:
        self.span = self.last_span = span
        self.expected: _Expected = expected
        self.anchor: str | None = None
        self.size_before: Size | None = None
        self.height = 1
        self.is_bare_template = False
        self.key: ScalarNode | None = None
        self.items: list[Node] = []
        self.entries: dict[str, tuple[ScalarNode, Node]] = {}
        self.merged: dict[str, tuple[ScalarNode, Node]] = {}


class Composer:
    """Builds the nodes of the document in ``source``: ``root`` is the result."""

    def __init__(self, source: SourceFile) -> None:
        self.root: Node | None = None
        self.diagnostics: list[Diagnostic] = []
        self._source = source
        self._has_miscounted_characters = not source.text.isascii() and _MISCOUNTED.search(source.text) is not None
        self._budget = Budget()
        self._stack: list[_OpenCollection] = []
        self._anchors: dict[str, _Anchor | None] = {}
        self._documents = 0

    def compose(self, events: Iterable[yaml.Event]) -> None:
        """Build the nodes from the parser's events. Raises :class:`StopReading` if reading cannot continue."""
        handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._start_document,
            yaml.ScalarEvent: self._add_scalar,
            yaml.AliasEvent: self._add_alias,
            yaml.SequenceStartEvent: self._start_collection,
            yaml.SequenceEndEvent: self._end_collection,
            yaml.MappingStartEvent: self._start_collection,
            yaml.MappingEndEvent: self._end_collection,
        }  # not an attribute: a reference cycle would keep all nodes alive until the garbage collector runs
        for event in events:
            if handler := handlers.get(event.__class__):
                handler(event)

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            message, hint = "a second document starts here", "keep one playbook per file"
            raise StopReading(self._error(Code.UNSUPPORTED_YAML, self._span_of(event), message, hint))

    def _add_scalar(self, event: Any) -> None:
        text, span = event.value, self._span_of(event)
        if over_budget := self._budget.add_scalar(len(text), event.start_mark.index):
            self._stop_over_budget(over_budget, span)
        is_key = bool(self._stack) and self._stack[-1].expected == "key"
        if is_key and is_merge(text, event.tag, event.implicit):
            self._stack[-1].expected = "merged"
            return
        value = text if is_key else self._resolve_value(event, span)
        if event.anchor or event.tag:
            span = self._without_properties(event, span)
        style = _STYLES.get(event.style, "plain")
        expressions = expression_spans(self._source, span, text, style) if "{{" in text or "{%" in text else ()
        node = ScalarNode(value, text, span, style, expressions)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(node, Size(1, len(text), 0))
        self._add_node(node, span, 0)

    def _resolve_value(self, event: yaml.ScalarEvent, span: Span) -> object:
        try:
            return resolve(event.value, event.tag, event.implicit)
        except ScalarError as error:
            self._report(Code.UNSUPPORTED_YAML, span, str(error), error.hint)
            return event.value

    def _add_alias(self, event: yaml.AliasEvent) -> None:
        name, span = event.anchor or "", self._span_of(event)
        if name not in self._anchors:
            message = f'there is no anchor "&{name}" before this alias'
            raise StopReading(self._error(Code.YAML_SYNTAX, span, message))
        anchor = self._anchors[name]
        if anchor is None:
            message = f'the alias "*{name}" is inside its own anchor'
            raise StopReading(self._error(Code.UNSUPPORTED_YAML, span, message))
        if over_budget := self._budget.add_alias(anchor.size, len(self._stack)):
            self._stop_over_budget(over_budget, span)
        self._add_node(anchor.node, span, anchor.size.height)

    def _start_collection(self, event: Any) -> None:
        span, offset = self._span_of(event), event.start_mark.index
        if event.tag not in _COLLECTION_TAGS:
            message = f'the tag "{short_tag(str(event.tag))}" is not supported'
            self._report(Code.UNSUPPORTED_YAML, span, message, "remove the tag")
        if event.anchor or event.tag:
            span = self._without_properties(event, span)
        open_collection = _OpenCollection(span, "key" if isinstance(event, yaml.MappingStartEvent) else "item")
        if event.anchor:
            open_collection.anchor, open_collection.size_before = event.anchor, self._budget.used_size
            self._anchors[event.anchor] = None
        if over_budget := self._budget.add_collection(len(self._stack), offset):
            self._stop_over_budget(over_budget, span)
        self._stack.append(open_collection)

    def _end_collection(self, event: yaml.CollectionEndEvent) -> None:
        collection, last = self._stack.pop(), self._span_of(event)
        if (last.line, last.col) == (last.end_line, last.end_col):
            # a block collection ends where the next token starts: the end of its last child is more exact
            last = collection.last_span
        span = Span(collection.span.line, collection.span.col, last.end_line, last.end_col)
        node: Node = SequenceNode(tuple(collection.items), span)
        if collection.is_bare_template:
            node = self._bare_template(span)
        elif collection.expected == "key":
            entries = {**collection.merged, **collection.entries} if collection.merged else collection.entries
            node = MappingNode(tuple(entries.values()), span)
        if collection.anchor and collection.size_before:
            self._anchors[collection.anchor] = _Anchor(
                node, self._budget.used_size.since(collection.size_before, collection.height)
            )
        self._add_node(node, span, collection.height)

    def _add_node(self, node: Node, span: Span, height: int) -> None:
        """Add a finished node to its collection."""
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.last_span = span
        if height >= parent.height:
            parent.height = height + 1
        if parent.expected == "item":
            parent.items.append(node)
            if len(parent.items) > MAX_ENTRIES:
                self._stop_over_budget(TOO_MANY_ENTRIES, span)
        elif parent.expected == "key":
            self._add_key(parent, node)
        else:
            self._add_value(parent, node)

    def _add_key(self, parent: _OpenCollection, node: Node) -> None:
        parent.expected = "dropped"
        if not isinstance(node, ScalarNode):
            self._report_complex_key(node)
        elif node.text in parent.entries:
            parent.key, parent.expected = node, "compared"
        else:  # the scalar of an alias may have been a number at its anchor
            parent.key = node if node.value is node.text else replace(node, value=node.text)
            parent.expected = "value"

    def _report_complex_key(self, node: Node) -> None:
        if self._source.slice(node.span)[:1] == "{" and self._char_before(node.span) == "{":
            self._stack[-1].is_bare_template = True  # reported by _end_collection, when its end is known
        else:
            hint = "write a string as the key"
            self._report(Code.UNSUPPORTED_YAML, node.span, "a key is a mapping or a list", hint)

    def _bare_template(self, span: Span) -> ScalarNode:
        """Report ``{{ x }}`` without quotes, and return it as the intended template, to avoid further diagnostics."""
        self._report(Code.UNSUPPORTED_YAML, span, BARE_TEMPLATE, QUOTE_THE_TEMPLATE)
        text = self._source.slice(span)
        return ScalarNode(text, text, span, "plain", expression_spans(self._source, span, text, "plain"))

    def _char_before(self, span: Span) -> str:
        offset = self._source.offset(span.line, span.col)
        return self._source.text[max(0, offset - 1) : offset]

    def _add_value(self, parent: _OpenCollection, node: Node) -> None:
        if parent.expected == "value" and parent.key is not None:
            parent.entries[parent.key.text] = (parent.key, node)
            if len(parent.entries) > MAX_ENTRIES:
                self._stop_over_budget(TOO_MANY_ENTRIES, node.span)
        elif parent.expected == "compared" and parent.key is not None:
            self._compare(parent, parent.key, node)
        elif parent.expected == "merged":
            self._merge(parent, node)
        parent.expected = "key"

    def _compare(self, parent: _OpenCollection, key: ScalarNode, node: Node) -> None:
        """Report a duplicate key: as a warning if both values are the same, else as an error."""
        first, value = parent.entries[key.text]
        is_same = self._source.slice(value.span) == self._source.slice(node.span)
        message = f'duplicate key "{_truncate(key.text)}"{" with the same value" if is_same else ""}'
        hint = "remove one of them" if is_same else "remove or rename one of them"
        severity = Severity.WARNING if is_same else Severity.ERROR
        related = (Related(first.span, "it is here first"),)
        self._report(Code.DUPLICATE_KEY, key.span, message, hint, related, severity)

    def _merge(self, parent: _OpenCollection, node: Node) -> None:
        """Merge ``<<``: the first of several mappings takes precedence, and the mapping's own keys over all of them."""
        for merged_node in node.items if isinstance(node, SequenceNode) else (node,):
            if isinstance(merged_node, MappingNode):
                if over_budget := self._budget.add_merge(len(merged_node.entries)):
                    self._stop_over_budget(over_budget, merged_node.span)
                for key, value in merged_node.entries:
                    parent.merged.setdefault(key.text, (key, value))
            else:
                hint = 'write "<<: *anchor" or "<<: [*one, *two]"'
                self._report(Code.UNSUPPORTED_YAML, merged_node.span, 'the merge key "<<" needs a mapping', hint)

    def _stop_over_budget(self, message: str, span: Span) -> NoReturn:
        hint = "keep data in a file, a table or a request, not in the playbook"
        raise StopReading(self._error(Code.BUDGET_EXCEEDED, span, message, hint))

    def _span_of(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        if self._has_miscounted_characters:
            return self._source.span(start.index, end.index)
        return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _without_properties(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, span: Span) -> Span:
        """Return the span of a node without its anchor and its tag."""
        text = self._source.text
        start, end = self._source.offset(span.line, span.col), self._source.offset(span.end_line, span.end_col)
        properties = _PROPERTIES.match(text, start, end if isinstance(event, yaml.ScalarEvent) else len(text))
        start = properties.end() if properties else start
        return self._source.span(start, max(start, end))

    def _report(
        self,
        code: Code,
        span: Span,
        message: str,
        hint: str,
        related: tuple[Related, ...] = (),
        severity: Severity = Severity.ERROR,
    ) -> None:
        self.diagnostics.append(Diagnostic(code, severity, span, message, hint, related, self._source.file))
        if len(self.diagnostics) == MAX_DIAGNOSTICS:
            message = f"too many problems: stopped after {MAX_DIAGNOSTICS}"
            raise StopReading(self._error(Code.BUDGET_EXCEEDED, span, message))

    def _error(self, code: Code, span: Span, message: str, hint: str = "") -> Diagnostic:
        return Diagnostic(code, Severity.ERROR, span, message, hint, file=self._source.file)


def _truncate(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
