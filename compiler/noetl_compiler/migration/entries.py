"""Collects the entries of a construct in the order of its table of keys, without values that equal the default."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_compiler.graph import Json, Span, Timeout, Value
from noetl_compiler.language.construct import Construct
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.source_lookup import NO_SPAN, Entry, SourceMapping, scalar
from noetl_compiler.migration.values import emit_duration, emit_timeout, emit_value
from noetl_compiler.nodes import MappingNode, Node

__all__ = ["Entries"]


class Entries:
    """The entries of a construct. ``origin`` is its original mapping, ``note_span`` the span of notes about it.

    An entry gets the span of its key in the original text, where the key may have any of the names in the table, or a
    name of another dialect (``foreign_names``); ``key_span`` overrides it. Missing values are omitted.
    """

    def __init__(self, context: MigrationContext, construct: Construct, origin: SourceMapping, note_span: Span) -> None:
        self._context = context
        self._construct = construct
        self._origin = origin
        self._note_span = note_span
        self._entries: list[Entry] = []

    def add_node(
        self,
        name: str,
        node: Node | None,
        *foreign_names: str,
        key_span: Span | None = None,
        note_spans: Iterable[Span] | None = None,
    ) -> None:
        """Add an entry with this node as its value. ``note_spans``: by default, the span of the construct."""
        if node is None:
            return
        key = self._construct.by_name[name]
        self._entries.append(
            (self._origin.key(*key.names, *foreign_names) if key_span is None else scalar(name, key_span), node)
        )
        if key.extension is not None:
            for span in (self._note_span,) if note_spans is None else note_spans:
                self._context.note_extension(key.extension, span)

    def add_value(self, name: str, value: Value | None, *foreign_names: str) -> None:
        """Add a value, in its original style."""
        names = (*self._construct.by_name[name].names, *foreign_names)
        self.add_node(name, emit_value(self._origin, value, *names), *foreign_names)

    def add_duration(self, name: str, value: Value | None, *foreign_names: str) -> None:
        """Add a duration, in its original style."""
        names = (*self._construct.by_name[name].names, *foreign_names)
        self.add_node(name, emit_duration(self._origin, value, *names), *foreign_names)

    def add_timeout(self, limit: Timeout | None) -> None:
        """Add the timeout of the construct."""
        self.add_node("timeout", emit_timeout(self._origin, limit))

    def add_scalar(self, name: str, value: Json, *foreign_names: str, key_span: Span | None = None) -> None:
        """Add a scalar: a word, a boolean or a number, unless it is None or the default."""
        default = self._construct.by_name[name].default
        if value is not None and (default is None or value != default):
            self.add_node(name, scalar(value), *foreign_names, key_span=key_span)

    def copy_verbatim(self, original: SourceMapping) -> None:
        """Add the original entries of ``verbatim`` keys, which the syntax tree does not contain."""
        for key in self._construct.keys:
            entry = original.entry(key.name) if key.verbatim else None
            if entry is not None:
                self.add_node(key.name, entry[1], key_span=entry[0].span)

    def mapping(self, span: Span = NO_SPAN) -> MappingNode:
        """Return a mapping of the entries so far, in canonical order; ``span`` is that of the original mapping."""
        position = self._construct.position
        return MappingNode(tuple(sorted(self._entries, key=lambda entry: position[entry[0].text])), span)
