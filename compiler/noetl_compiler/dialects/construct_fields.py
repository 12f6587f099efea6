"""Read a construct that is declared in the table of keys (language/constructs).

The table declares the keys with their synonyms and types, so a reader requests a key by its canonical name. Declared
keys that no reader requests are type-checked, or reported as having no effect. If a reader requests a key with a type
other than the declared one, that is a bug in the compiler and raises TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Self, TypeVar

from noetl_compiler.codes import Code
from noetl_compiler.dialects import values
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Template, Timeout, Value
from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.value_types import TIMEOUT, Choice, ListOf, Plain, Range, Suggested
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.report import Report
from noetl_compiler.source import Span

__all__ = ["ConstructFields"]

Meaning = TypeVar("Meaning")


class ConstructFields(Fields):
    """The fields of a construct, read by the names and types that its table declares."""

    def __init__(self, node: MappingNode, report: Report, construct: Construct) -> None:
        super().__init__(node, report, construct.description)
        self._declared_keys = construct.by_name
        self._construct = construct
        self._spellings = construct.spellings
        self._reported_missing: set[str] = set()

    @classmethod
    def nested(cls, fields: Fields, key: str, construct: Construct) -> Self | None:
        """Return the field ``key``, which is this construct; None if it is absent."""
        node = fields.mapping(key)
        return cls(node, fields.report, construct) if node else None

    @classmethod
    def empty(cls, span: Span, report: Report, construct: Construct) -> Self:
        """Return an absent construct: one without fields."""
        return cls(MappingNode((), span), report, construct)

    # ---- values of one type ------------------------------------------------------------------------------------------

    def choice(self, key: str, meanings: Mapping[str, Meaning]) -> Meaning | None:
        """Return the meaning of one of several words."""
        declared_key = self._declared_keys.get(key)
        if (
            declared_key is not None
            and isinstance(declared_key.type, Choice)
            and declared_key.type.words is not meanings
        ):
            raise TypeError(f'"{key}" in {self.description} is declared with other words than it is read with')
        return super().choice(key, meanings)

    def flag(self, *keys: str) -> bool | None:
        """Return a boolean."""
        self._require_declared_type(keys[0], Plain.FLAG)
        return super().flag(*keys)

    def number(self, *keys: str) -> float | None:
        """Return a number written as such."""
        self._require_declared_type(keys[0], Plain.NUMBER)
        return super().number(*keys)

    def number_in_range(self, key: str, expected: Range) -> float | None:
        """Return a number in a range."""
        declared_key = self._declared_keys.get(key)
        if declared_key is not None and declared_key.type != expected:
            raise TypeError(f'"{key}" in {self.description} is {declared_key.type}, and is read as {expected}')
        node = self.scalar(key)
        if node is None:
            return None
        number = node.value
        if isinstance(number, int if expected.is_integer else int | float) and not isinstance(number, bool):
            if expected.minimum <= number <= expected.maximum:
                return number
            self.report.error(Code.WRONG_VALUE, node.span, f'"{key}" must be {expected.description}')
            return None
        self._report_wrong_type(key, node, expected.description)
        return None

    def integer(self, key: str) -> ScalarNode | None:
        """Return an integer of 0 or more."""
        self._require_declared_type(key, Plain.INTEGER)
        node = self.scalar(key)
        if node is None or (isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0):
            return node
        self._report_wrong_type(key, node, Plain.INTEGER.value)
        return None

    def amount(self, key: str) -> Value | None:
        """Return a number, or a template that yields one."""
        self._require_declared_type(key, Plain.AMOUNT)
        return values.amount(self.node_of(key), self.report)

    def count(self, key: str) -> Value | None:
        """Return a number from 1, or a template that yields one."""
        self._require_declared_type(key, Plain.COUNT)
        return values.count(self.node_of(key), self.report)

    def seconds(self, key: str) -> Value | None:
        """Return a duration, or a template that yields one."""
        self._require_declared_type(key, Plain.SECONDS)
        return values.seconds(self.node_of(key), self.report)

    def timeout(self, key: str = "timeout") -> Timeout | None:
        """Return a timeout: a total duration, or ``{connect, read, total}``."""
        return values.timeout(self.node_of(key), self.report)

    def condition(self, key: str) -> Template | None:
        """Return a predicate."""
        self._require_declared_type(key, Plain.CONDITION)
        return values.condition(self.node_of(key), self.report)

    def names(self, key: str) -> Value:
        """Return a mapping of names to values, or a template that yields one."""
        self._require_declared_type(key, Plain.NAMES)
        return values.mapping_value(self.node_of(key), self.report, key)

    def _require_declared_type(self, name: str, read_as: Plain) -> None:
        declared_key = self._declared_keys.get(name)
        if declared_key is not None and declared_key.type is not read_as:
            raise TypeError(f'"{name}" in {self.description} is {declared_key.type}, and is read as {read_as}')

    # ---- remaining and missing keys ----------------------------------------------------------------------------------

    def take_remaining(self, allowed_keys: Collection[str] | None) -> tuple[tuple[ScalarNode, Node], ...]:
        """Return the entries not read so far whose key is allowed; None allows all undeclared keys."""
        if allowed_keys is None:
            allowed_keys = self._entries.keys() - self._declared_keys.keys()
        return super().take_remaining(allowed_keys)

    def report_missing(self, key: str, *alternatives: str, hint: str = "", mistaken_key: str = "") -> None:
        """Report that a required field is missing."""
        self._reported_missing.add(key)
        super().report_missing(key, *alternatives, hint=hint, mistaken_key=mistaken_key)

    def check_keys(
        self, also_known: Collection[str] = (), spec_keys: Collection[str] = (), step_keys: Collection[str] = ()
    ) -> None:
        """Report missing keys, and those that are unknown, deprecated, without effect, or of a wrong type."""
        for key in self._construct.required_keys:
            is_reported = key.name in self._reported_missing
            if key.name not in self and not is_reported and not any(map(self._value_of, key.older)):
                self.report_missing(key.name)
        for key in self._construct.superseded_keys:
            self._warn_of_older_form(key)
        if unrequested_keys := self._entries.keys() - self._requested:
            for name in sorted(unrequested_keys):
                self._check_unrequested(name)
            super().check_keys(
                (*also_known, *self._declared_keys) if also_known else self._declared_keys, spec_keys, step_keys
            )

    def _report_unknown(self, key: ScalarNode, hint: str) -> None:
        if "tool" in self._declared_keys and key.text in self.report.tools:
            hint = f"write tool: {{kind: {key.text}, ...}}"
        super()._report_unknown(key, hint)

    def _check_unrequested(self, name: str) -> None:
        """Check a key that no reader has requested."""
        declared_key = self._declared_keys.get(name)
        if declared_key is not None and declared_key.no_effect:
            self.ignore(name, reason=declared_key.no_effect)
        elif declared_key is not None:
            self._check_type(declared_key)

    def _warn_of_older_form(self, key: Key) -> None:
        if key.name in self and self.report.first_time(f"deprecated {key.name}"):
            message = f'"{key.name}" in this form is from an older dialect'
            self.report.warning(Code.DEPRECATED_FORM, self._entries[key.name][1].span, message, key.successor)

    def _check_type(self, key: Key) -> None:
        """Read a key that no reader has requested, to report a wrong type."""
        match key.type:
            case Choice(words):
                self.choice(key.name, words)
            case Range():
                self.number_in_range(key.name, key.type)
            case ListOf():
                self.items(key.name)
            case Plain() | Suggested():
                self._check_plain_type(key.name, key.type.type if isinstance(key.type, Suggested) else key.type)
            case _ if key.type == TIMEOUT:
                self.timeout(key.name)
            case _:
                self.node_of(key.name)

    def _check_plain_type(self, name: str, expected: Plain) -> None:
        readers: Mapping[Plain, Callable[[str], object]] = {
            **dict.fromkeys((Plain.TEXT, Plain.NAME, Plain.HEADER), self.scalar),
            Plain.FLAG: self.flag,
            Plain.NUMBER: self.number,
            Plain.INTEGER: self.integer,
            Plain.AMOUNT: self.amount,
            Plain.COUNT: self.count,
            Plain.SECONDS: self.seconds,
            Plain.CONDITION: self.condition,
            Plain.NAMES: self.names,
            Plain.MAPPING: self.mapping,
            Plain.ANYTHING: self.node_of,
        }
        readers[expected](name)
