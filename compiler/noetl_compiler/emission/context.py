"""What emission works with, and what it has to say of its work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noetl_compiler.emission.extensions import Extension, told
from noetl_compiler.emission.source_lookup import NOWHERE, Entry, Origins
from noetl_compiler.graph import Span
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.syntax import Playbook

__all__ = ["Draft", "Note", "mapping", "unless_empty"]


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """Something a person should know about a migration, with its place in the text as it was."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Draft:
    """``notes`` grows while the playbook is emitted."""

    playbook: Playbook
    origins: Origins
    notes: list[Note] = field(default_factory=list[Note])

    def extend(self, extension: Extension, span: Span) -> None:
        """Say which key of ours stands for what v10 cannot say."""
        self.notes.append(Note(span, told(extension, self.playbook.dialect)))

    def extend_where(self, span: Span, used: Mapping[Extension, object]) -> None:
        """Say it of every extension that is used: one whose value is neither None nor False nor empty."""
        for extension, value in used.items():
            if value not in (None, False, ()):
                self.extend(extension, span)


def mapping(*entries: tuple[ScalarNode, Node | None], span: Span = NOWHERE) -> MappingNode:
    """The entries that have a value; ``span`` is where the author had a mapping for this."""
    present: tuple[Entry, ...] = tuple((key, node) for key, node in entries if node is not None)
    return MappingNode(present, span)


def unless_empty(node: MappingNode) -> MappingNode | None:
    """A mapping that is only written when it has entries."""
    return node if node.entries else None
