"""Parser events to nodes, within budgets (see reader.py for how the whole works).

:class:`Composer` takes one event after the other. Recoverable findings are collected; :class:`Refusal` ends
it.
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

__all__ = ["Composer", "Refusal"]

MAX_FINDINGS = 500

_STYLES: dict[str | None, ScalarStyle] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_PROPERTIES = re.compile(r"(?:[!&]\S*(?:\s+(?:#[^\n]*\n\s*)*|$))*")
_COLLECTION_TAGS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_FOREIGN_BREAK = re.compile("[\x85\u2028\u2029\ufeff]")
"""What the parser counts as the end of a line, or as no column, and an editor does not."""


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """Reading cannot continue; ``diagnostic`` is the reason."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Anchor(msgspec.Struct, frozen=True):
    """A finished anchor."""

    node: Node
    size: Size


_Wants: TypeAlias = Literal["item", "key", "value", "merged", "compared", "dropped"]


class _Open:
    """A collection being read. ``wants`` is what its next child is: after a key its ``value``, after ``<<`` what is to
    be ``merged``, after a key that was there before something to be ``compared``, after one that was reported something
    to be ``dropped``.

    ``last`` is the place of its last child, and ``height`` grows with its children. ``before`` is what had been used
    of the budget when it began, if it has an anchor.
    """

    __slots__ = (
        "anchor",
        "before",
        "entries",
        "height",
        "is_bare_template",
        "items",
        "key",
        "last",
        "merged",
        "span",
        "wants",
    )

    def __init__(self, span: Span, wants: _Wants) -> None:
        self.span = self.last = span
        self.wants: _Wants = wants
        self.anchor: str | None = None
        self.before: Size | None = None
        self.height = 1
        self.is_bare_template = False
        self.key: ScalarNode | None = None
        self.items: list[Node] = []
        self.entries: dict[str, tuple[ScalarNode, Node]] = {}
        self.merged: dict[str, tuple[ScalarNode, Node]] = {}


class Composer:
    """Builds the one document of ``source``: the result is ``root``, the findings are ``diagnostics``."""

    def __init__(self, source: SourceFile) -> None:
        self.root: Node | None = None
        self.diagnostics: list[Diagnostic] = []
        self._source = source
        self._has_foreign_breaks = not source.text.isascii() and _FOREIGN_BREAK.search(source.text) is not None
        self._budget = Budget()
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchor | None] = {}
        self._documents = 0

    def take(self, events: Iterable[yaml.Event]) -> None:
        """Take what the parser gives; raises :class:`Refusal` if reading must not continue."""
        takers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.SequenceStartEvent: self._open,
            yaml.SequenceEndEvent: self._close,
            yaml.MappingStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
        }  # not an attribute: the composer in a cycle would keep all nodes until the collector runs
        for event in events:
            if taker := takers.get(event.__class__):
                taker(event)

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            message, hint = "a second document starts here", "keep one playbook per file"
            raise Refusal(self._error(Code.UNSUPPORTED_YAML, self._span(event), message, hint))

    def _scalar(self, event: Any) -> None:
        text, span = event.value, self._span(event)
        if excess := self._budget.scalar(len(text), event.start_mark.index):
            self._refuse(excess, span)
        is_key = bool(self._stack) and self._stack[-1].wants == "key"
        if is_key and is_merge(text, event.tag, event.implicit):
            self._stack[-1].wants = "merged"
            return
        value = text if is_key else self._resolved(event, span)
        if event.anchor or event.tag:
            span = self._without_properties(event, span)
        style = _STYLES.get(event.style, "plain")
        places = expression_spans(self._source, span, text, style) if "{{" in text or "{%" in text else ()
        node = ScalarNode(value, text, span, style, places)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(node, Size(1, len(text), 0))
        self._add(node, span, 0)

    def _resolved(self, event: yaml.ScalarEvent, span: Span) -> object:
        try:
            return resolve(event.value, event.tag, event.implicit)
        except ScalarError as error:
            self._report(Code.UNSUPPORTED_YAML, span, str(error), error.hint)
            return event.value

    def _alias(self, event: yaml.AliasEvent) -> None:
        name, span = event.anchor or "", self._span(event)
        if name not in self._anchors:
            message = f'there is no anchor "&{name}" before this alias'
            raise Refusal(self._error(Code.YAML_SYNTAX, span, message))
        anchor = self._anchors[name]
        if anchor is None:
            message = f'the alias "*{name}" is inside its own anchor'
            raise Refusal(self._error(Code.UNSUPPORTED_YAML, span, message))
        if excess := self._budget.alias(anchor.size, len(self._stack)):
            self._refuse(excess, span)
        self._add(anchor.node, span, anchor.size.height)

    def _open(self, event: Any) -> None:
        span, offset = self._span(event), event.start_mark.index
        if event.tag not in _COLLECTION_TAGS:
            message = f'the tag "{short_tag(str(event.tag))}" is not supported'
            self._report(Code.UNSUPPORTED_YAML, span, message, "remove the tag")
        if event.anchor or event.tag:
            span = self._without_properties(event, span)
        opened = _Open(span, "key" if isinstance(event, yaml.MappingStartEvent) else "item")
        if event.anchor:
            opened.anchor, opened.before = event.anchor, self._budget.used
            self._anchors[event.anchor] = None
        if excess := self._budget.collection(len(self._stack), offset):
            self._refuse(excess, span)
        self._stack.append(opened)

    def _close(self, event: yaml.CollectionEndEvent) -> None:
        done, last = self._stack.pop(), self._span(event)
        if (last.line, last.col) == (last.end_line, last.end_col):
            last = done.last  # a block collection ends where the next token starts: its last child is more exact
        span = Span(done.span.line, done.span.col, last.end_line, last.end_col)
        node: Node = SequenceNode(tuple(done.items), span)
        if done.is_bare_template:
            node = self._template(span)
        elif done.wants == "key":
            entries = {**done.merged, **done.entries} if done.merged else done.entries
            node = MappingNode(tuple(entries.values()), span)
        if done.anchor and done.before:
            self._anchors[done.anchor] = _Anchor(node, self._budget.used.since(done.before, done.height))
        self._add(node, span, done.height)

    def _add(self, node: Node, span: Span, height: int) -> None:
        """Add a finished node to its collection."""
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.last = span
        if height >= parent.height:
            parent.height = height + 1
        if parent.wants == "item":
            parent.items.append(node)
            if len(parent.items) > MAX_ENTRIES:
                self._refuse(TOO_MANY_ENTRIES, span)
        elif parent.wants == "key":
            self._key(parent, node)
        else:
            self._value(parent, node)

    def _key(self, parent: _Open, node: Node) -> None:
        parent.wants = "dropped"
        if not isinstance(node, ScalarNode):
            self._complex_key(node)
        elif node.text in parent.entries:
            parent.key, parent.wants = node, "compared"
        else:  # an alias may bring a scalar that was a number where its anchor stood
            parent.key = node if node.value is node.text else replace(node, value=node.text)
            parent.wants = "value"

    def _complex_key(self, node: Node) -> None:
        if self._source.slice(node.span)[:1] == "{" and self._before(node.span) == "{":
            self._stack[-1].is_bare_template = True  # reported when its end is known
        else:
            hint = "a key is plain text"
            self._report(Code.UNSUPPORTED_YAML, node.span, "a key is a mapping or a list", hint)

    def _template(self, span: Span) -> ScalarNode:
        """``{{ x }}`` without quotes as the template it is meant to be, so that nothing else is reported about it."""
        self._report(Code.UNSUPPORTED_YAML, span, BARE_TEMPLATE, QUOTE_THE_TEMPLATE)
        text = self._source.slice(span)
        return ScalarNode(text, text, span, "plain", expression_spans(self._source, span, text, "plain"))

    def _before(self, span: Span) -> str:
        offset = self._source.offset(span.line, span.col)
        return self._source.text[max(0, offset - 1) : offset]

    def _value(self, parent: _Open, node: Node) -> None:
        if parent.wants == "value" and parent.key is not None:
            parent.entries[parent.key.text] = (parent.key, node)
            if len(parent.entries) > MAX_ENTRIES:
                self._refuse(TOO_MANY_ENTRIES, node.span)
        elif parent.wants == "compared" and parent.key is not None:
            self._compare(parent, parent.key, node)
        elif parent.wants == "merged":
            self._merge(parent, node)
        parent.wants = "key"

    def _compare(self, parent: _Open, key: ScalarNode, node: Node) -> None:
        """Report a duplicate key: as a warning if both values are the same, else as an error."""
        first, value = parent.entries[key.text]
        is_same = self._source.slice(value.span) == self._source.slice(node.span)
        message = f'duplicate key "{_abbreviated(key.text)}"{" with the same value" if is_same else ""}'
        hint = "remove one of them" if is_same else "remove or rename one of them"
        severity = Severity.WARNING if is_same else Severity.ERROR
        related = (Related(first.span, "it is here first"),)
        self._report(Code.DUPLICATE_KEY, key.span, message, hint, related, severity)

    def _merge(self, parent: _Open, node: Node) -> None:
        """``<<``: the first of several maps wins, and the mapping's own keys win over all of them."""
        for merged in node.items if isinstance(node, SequenceNode) else (node,):
            if isinstance(merged, MappingNode):
                if excess := self._budget.merge(len(merged.entries)):
                    self._refuse(excess, merged.span)
                for key, value in merged.entries:
                    parent.merged.setdefault(key.text, (key, value))
            else:
                hint = 'write "<<: *anchor" or "<<: [*one, *two]"'
                self._report(Code.UNSUPPORTED_YAML, merged.span, 'the merge key "<<" needs a mapping', hint)

    def _refuse(self, excess: str, span: Span) -> NoReturn:
        hint = "keep data in a file, a table or a request, not in the playbook"
        raise Refusal(self._error(Code.BUDGET_EXCEEDED, span, excess, hint))

    def _span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        if self._has_foreign_breaks:
            return self._source.span(start.index, end.index)
        return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _without_properties(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, span: Span) -> Span:
        """Return the span of a node without its anchor and its tag."""
        text = self._source.text
        start, end = self._source.offset(span.line, span.col), self._source.offset(span.end_line, span.end_col)
        found = _PROPERTIES.match(text, start, end if isinstance(event, yaml.ScalarEvent) else len(text))
        start = found.end() if found else start
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
        if len(self.diagnostics) == MAX_FINDINGS:
            message = f"too many problems: stopped after {MAX_FINDINGS}"
            raise Refusal(self._error(Code.BUDGET_EXCEEDED, span, message))

    def _error(self, code: Code, span: Span, message: str, hint: str = "") -> Diagnostic:
        return Diagnostic(code, Severity.ERROR, span, message, hint, file=self._source.file)


def _abbreviated(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
