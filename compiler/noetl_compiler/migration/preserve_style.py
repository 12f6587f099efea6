"""Restores the original style of a playbook that already has the form of v10.

A document that is emitted from the syntax tree lacks everything without an effect: explicit defaults, keys that only
other engines read, default names of tasks, the original order of keys. A playbook of another dialect has no place for
these. In a v10 playbook they are restored, so that a migration changes only outdated spellings.

The emitted document and the original are walked in parallel: entry by entry if both have the same key, item by item if
lists have the same length. Original entries that the emitted document lacks are inserted in canonical order, if they
have no effect or are not part of the syntax tree. Then the entries that both have get the original order. Keys that the
original does not have stay after those that precede them in canonical order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from noetl_compiler.graph import Span
from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.constructs import nested_construct
from noetl_compiler.language.constructs.playbook import PLAYBOOK
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.source_lookup import Entry, scalar
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, to_json

__all__ = ["preserve_style"]

_SETTINGS_MAPPINGS = frozenset({"executor", "spec", "policy"})
"""Mappings that may contain entries without an effect."""

_NAME_MAPPINGS = frozenset({"set"})
"""Mappings whose keys are names chosen by the author; the emitted document may spell them differently."""


def preserve_style(
    context: MigrationContext, document: MappingNode, root: MappingNode, ignored_spans: Collection[Span]
) -> MappingNode:
    """Return ``document`` with the parts that only ``root`` has. ``ignored_spans``: those of keys without an effect."""
    return _StylePreserver(context, frozenset(ignored_spans)).merge_mapping(document, root, PLAYBOOK, "")


class _StylePreserver:
    def __init__(self, context: MigrationContext, ignored_spans: frozenset[Span]) -> None:
        self._context = context
        self._ignored_spans = ignored_spans

    def merge_mapping(
        self, emitted_node: MappingNode, original: MappingNode, construct: Construct | None, name: str
    ) -> MappingNode:
        original_values = {key.text: item for key, item in original.entries}
        entries = [
            (
                key,
                self._merge_node(
                    item, original_values.get(key.text), _construct_of_value(construct, key.text), key.text
                ),
            )
            for key, item in emitted_node.entries
        ]
        emitted_names = {key.text for key, _ in entries}
        missing_entries = (
            entry for entry in original.entries if entry[0].text not in emitted_names and name not in _NAME_MAPPINGS
        )
        for restored_entry in [
            restored_entry for entry in missing_entries if (restored_entry := self._restored_entry(entry, construct))
        ]:
            entries.insert(_insertion_index(restored_entry, entries, construct), restored_entry)
        return MappingNode(tuple(_reorder(original, entries)), original.span)

    def _merge_node(self, emitted_node: Node, original: Node | None, construct: Construct | None, name: str) -> Node:
        if isinstance(original, MappingNode) and isinstance(emitted_node, MappingNode):
            return self.merge_mapping(emitted_node, original, construct, name)
        if not isinstance(original, SequenceNode) or not isinstance(emitted_node, SequenceNode):
            return emitted_node
        if len(emitted_node.items) != len(original.items):
            return emitted_node
        pairs = zip(emitted_node.items, original.items, strict=True)
        return SequenceNode(
            tuple(self._merge_node(item, original_item, construct, name) for item, original_item in pairs),
            original.span,
        )

    def _restored_entry(self, entry: Entry, construct: Construct | None) -> Entry | None:
        """Return the entry, or its part, that must be kept because it is ignored or not part of the syntax tree."""
        key, item = entry
        key_declaration = construct.by_name.get(key.text) if construct else None
        if key.span in self._ignored_spans:
            return entry
        if key_declaration is not None and _is_kept(key_declaration, key.text, item):
            if key_declaration.extension is not None:
                self._context.note_extension(key_declaration.extension, key.span)
            return (scalar(key_declaration.name, key.span), item)
        if not isinstance(item, MappingNode) or key.text not in _SETTINGS_MAPPINGS:
            return None
        inner = tuple(
            restored_entry
            for inner_entry in item.entries
            if (
                restored_entry := self._restored_entry(
                    inner_entry, nested_construct(key_declaration) if key_declaration else None
                )
            )
        )
        return (key, replace(item, entries=inner)) if inner else None


def _construct_of_value(construct: Construct | None, name: str) -> Construct | None:
    key_declaration = construct.by_name.get(name) if construct else None
    return nested_construct(key_declaration) if key_declaration else None


def _is_kept(key: Key, name: str, item: Node) -> bool:
    """Whether a value that the emitted document lacks is kept: it has no effect, or is not part of the syntax tree."""
    if key.verbatim or key.restored:
        return True
    return key.default is not None and name == key.name and repr(to_json(item)) == repr(key.default)


def _insertion_index(restored_entry: Entry, entries: list[Entry], construct: Construct | None) -> int:
    """Return the index at which to reinsert an entry: before the first that is later in the canonical order."""
    position: Mapping[str, int] = construct.position if construct else {}
    entry_position = position.get(restored_entry[0].text, len(position))
    return next(
        (index for index, (key, _) in enumerate(entries) if position.get(key.text, -1) > entry_position), len(entries)
    )


def _reorder(original: MappingNode, entries: list[Entry]) -> list[Entry]:
    """Return the entries, those also in the original mapping in its order; the others keep their positions."""
    rank = {
        key_or_span: index for index, (key, _) in enumerate(original.entries) for key_or_span in (key.text, key.span)
    }
    ranks = ((rank.get(key.text, rank.get(key.span)), index) for index, (key, _) in enumerate(entries))
    shared_ranks = [(rank_, index) for rank_, index in ranks if rank_ is not None]
    moves = {index: source for (_, index), (_, source) in zip(shared_ranks, sorted(shared_ranks), strict=True)}
    return [entries[moves.get(index, index)] for index in range(len(entries))]
