"""What a playbook keeps that has the form of v10 already.

The syntax tree says what a playbook means, so what is emitted from it lacks all that means nothing here: a default
that is written out, a key that only other engines read, a task's name that it has anyway, the order of keys. In a
playbook of another form none of that has a place any more. In one of this form it has, and an author who asks for
today's spelling should get that and no other change.

So the written document and the author's are walked side by side, entry by entry where both have the same key and
item by item where lists are equally long. What the author has and the written document lacks is put back, if it
means nothing for sure; then the entries that both have get the author's order. Keys that he did not write stay
behind those that stand before them in the canonical order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

from noetl_compiler.emission.source_lookup import Entry
from noetl_compiler.graph import Json, Span
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, plain

__all__ = ["kept_as_written"]

_ANYTHING = object()
_MEANINGLESS: MappingProxyType[tuple[str, str], Json | object] = MappingProxyType(
    {
        ("", "workload"): {},
        ("policy", "mode"): _ANYTHING,
        ("admit", "mode"): _ANYTHING,
        ("policy", "exec"): _ANYTHING,
        ("failure", "mode"): _ANYTHING,
        ("spec", "mode"): _ANYTHING,
        ("spec", "no_next_is_error"): False,
        ("spec", "on_error"): "continue",
        ("then", "backoff"): "none",
        ("then", "jitter"): False,
        ("tool", "name"): _ANYTHING,
        ("tool", "input"): {},
        ("workflow", "input"): {},
        ("sink", "mode"): "insert",
    }
)
"""The key of a mapping (or of the list that it stands in) and one of its own keys -> what it may say to mean nothing.

Where the key does mean something, the written document has it, and nothing is put back.
"""

_AROUND_SETTINGS = frozenset({"executor", "spec", "policy"})
"""Mappings that may stand here for nothing but what has no effect."""

_OF_NAMES = frozenset({"set"})
"""Mappings whose keys are names that the author chose; the written document may spell them otherwise."""


def kept_as_written(document: MappingNode, root: MappingNode, ignored: Collection[Span]) -> MappingNode:
    """``document`` with what ``root`` has beside it. ``ignored`` are the places of keys that have no effect."""
    return _Keeping(frozenset(ignored)).mapping(document, root, "")


class _Keeping:
    def __init__(self, ignored: frozenset[Span]) -> None:
        self._ignored = ignored

    def mapping(self, written: MappingNode, own: MappingNode, name: str) -> MappingNode:
        theirs = {key.text: item for key, item in own.entries}
        entries = [(key, self._node(item, theirs.get(key.text), key.text)) for key, item in written.entries]
        said = {key.text for key, _ in entries}
        missing = (entry for entry in own.entries if entry[0].text not in said and name not in _OF_NAMES)
        entries += (kept for entry in missing if (kept := self._kept(entry, name)))
        return MappingNode(tuple(_in_order_of(own, entries)), own.span)

    def _node(self, written: Node, own: Node | None, name: str) -> Node:
        if isinstance(own, MappingNode) and isinstance(written, MappingNode):
            return self.mapping(written, own, name)
        if not isinstance(own, SequenceNode) or not isinstance(written, SequenceNode):
            return written
        if len(written.items) != len(own.items):
            return written
        pairs = zip(written.items, own.items, strict=True)
        return SequenceNode(tuple(self._node(item, its, name) for item, its in pairs), own.span)

    def _kept(self, entry: Entry, name: str) -> Entry | None:
        """The entry, or the part of it, that means nothing."""
        key, item = entry
        if key.span in self._ignored or self._says_nothing(name, key.text, item):
            return entry
        if not isinstance(item, MappingNode) or key.text not in _AROUND_SETTINGS:
            return None
        below = tuple(kept for one in item.entries if (kept := self._kept(one, key.text)))
        return (key, replace(item, entries=below)) if below else None

    def _says_nothing(self, name: str, key: str, item: Node) -> bool:
        if (name, key) not in _MEANINGLESS:
            return False
        expected = _MEANINGLESS[name, key]
        return expected is _ANYTHING or repr(plain(item)) == repr(expected)


def _in_order_of(own: MappingNode, entries: list[Entry]) -> list[Entry]:
    """The entries that the author has too, under whatever name, stand in his order; the others stay where they are."""
    rank = {place: index for index, (key, _) in enumerate(own.entries) for place in (key.text, key.span)}
    found = ((rank.get(key.text, rank.get(key.span)), index) for index, (key, _) in enumerate(entries))
    shared = [(place, index) for place, index in found if place is not None]
    moves = {index: source for (_, index), (_, source) in zip(shared, sorted(shared), strict=True)}
    return [entries[moves.get(index, index)] for index in range(len(entries))]
