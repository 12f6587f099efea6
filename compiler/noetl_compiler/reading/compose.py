"""Parser events to nodes, within budgets (see reader.py for how the whole works).

:class:`Composer` is fed one event after the other. Findings it can go on from are collected; :class:`Refusal`
ends it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import yaml

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, Severity
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalars import ScalarError, is_merge, resolve, short_tag
from noetl_compiler.source import ScalarStyle, SourceFile, Span, expression_spans

__all__ = ["MAX_CHARS", "MAX_DEPTH", "MAX_NODES", "Composer", "Refusal"]

MAX_CHARS = 4_000_000
MAX_NODES = 400_000
MAX_DEPTH = 100
MAX_FINDINGS = 500

_STYLES: dict[str | None, ScalarStyle] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_COLLECTION_TAGS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """Reading cannot go on; ``diagnostic`` says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A finished anchor: its size and height as written out."""

    node: Node
    nodes: int
    chars: int
    height: int


@dataclass(slots=True)
class _Open:
    """A collection being read. ``nodes`` and ``chars`` are the counts when it began, ``height`` grows with
    its children.

    In a mapping ``key`` waits for its value; with ``dropping`` the value to come belongs to a key already
    reported.
    """

    is_mapping: bool
    start: int
    end: int
    anchor: str | None
    nodes: int
    chars: int
    height: int = 1
    items: list[Node] = field(default_factory=list[Node])
    entries: dict[str, tuple[ScalarNode, Node]] = field(default_factory=dict[str, tuple[ScalarNode, Node]])
    merged: dict[str, tuple[ScalarNode, Node]] = field(default_factory=dict[str, tuple[ScalarNode, Node]])
    key: ScalarNode | None = None
    merging: bool = False
    dropping: bool = False

    @property
    def wants_key(self) -> bool:
        return self.is_mapping and self.key is None and not self.merging and not self.dropping


class Composer:
    """Builds the one document of ``source``: the result is ``root``, the findings are ``diagnostics``."""

    def __init__(self, source: SourceFile) -> None:
        self.root: Node | None = None
        self.diagnostics: list[Diagnostic] = []
        self._source = source
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchor | None] = {}
        self._nodes = self._chars = self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        """Take the parser's next event; :class:`Refusal` when reading may not go on."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.CollectionStartEvent():
                self._open(event)
            case yaml.CollectionEndEvent():
                self._close(event)
            case yaml.DocumentStartEvent():
                self._document(event)
            case _:
                pass

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            message, hint = "a second document starts", "keep one playbook in a file"
            raise Refusal(self._error(Code.UNSUPPORTED_YAML, self._span(event), message, hint))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._spend(event, 1, len(event.value))
        span, style = self._span(event), _STYLES.get(event.style, "plain")
        key_wanted = bool(self._stack) and self._stack[-1].wants_key
        if key_wanted and is_merge(event.value, event.tag, event.implicit):
            self._stack[-1].merging = True
            return
        value = event.value if key_wanted else self._resolved(event, span)
        marked = "{{" in event.value or "{%" in event.value
        places = expression_spans(self._source, span, event.value, style) if marked else ()
        node = ScalarNode(value, event.value, span, style, places)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(node, 1, len(event.value), 0)
        self._add(node, _offsets(event)[1], 0)

    def _resolved(self, event: yaml.ScalarEvent, span: Span) -> object:
        try:
            return resolve(event.value, event.tag, event.implicit)
        except ScalarError as error:
            self._report(Code.UNSUPPORTED_YAML, span, str(error), error.hint)
            return event.value

    def _alias(self, event: yaml.AliasEvent) -> None:
        name, span = event.anchor or "", self._span(event)
        if name not in self._anchors:
            message = f'no anchor "&{name}" stands before this alias'
            raise Refusal(self._error(Code.YAML_SYNTAX, span, message))
        anchor = self._anchors[name]
        if anchor is None:
            message = f'the alias "*{name}" is inside its own anchor'
            raise Refusal(self._error(Code.UNSUPPORTED_YAML, span, message))
        self._spend(event, anchor.nodes, anchor.chars, anchor.height)
        self._add(anchor.node, _offsets(event)[1], anchor.height)

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag not in _COLLECTION_TAGS:
            message = f'the tag "{short_tag(str(event.tag))}" is not supported'
            self._report(Code.UNSUPPORTED_YAML, self._span(event), message, "remove the tag")
        before = self._nodes, self._chars
        self._spend(event, 1, 0, 1)
        if event.anchor:
            self._anchors[event.anchor] = None
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self._stack.append(_Open(is_mapping, *_offsets(event), event.anchor, *before))

    def _close(self, event: yaml.CollectionEndEvent) -> None:
        done = self._stack.pop()
        # a block collection ends where the next token starts, so its last child tells the end better
        start, end = _offsets(event)
        end = end if end > start else done.end
        span = self._source.span(done.start, end)
        node: Node = SequenceNode(tuple(done.items), span)
        if done.is_mapping:
            node = MappingNode(tuple({**done.merged, **done.entries}.values()), span)
        if done.anchor:
            written = self._nodes - done.nodes, self._chars - done.chars
            self._anchors[done.anchor] = _Anchor(node, *written, done.height)
        self._add(node, end, done.height)

    def _add(self, node: Node, end: int, height: int) -> None:
        """Give a finished node to the collection it stands in."""
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.end, parent.height = max(parent.end, end), max(parent.height, height + 1)
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.wants_key:
            self._key(parent, node)
        else:
            self._entry(parent, node)

    def _key(self, parent: _Open, node: Node) -> None:
        if not isinstance(node, ScalarNode):
            self._complex_key(node)
            parent.dropping = True
        elif first := parent.entries.get(node.text):
            message = f'the key "{_shown(node.text)}" stands here for the second time'
            related = (Related(first[0].span, "it is here first"),)
            self._report(Code.DUPLICATE_KEY, node.span, message, "remove or rename one of them", related)
            parent.dropping = True
        else:  # an alias may bring a scalar that was a number where its anchor stood
            parent.key = replace(node, value=node.text)

    def _complex_key(self, node: Node) -> None:
        if self._source.slice(node.span)[:1] == "{" and self._before(node.span) == "{":
            hint = 'write it in quotes: "{{ ... }}"'
            self._report(Code.UNSUPPORTED_YAML, node.span, "a template stands here without quotes", hint)
        else:
            hint = "a key is plain text"
            self._report(Code.UNSUPPORTED_YAML, node.span, "a key is a mapping or a list", hint)

    def _before(self, span: Span) -> str:
        offset = self._source.offset(span.line, span.col)
        return self._source.text[max(0, offset - 1) : offset]

    def _entry(self, parent: _Open, node: Node) -> None:
        if parent.key is not None:
            parent.entries[parent.key.text] = (parent.key, node)
        elif parent.merging:
            self._merge(parent, node)
        parent.key, parent.merging, parent.dropping = None, False, False

    def _merge(self, parent: _Open, node: Node) -> None:
        """``<<``: the first of several maps wins, and the mapping's own keys win over all of them."""
        for merged in node.items if isinstance(node, SequenceNode) else (node,):
            if isinstance(merged, MappingNode):
                for key, value in merged.entries:
                    parent.merged.setdefault(key.text, (key, value))
            else:
                hint = 'write "<<: *anchor" or "<<: [*one, *two]"'
                self._report(Code.UNSUPPORTED_YAML, merged.span, 'the merge key "<<" needs a mapping', hint)

    def _spend(self, event: yaml.NodeEvent, nodes: int, chars: int, height: int = 0) -> None:
        """Count a node or an alias against the budgets."""
        self._nodes += nodes
        self._chars += chars
        excess = ""
        if self._nodes > MAX_NODES:
            excess = f"more than {MAX_NODES:,} nodes"
        elif self._chars > MAX_CHARS:
            excess = f"more than {MAX_CHARS:,} characters"
        elif len(self._stack) + height > MAX_DEPTH:
            excess = f"more than {MAX_DEPTH} levels"
        if excess:
            message = f"with its aliases written out the playbook has {excess}"
            hint = "keep data in a file, a table or a request, not in the playbook"
            raise Refusal(self._error(Code.BUDGET_EXCEEDED, self._span(event), message, hint))

    def _span(self, event: yaml.Event) -> Span:
        return self._source.span(*_offsets(event))

    def _report(self, code: Code, span: Span, message: str, hint: str, related: tuple[Related, ...] = ()) -> None:
        self.diagnostics.append(self._error(code, span, message, hint, related))
        if len(self.diagnostics) == MAX_FINDINGS:
            message = f"there are {MAX_FINDINGS} problems up to here"
            raise Refusal(self._error(Code.BUDGET_EXCEEDED, span, message))

    def _error(
        self, code: Code, span: Span, message: str, hint: str = "", related: tuple[Related, ...] = ()
    ) -> Diagnostic:
        return Diagnostic(code, Severity.ERROR, span, message, hint, related, self._source.file)


def _offsets(event: yaml.Event) -> tuple[int, int]:
    start, end = event.start_mark, event.end_mark
    return (start.index, end.index) if start and end else (0, 0)


def _shown(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
