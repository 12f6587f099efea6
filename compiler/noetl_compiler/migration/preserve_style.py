"""What a playbook keeps that has the form of v10 already.

The syntax tree says what a playbook means, so what is emitted from it lacks everything without an effect: a default
that is written out, a key that only other engines read, a task's name that it has anyway, the order of keys. In a
playbook of another form none of that has a place any more. In one of this form it has, and an author who asks for
today's spelling should get that and no other change.

So the written document and the author's are walked side by side, entry by entry where both have the same key and
item by item where lists are equally long. What the author has and the written document lacks is put back in the
canonical order, if the table of keys says that it means nothing there, or that only the author's words say it; then
the entries that both have get the author's order. Keys that he did not write stay behind those that stand before them
in the canonical order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from noetl_compiler.graph import Span
from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.constructs import below
from noetl_compiler.language.constructs.playbook import PLAYBOOK
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.source_lookup import Entry, scalar
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, to_json

__all__ = ["kept_as_written"]

_AROUND_SETTINGS = frozenset({"executor", "spec", "policy"})
"""Mappings that may be written here although they have no effect."""

_OF_NAMES = frozenset({"set"})
"""Mappings whose keys are names that the author chose; the written document may spell them otherwise."""


def kept_as_written(
    context: MigrationContext, document: MappingNode, root: MappingNode, ignored: Collection[Span]
) -> MappingNode:
    """``document`` with the parts that only ``root`` has. ``ignored`` are the places of keys that have no effect."""
    return _StylePreserver(context, frozenset(ignored)).mapping(document, root, PLAYBOOK, "")


class _StylePreserver:
    def __init__(self, context: MigrationContext, ignored: frozenset[Span]) -> None:
        self._context = context
        self._ignored = ignored

    def mapping(self, written: MappingNode, own: MappingNode, construct: Construct | None, name: str) -> MappingNode:
        theirs = {key.text: item for key, item in own.entries}
        entries = [
            (key, self._node(item, theirs.get(key.text), _below(construct, key.text), key.text))
            for key, item in written.entries
        ]
        said = {key.text for key, _ in entries}
        missing = (entry for entry in own.entries if entry[0].text not in said and name not in _OF_NAMES)
        for kept in [kept for entry in missing if (kept := self._kept_entry(entry, construct))]:
            entries.insert(_place(kept, entries, construct), kept)
        return MappingNode(tuple(_in_order_of(own, entries)), own.span)

    def _node(self, written: Node, own: Node | None, construct: Construct | None, name: str) -> Node:
        if isinstance(own, MappingNode) and isinstance(written, MappingNode):
            return self.mapping(written, own, construct, name)
        if not isinstance(own, SequenceNode) or not isinstance(written, SequenceNode):
            return written
        if len(written.items) != len(own.items):
            return written
        pairs = zip(written.items, own.items, strict=True)
        return SequenceNode(tuple(self._node(item, its, construct, name) for item, its in pairs), own.span)

    def _kept_entry(self, entry: Entry, construct: Construct | None) -> Entry | None:
        """Return the entry, or its part, that must be kept because it is ignored or not part of the syntax tree."""
        key, item = entry
        known = construct.by_name.get(key.text) if construct else None
        if key.span in self._ignored:
            return entry
        if known is not None and _is_kept(known, key.text, item):
            if known.extension is not None:
                self._context.extend(known.extension, key.span)
            return (scalar(known.name, key.span), item)
        if not isinstance(item, MappingNode) or key.text not in _AROUND_SETTINGS:
            return None
        inner = tuple(kept for one in item.entries if (kept := self._kept_entry(one, below(known) if known else None)))
        return (key, replace(item, entries=inner)) if inner else None


def _below(construct: Construct | None, name: str) -> Construct | None:
    known = construct.by_name.get(name) if construct else None
    return below(known) if known else None


def _is_kept(key: Key, name: str, item: Node) -> bool:
    """Whether this value, which is not in the written document, stays: it has no effect, or nothing else says it."""
    if key.verbatim or key.inert:
        return True
    return key.default is not None and name == key.name and repr(to_json(item)) == repr(key.default)


def _place(kept: Entry, entries: list[Entry], construct: Construct | None) -> int:
    """Return the index at which to reinsert an entry: before the first that is later in the canonical order."""
    position: Mapping[str, int] = construct.position if construct else {}
    own = position.get(kept[0].text, len(position))
    return next((at for at, (key, _) in enumerate(entries) if position.get(key.text, -1) > own), len(entries))


def _in_order_of(own: MappingNode, entries: list[Entry]) -> list[Entry]:
    """Return the entries, those also in the original mapping in its order; the others keep their positions."""
    rank = {place: index for index, (key, _) in enumerate(own.entries) for place in (key.text, key.span)}
    found = ((rank.get(key.text, rank.get(key.span)), index) for index, (key, _) in enumerate(entries))
    shared = [(place, index) for place, index in found if place is not None]
    moves = {index: source for (_, index), (_, source) in zip(shared, sorted(shared), strict=True)}
    return [entries[moves.get(index, index)] for index in range(len(entries))]
