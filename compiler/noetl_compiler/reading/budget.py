"""How large a document may be.

Text itself needs no limit: it costs time and memory in proportion to its length, and a plain playbook of
20,000 steps passes. What an alias repeats costs a few characters however large it is, so that has a far smaller budget
of its own. It is counted as if it were written out, at the alias, before anything walks it: a bomb of aliases is
refused at the one that goes too far; so is what merges carry from one mapping to the next. Levels are counted so that
later phases may recurse.

A node costs more than its characters. A long text of very short ones, such as ``[],[],[],``, is no playbook but a way
to keep a compiler busy: what is long has to have some characters for each node, and a collection not too many entries.
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
"""Up to this number, nodes may be of any length. Beyond it, there may be one node for each CHARS_A_NODE characters of
the text before it.
"""

CHARS_A_NODE = 6
"""Real playbooks have at least 6.5, on average 9."""

MAX_REPEATED_NODES = 100_000
"""Nodes that all aliases together repeat, and entries that all merges together carry into another mapping."""

MAX_REPEATED_CHARS = 2_000_000
"""Characters of scalars that all aliases together repeat."""

MAX_DEPTH = 100
TOO_MANY_LEVELS = f"there are more than {MAX_DEPTH} levels"
TOO_MANY_ENTRIES = f"a list or mapping has more than {MAX_ENTRIES:,} entries"


class Size(NamedTuple):
    """The size of a node with its aliases expanded; ``height`` is 0 for a scalar."""

    nodes: int
    chars: int
    height: int = 0

    def since(self, before: Size, height: int) -> Size:
        """Return the size that was added since ``before``, by a node of this height."""
        return Size(self.nodes - before.nodes, self.chars - before.chars, height)


class Budget:
    """The budget used so far. Methods that use more return what exceeds the budget, ``""`` if nothing does."""

    __slots__ = ("_chars", "_merged", "_nodes", "_repeated_chars", "_repeated_nodes")

    def __init__(self) -> None:
        self._nodes = self._chars = self._repeated_nodes = self._repeated_chars = self._merged = 0

    @property
    def used(self) -> Size:
        """Everything so far, written out."""
        return Size(self._nodes + self._repeated_nodes, self._chars + self._repeated_chars)

    def scalar(self, chars: int, offset: int) -> str:
        """A scalar written in the text, ``offset`` characters from its beginning."""
        self._nodes += 1
        self._chars += chars
        if self._nodes <= MAX_DENSE_NODES:
            return ""
        if self._nodes > MAX_NODES:
            return f"there are more than {MAX_NODES:,} nodes"
        if self._nodes > MAX_DENSE_NODES + offset // CHARS_A_NODE:
            return f"{self._nodes:,} nodes up to here have fewer than {CHARS_A_NODE} characters each"
        return ""

    def collection(self, depth: int, offset: int) -> str:
        """A mapping or a sequence written in the text, ``depth`` collections around it."""
        return TOO_MANY_LEVELS if depth >= MAX_DEPTH else self.scalar(0, offset)

    def alias(self, repeated: Size, depth: int) -> str:
        """An alias, ``depth`` collections around it."""
        self._repeated_nodes += repeated.nodes
        self._repeated_chars += repeated.chars
        if self._repeated_nodes > MAX_REPEATED_NODES:
            return f"the aliases repeat more than {MAX_REPEATED_NODES:,} nodes"
        if self._repeated_chars > MAX_REPEATED_CHARS:
            return f"the aliases repeat more than {MAX_REPEATED_CHARS:,} characters"
        if depth + repeated.height > MAX_DEPTH:
            return f"with the aliases written out there are more than {MAX_DEPTH} levels"
        return ""

    def merge(self, entries: int) -> str:
        """A mapping whose entries are carried into another."""
        self._merged += entries
        return f"merges carry more than {MAX_REPEATED_NODES:,} keys" if self._merged > MAX_REPEATED_NODES else ""
