"""The context of a migration, and the notes that it collects."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Span
from noetl_compiler.language.construct import Extension
from noetl_compiler.migration.extensions import extension_note
from noetl_compiler.migration.source_lookup import NO_SPAN, Entry, SourceLookup
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.syntax import Playbook

__all__ = ["MigrationContext", "Note", "mapping", "unless_empty"]


class Note(msgspec.Struct, frozen=True, order=True):
    """A message to the user about a migration, with its span in the original text."""

    span: Span
    message: str


class MigrationContext(msgspec.Struct, frozen=True):
    """The playbook that is migrated, and the notes so far. ``source_lookup`` finds the nodes of its text. If that has
    the form of v10, ``written_extensions`` are the extensions that it uses already.
    """

    playbook: Playbook
    source_lookup: SourceLookup
    has_v10_form: bool
    written_extensions: frozenset[Extension]
    notes: list[Note] = msgspec.field(default_factory=list[Note])

    def note_extension(self, extension: Extension, span: Span) -> None:
        """Add the note about an extension, unless the author uses the extension already."""
        if extension not in self.written_extensions:
            self.notes.append(Note(span, extension_note(extension, self.playbook.dialect)))


def mapping(*entries: tuple[ScalarNode, Node | None], span: Span = NO_SPAN) -> MappingNode:
    """Return a mapping of the entries that have a value; ``span`` is that of the original mapping."""
    present: tuple[Entry, ...] = tuple((key, node) for key, node in entries if node is not None)
    return MappingNode(present, span)


def unless_empty(node: MappingNode) -> MappingNode | None:
    """Return the mapping, or None if it has no entries."""
    return node if node.entries else None
