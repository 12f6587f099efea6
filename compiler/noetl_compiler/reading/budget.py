"""Limits on the size of a document.

A text costs time and memory in proportion to its length, so its limit is generous: a plain playbook of 20,000 steps
passes. An alias costs a few characters, however large the node that it repeats, so aliases have a far smaller budget.
Their nodes are counted as if they were written out, at the alias and before anything walks them, so an alias bomb is
refused at the first alias that exceeds the budget. The same holds for entries that merge keys copy. The depth is
limited so that later phases may recurse.

A node costs more than its characters. A long text of very short nodes, such as ``[],[],[],``, is not a playbook but an
attack on the compiler, so a long text must have some characters for each node, and a collection not too many entries.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "MAX_BYTES",
    "MAX_DENSE_NODES",
    "MAX_DEPTH",
    "MAX_ENTRIES",
    "MAX_NODES",
    "MAX_REPEATED_CHARS",
    "MAX_REPEATED_NODES",
    "TOO_MANY_ENTRIES",
    "TOO_MANY_LEVELS",
    "Budget",
    "Size",
]

MAX_BYTES = 16_000_000
"""The size of a text in UTF-8. A step has 200 to 800 bytes."""

MAX_NODES = 1_500_000
"""Scalars, keys, mappings and sequences written in the text. A step has 20 to 70."""

MAX_ENTRIES = 100_000
"""The entries of one mapping or sequence."""

MAX_DENSE_NODES = 100_000
"""Up to this number, nodes may have any length. Beyond it, there must be CHARS_PER_NODE characters of text for each."""

CHARS_PER_NODE = 6
"""Real playbooks have at least 6.5, on average 9."""

MAX_REPEATED_NODES = 100_000
"""Nodes that all aliases repeat together, and entries that all merge keys copy together."""

MAX_REPEATED_CHARS = 2_000_000
"""Characters of scalars that all aliases repeat together."""

MAX_DEPTH = 100
TOO_MANY_LEVELS = f"there are more than {MAX_DEPTH} levels"
TOO_MANY_ENTRIES = f"a list or mapping has more than {MAX_ENTRIES:,} entries"


class Size(NamedTuple):
    """The size of a node with its aliases expanded; ``height`` is 0 for a scalar."""

    nodes: int
    chars: int
    height: int = 0

    def since(self, size_before: Size, height: int) -> Size:
        """Return the size of a node of this height; ``size_before`` is the budget used when the node began."""
        return Size(self.nodes - size_before.nodes, self.chars - size_before.chars, height)


class Budget:
    """The budget used so far. ``add_`` methods return an error message if a limit is exceeded, otherwise ``""``."""

    __slots__ = ("_chars", "_merged", "_nodes", "_repeated_chars", "_repeated_nodes")

    def __init__(self) -> None:
        self._nodes = self._chars = self._repeated_nodes = self._repeated_chars = self._merged = 0

    @property
    def used_size(self) -> Size:
        """The size of everything so far, with aliases expanded."""
        return Size(self._nodes + self._repeated_nodes, self._chars + self._repeated_chars)

    def add_scalar(self, chars: int, offset: int) -> str:
        """Add a scalar that begins at this offset of the text."""
        self._nodes += 1
        self._chars += chars
        if self._nodes <= MAX_DENSE_NODES:
            return ""
        if self._nodes > MAX_NODES:
            return f"there are more than {MAX_NODES:,} nodes"
        if self._nodes > MAX_DENSE_NODES + offset // CHARS_PER_NODE:
            return f"{self._nodes:,} nodes up to here have fewer than {CHARS_PER_NODE} characters each"
        return ""

    def add_collection(self, depth: int, offset: int) -> str:
        """Add a mapping or a sequence inside ``depth`` others."""
        return TOO_MANY_LEVELS if depth >= MAX_DEPTH else self.add_scalar(0, offset)

    def add_alias(self, repeated_size: Size, depth: int) -> str:
        """Add an alias inside ``depth`` collections."""
        self._repeated_nodes += repeated_size.nodes
        self._repeated_chars += repeated_size.chars
        if self._repeated_nodes > MAX_REPEATED_NODES:
            return f"the aliases repeat more than {MAX_REPEATED_NODES:,} nodes"
        if self._repeated_chars > MAX_REPEATED_CHARS:
            return f"the aliases repeat more than {MAX_REPEATED_CHARS:,} characters"
        if depth + repeated_size.height > MAX_DEPTH:
            return f"with the aliases written out there are more than {MAX_DEPTH} levels"
        return ""

    def add_merge(self, entries: int) -> str:
        """Add the entries that a merge key copies."""
        self._merged += entries
        return f"merge keys copy more than {MAX_REPEATED_NODES:,} entries" if self._merged > MAX_REPEATED_NODES else ""
