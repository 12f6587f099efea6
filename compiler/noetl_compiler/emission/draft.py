"""What emission works with, and what it has to say of its work."""

from __future__ import annotations

from dataclasses import dataclass, field

from noetl_compiler.emission.origins import NOWHERE, Entry, Origins
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

    def extension(self, key: str, span: Span) -> None:
        """Say that v10 has no form for this, and which key of ours stands for it."""
        self.notes.append(Note(span, f'v10 has no form for this: "{key}" is an extension'))


def mapping(*entries: tuple[ScalarNode, Node | None]) -> MappingNode:
    """The entries that have a value."""
    present: tuple[Entry, ...] = tuple((key, node) for key, node in entries if node is not None)
    return MappingNode(present, NOWHERE)


def unless_empty(node: MappingNode) -> MappingNode | None:
    """A mapping that is only written when it has entries."""
    return node if node.entries else None
