"""Read the fields of a YAML mapping with types and synonyms; report unknown keys.

A reader requests each field by all its names, old and new, and finally calls :meth:`Fields.close`, which reports the
keys that were not requested. Null counts as absent. A wrong type is reported once and then also counts as absent, so
readers need no checks of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeVar

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, nearest, nearest_or_all
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.source import Span
from noetl_compiler.syntax import Name

__all__ = ["Fields", "is_misspelt", "kind_of"]

Choice = TypeVar("Choice")

_NO_TABLE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_MISSPELT = 0.75
_SHORTEST = 2


class Fields:
    """A mapping to be read. ``place`` names it in messages: ``a step``, ``this loop``."""

    def __init__(self, node: MappingNode, report: Report, place: str) -> None:
        self.node = node
        self.span: Span = node.span
        self.report = report
        self.place = place
        self._entries = {entry[0].text: entry for entry in node.entries}
        self._asked: set[str] = set()
        self._spellings: Mapping[str, tuple[str, ...]] = _NO_TABLE

    def __contains__(self, key: str) -> bool:
        return self._present(key) is not None

    def node_of(self, *keys: str) -> Node | None:
        """Return the field under any of its names; two of them at once are reported as an error."""
        if len(keys) == 1:
            keys = self._spellings.get(keys[0], keys)
        self._asked.update(keys)
        found, first = None, ""
        for key in keys:
            if key not in self._entries or (node := self._present(key)) is None:
                continue
            if found is None:
                found, first = node, key
            else:
                self._conflict(first, key)
        return found

    def lacks(self, *keys: str) -> bool:
        """Whether none of several fields is there. They count as requested."""
        self._asked.update(keys)
        return self._entries.keys().isdisjoint(keys)

    def _present(self, key: str) -> Node | None:
        """Return the value of a key, None if it is absent or null."""
        entry = self._entries.get(key)
        if entry is None or (isinstance(entry[1], ScalarNode) and entry[1].value is None):
            return None
        return entry[1]

    def scalar(self, *keys: str) -> ScalarNode | None:
        """Read a scalar field."""
        return self._scalar(self.node_of(*keys), keys[0], "text")

    def _scalar(self, found: Node | None, key: str, expected: str) -> ScalarNode | None:
        if found is None or isinstance(found, ScalarNode):
            return found
        self._wrong_type(key, found, expected)
        return None

    def text(self, *keys: str) -> str:
        """Read a text, ``""`` if absent."""
        found = self.scalar(*keys)
        return found.text if found else ""

    def name(self, *keys: str) -> Name | None:
        """Read a name with its span."""
        found = self.node_of(*keys)
        if found is None:
            return None
        found = self._scalar(found, keys[0], "text")
        return Name(found.text, found.span) if found and found.text else None

    def required_name(self, *keys: str, hint: str = "", mistaken: str = "") -> Name | None:
        """Read a name; report it if absent. ``mistaken`` is a key that is often written in its place."""
        found = self.name(*keys)
        if found is None and not any(isinstance(self._present(key), MappingNode | SequenceNode) for key in keys):
            self.missing(keys[0], hint, mistaken)
        return found

    def flag(self, *keys: str) -> bool | None:
        """Return a boolean."""
        found = self._scalar(self.node_of(*keys), keys[0], "true or false")
        if found is None or isinstance(found.value, bool):
            return found.value if found else None
        self._wrong_type(keys[0], found, "true or false")
        return None

    def number(self, *keys: str) -> float | None:
        """Return a number written as such."""
        found = self._scalar(self.node_of(*keys), keys[0], "a number")
        if found is None:
            return None
        if isinstance(found.value, int | float) and not isinstance(found.value, bool):
            return float(found.value)
        self._wrong_type(keys[0], found, "a number")
        return None

    def choice(self, key: str, meanings: Mapping[str, Choice]) -> Choice | None:
        """Read one of several words; return its meaning."""
        node = self.node_of(key)
        if node is None:
            return None
        found = self._scalar(node, key, "text")
        if found is None:
            return None
        if found.text not in meanings:
            expected = ", ".join(f'"{word}"' for word in sorted(meanings))
            message = f'invalid value "{found.text}" for "{key}"'
            hint = nearest(found.text.lower(), meanings) or f"expected one of {expected}"
            self.report.error(Code.WRONG_VALUE, found.span, message, hint)
        return meanings.get(found.text)

    def fields(self, key: str, place: str) -> Fields | None:
        """Return the reader of a field that is a mapping."""
        found = self.mapping(key)
        return Fields(found, self.report, place) if found else None

    def mapping(self, *keys: str) -> MappingNode | None:
        """Read a mapping."""
        found = self.node_of(*keys)
        if found is None or isinstance(found, MappingNode):
            return found
        self._wrong_type(keys[0], found, "a mapping")
        return None

    def items(self, *keys: str) -> tuple[Node, ...]:
        """Read the items of a list."""
        found = self.node_of(*keys)
        if isinstance(found, SequenceNode):
            return found.items
        if found is not None:
            self._wrong_type(keys[0], found, "a list", f"write {keys[0]}: [...]")
        return ()

    def rest(self, allowed: Collection[str] | None) -> tuple[tuple[ScalarNode, Node], ...]:
        """Return the entries not read so far whose key is allowed; None allows all keys."""
        found = tuple(
            entry
            for key, entry in self._entries.items()
            if key not in self._asked and (allowed is None or key in allowed)
        )
        self._asked.update(key.text for key, _ in found)
        return found

    def ignore(self, *keys: str, why: str) -> None:
        """Warn that known fields have no effect here."""
        for key in keys:
            self._asked.add(key)
            if key in self:
                message = f'"{key}" has no effect in {self.place}'
                self.report.warning(Code.IGNORED_FIELD, self._entries[key][0].span, message, why)

    def missing(self, key: str, hint: str = "", mistaken: str = "") -> None:
        """Report a missing field; if there is a misspelling of it, or ``mistaken``, report that key instead."""
        misspelt = next((node for word, (node, _) in self._entries.items() if is_misspelt(word, key)), None)
        if misspelt is None and mistaken in self._entries:
            misspelt = self._entries[mistaken][0]
        if misspelt is None:
            self.report.error(Code.MISSING_FIELD, self.span, f'{self.place} needs "{key}"', hint)
        else:
            self._asked.add(misspelt.text)
            self._unknown(misspelt, f'did you mean "{key}"?')

    def close(self, also: Collection[str] = (), spec: Collection[str] = (), step: Collection[str] = ()) -> None:
        """Report the keys that were not requested, with the nearest known key.

        ``also`` has further candidates, ``spec`` the keys that belong below ``spec``, ``step`` those of the step.
        """
        if self._entries.keys() <= self._asked:
            return
        for key, (node, _) in self._entries.items():
            if key in spec and key not in self._asked:
                self._unknown(node, f"write it below spec: spec: {{{key}: ...}}")
            elif key in step and key not in self._asked:
                self._unknown(node, f'write it in the step, beside "tool": {key}: ...')
            elif key not in self._asked:
                self._unknown(node, nearest_or_all(key, {*self._asked, *also}, "its keys are"))

    def _unknown(self, key: ScalarNode, hint: str) -> None:
        self.report.error(Code.UNKNOWN_KEY, key.span, f'unknown key "{key.text}" in {self.place}', hint)

    def _conflict(self, first: str, second: str) -> None:
        related = (Related(self._entries[first][0].span, f'"{first}" is here'),)
        message = f'"{first}" and "{second}" are synonyms'
        self.report.error(Code.CONFLICTING_FIELDS, self._entries[second][0].span, message, "keep one of them", related)

    def _wrong_type(self, key: str, node: Node, expected: str, hint: str = "") -> None:
        written = next((name for name, (_, value) in self._entries.items() if value is node), key)
        message = f'"{written}" must be {expected}, not {kind_of(node)}'
        self.report.error(Code.WRONG_TYPE, node.span, message, hint)


def is_misspelt(word: str, meant: str) -> bool:
    """Whether ``word`` differs from ``meant`` by one inner letter, one letter at the end, or the order of letters."""
    if word == meant or abs(len(word) - len(meant)) > 1:
        return False
    if len(meant) > _SHORTEST and (word.startswith(meant) or meant.startswith(word)):
        return True
    is_like = word[:1] == meant[:1] and word[-1:] == meant[-1:]
    alike = difflib.SequenceMatcher(None, word, meant).ratio() if is_like else 0
    return alike >= _MISSPELT or sorted(word) == sorted(meant)


def kind_of(node: Node) -> str:
    """Return the type of a node, as it is named in messages."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node.value, bool):
        return "true or false"
    return "a number" if isinstance(node.value, int | float) else "text"
