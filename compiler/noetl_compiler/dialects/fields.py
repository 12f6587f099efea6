"""Read the fields of a YAML mapping with types and synonyms; report unknown keys.

A reader requests each field by all its names, old and new, and finally calls :meth:`Fields.check_keys`, which reports
the keys that were not requested. Null counts as absent. A wrong type is reported once and then also counts as absent,
so readers need no checks of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeVar

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean, did_you_mean_or_list
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.source import Span
from noetl_compiler.syntax import Name

__all__ = ["Fields", "is_misspelt", "kind_of"]

Choice = TypeVar("Choice")

_NO_SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_MIN_SIMILARITY = 0.75
_MAX_SHORT_KEY = 2
"""The number of characters up to which a key is too short to be recognized by its beginning."""


class Fields:
    """A mapping to be read. ``description`` is its name in messages: ``a step``, ``this loop``."""

    def __init__(self, node: MappingNode, report: Report, description: str) -> None:
        self.node = node
        self.span: Span = node.span
        self.report = report
        self.description = description
        self._entries = {entry[0].text: entry for entry in node.entries}
        self._requested: set[str] = set()
        self._spellings: Mapping[str, tuple[str, ...]] = _NO_SPELLINGS

    def __contains__(self, key: str) -> bool:
        return self._value_of(key) is not None

    def node_of(self, *keys: str) -> Node | None:
        """Return the field under any of its names; two of them at once are reported as an error."""
        if len(keys) == 1:
            keys = self._spellings.get(keys[0], keys)
        self._requested.update(keys)
        value, first_key = None, ""
        for key in keys:
            if key not in self._entries or (node := self._value_of(key)) is None:
                continue
            if value is None:
                value, first_key = node, key
            else:
                self._report_conflict(first_key, key)
        return value

    def lacks(self, *keys: str) -> bool:
        """Whether none of these fields is present. They count as requested."""
        self._requested.update(keys)
        return self._entries.keys().isdisjoint(keys)

    def _value_of(self, key: str) -> Node | None:
        """Return the value of a key, None if it is absent or null."""
        entry = self._entries.get(key)
        if entry is None or (isinstance(entry[1], ScalarNode) and entry[1].value is None):
            return None
        return entry[1]

    def scalar(self, *keys: str) -> ScalarNode | None:
        """Read a scalar field."""
        return self._scalar(self.node_of(*keys), keys[0], "a string")

    def _scalar(self, node: Node | None, key: str, expected: str) -> ScalarNode | None:
        if node is None or isinstance(node, ScalarNode):
            return node
        self._report_wrong_type(key, node, expected)
        return None

    def text(self, *keys: str) -> str:
        """Read a string, ``""`` if absent."""
        scalar = self.scalar(*keys)
        return scalar.text if scalar else ""

    def name(self, *keys: str) -> Name | None:
        """Read a name with its span."""
        node = self.node_of(*keys)
        if node is None:
            return None
        node = self._scalar(node, keys[0], "a string")
        return Name(node.text, node.span) if node and node.text else None

    def required_name(self, *keys: str, hint: str = "", mistaken_key: str = "") -> Name | None:
        """Read a name; report it if absent. ``mistaken_key`` is a key that is often written in its place."""
        name = self.name(*keys)
        if name is None and not any(isinstance(self._value_of(key), MappingNode | SequenceNode) for key in keys):
            self.report_missing(keys[0], hint=hint, mistaken_key=mistaken_key)
        return name

    def flag(self, *keys: str) -> bool | None:
        """Return a boolean."""
        scalar = self._scalar(self.node_of(*keys), keys[0], "true or false")
        if scalar is None or isinstance(scalar.value, bool):
            return scalar.value if scalar else None
        self._report_wrong_type(keys[0], scalar, "true or false")
        return None

    def number(self, *keys: str) -> float | None:
        """Return a number written as such."""
        scalar = self._scalar(self.node_of(*keys), keys[0], "a number")
        if scalar is None:
            return None
        if isinstance(scalar.value, int | float) and not isinstance(scalar.value, bool):
            return float(scalar.value)
        self._report_wrong_type(keys[0], scalar, "a number")
        return None

    def choice(self, key: str, meanings: Mapping[str, Choice]) -> Choice | None:
        """Return the meaning of one of several words."""
        node = self.node_of(key)
        if node is None:
            return None
        scalar = self._scalar(node, key, "a string")
        if scalar is None:
            return None
        if scalar.text not in meanings:
            expected = ", ".join(f'"{word}"' for word in sorted(meanings))
            message = f'invalid value "{scalar.text}" for "{key}"'
            hint = did_you_mean(scalar.text.lower(), meanings) or f"expected one of {expected}"
            self.report.error(Code.WRONG_VALUE, scalar.span, message, hint)
        return meanings.get(scalar.text)

    def fields(self, key: str, description: str) -> Fields | None:
        """Return the reader of a field that is a mapping."""
        node = self.mapping(key)
        return Fields(node, self.report, description) if node else None

    def mapping(self, *keys: str) -> MappingNode | None:
        """Read a mapping."""
        node = self.node_of(*keys)
        if node is None or isinstance(node, MappingNode):
            return node
        self._report_wrong_type(keys[0], node, "a mapping")
        return None

    def items(self, *keys: str) -> tuple[Node, ...]:
        """Read the items of a list."""
        node = self.node_of(*keys)
        if isinstance(node, SequenceNode):
            return node.items
        if node is not None:
            self._report_wrong_type(keys[0], node, "a list", f"write {keys[0]}: [...]")
        return ()

    def take_remaining(self, allowed_keys: Collection[str] | None) -> tuple[tuple[ScalarNode, Node], ...]:
        """Return the entries not read so far whose key is allowed; None allows all keys."""
        entries = tuple(
            entry
            for key, entry in self._entries.items()
            if key not in self._requested and (allowed_keys is None or key in allowed_keys)
        )
        self._requested.update(key.text for key, _ in entries)
        return entries

    def ignore(self, *keys: str, reason: str) -> None:
        """Warn that known fields have no effect here."""
        for key in keys:
            self._requested.add(key)
            if key in self:
                message = f'"{key}" has no effect in {self.description}'
                self.report.warning(Code.IGNORED_FIELD, self._entries[key][0].span, message, reason)

    def warn_of_null(self, key: str, hint: str) -> None:
        """Warn if a field has no value, as it then has no effect."""
        if key in self._entries and key not in self:
            message = f'"{key}" has no value, so it has no effect'
            self.report.warning(Code.IGNORED_FIELD, self._entries[key][0].span, message, hint)

    def report_missing(self, key: str, *alternatives: str, hint: str = "", mistaken_key: str = "") -> None:
        """Report a missing field; if a key is a misspelling of it, or is ``mistaken_key``, report that key instead.

        The field may be replaced by any of the ``alternatives``.
        """
        misspelt = next((node for word, (node, _) in self._entries.items() if is_misspelt(word, key)), None)
        if misspelt is None and mistaken_key in self._entries:
            misspelt = self._entries[mistaken_key][0]
        if misspelt is None and (empty_key := self._empty_key_of(key, *alternatives)) is not None:
            self.report.error(Code.MISSING_FIELD, empty_key.span, f'"{empty_key.text}" has no value', hint)
        elif misspelt is None:
            *others, last = (f'"{name}"' for name in (key, *alternatives))
            expected_keys = f"{', '.join(others)} or {last}" if others else last
            self.report.error(Code.MISSING_FIELD, self.span, f"{self.description} needs {expected_keys}", hint)
        else:
            self._requested.add(misspelt.text)
            self._report_unknown(misspelt, f'did you mean "{key}"?')

    def _empty_key_of(self, *keys: str) -> ScalarNode | None:
        """Return the first of the keys that is written without a value, or with null."""
        spellings = (name for key in keys for name in self._spellings.get(key, (key,)))
        return next((self._entries[name][0] for name in spellings if name in self._entries), None)

    def check_keys(
        self, also_known: Collection[str] = (), spec_keys: Collection[str] = (), step_keys: Collection[str] = ()
    ) -> None:
        """Report the keys that were not requested, with the nearest known key.

        ``also_known`` are known keys that no reader requests. ``spec_keys`` belong below ``spec``, ``step_keys`` to the
        step.
        """
        if self._entries.keys() <= self._requested:
            return
        for key, (node, _) in self._entries.items():
            if key in spec_keys and key not in self._requested:
                self._report_unknown(node, f"write it below spec: spec: {{{key}: ...}}")
            elif key in step_keys and key not in self._requested:
                self._report_unknown(node, f'write it in the step, beside "tool": {key}: ...')
            elif key not in self._requested:
                self._report_unknown(node, did_you_mean_or_list(key, {*self._requested, *also_known}, "its keys are"))

    def _report_unknown(self, key: ScalarNode, hint: str) -> None:
        self.report.error(Code.UNKNOWN_KEY, key.span, f'unknown key "{key.text}" in {self.description}', hint)

    def _report_conflict(self, first: str, second: str) -> None:
        related = (Related(self._entries[first][0].span, f'"{first}" is here'),)
        message = f'"{first}" and "{second}" are synonyms'
        self.report.error(Code.CONFLICTING_FIELDS, self._entries[second][0].span, message, "keep one of them", related)

    def _report_wrong_type(self, key: str, node: Node, expected: str, hint: str = "") -> None:
        key_as_written = next((name for name, (_, value) in self._entries.items() if value is node), key)
        message = f'"{key_as_written}" must be {expected}, not {kind_of(node)}'
        self.report.error(Code.WRONG_TYPE, node.span, message, hint)


def is_misspelt(word: str, key: str) -> bool:
    """Whether ``word`` is ``key`` with an inner letter changed, one letter more or less at the end, or two swapped."""
    if word == key or abs(len(word) - len(key)) > 1:
        return False
    if len(key) > _MAX_SHORT_KEY and (word.startswith(key) or key.startswith(word)):
        return True
    has_same_ends = word[:1] == key[:1] and word[-1:] == key[-1:]
    similarity = difflib.SequenceMatcher(None, word, key).ratio() if has_same_ends else 0
    return similarity >= _MIN_SIMILARITY or sorted(word) == sorted(key)


def kind_of(node: Node) -> str:
    """Return the type of a node, as it is named in messages."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node.value, bool):
        return "true or false"
    return "a number" if isinstance(node.value, int | float) else "a string"
