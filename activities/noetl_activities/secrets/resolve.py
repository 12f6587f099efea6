"""Replaces references to secrets by their values, in a copy of a call's config."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from noetl_activities.errors import CredentialError
from noetl_compiler.language.tools import KINDS, SQL_FIELDS, SQL_KINDS
from noetl_compiler.secret_references import MARK, SecretReference, references_in

__all__ = ["part_at", "refers", "values_in", "with_values"]

Fetch: TypeAlias = Callable[[SecretReference], Awaitable[Any]]

_SQL_FIELDS = SQL_FIELDS | {"sql", "statement"}
"""The fields of tasks and sinks that contain SQL."""

_PLAIN = re.compile(r"(?:(?!--|/\*)[\w \-+/=.:@%~,])*", re.ASCII)
"""Values that are safe in SQL, quoted or not."""


async def with_values(value: Any, key: str, fetch: Fetch, kind: str = "") -> Any:
    """Return the JSON value with the references of the run with this key replaced by the values from ``fetch``; a
    reference inside text is replaced by text. In the config of a tool of this ``kind``, code keeps its references, and
    values in SQL must not contain quotes.
    """
    if not refers(value):
        return value
    references = {
        text[reference.start : reference.end]: reference.reference
        for text in _texts(value)
        for reference in references_in(text, key)
    }
    values = {text: await fetch(reference) for text, reference in references.items()}
    if not values:
        return value
    placed = _Placed(key, values)
    return placed.config(cast("dict[str, Any]", value), kind) if kind and isinstance(value, dict) else placed.of(value)


def refers(value: Any) -> bool:
    """Whether a JSON value may contain a reference."""
    return any(MARK in text for text in _texts(value))


def part_at(value: Any, reference: SecretReference) -> Any:
    """Return the part of a secret that the reference names. Raises CredentialError, which contains only names of
    fields.
    """
    selected = value
    for depth, part in enumerate(reference.path):
        fields, items = _fields(selected), _items(selected)
        try:
            selected = items[int(part)] if items else fields[part]
        except (LookupError, ValueError):
            above = ".".join(map(str, (reference.name, *reference.path[:depth])))
            has = f": it has {', '.join(map(str, fields))}" if fields else ""
            raise CredentialError(f"the secret {above!r} has no {str(part)!r}{has}") from None
    return selected


def values_in(secret: Any) -> list[Any]:
    """Return all values of a secret, except its type."""
    values: list[Any] = []
    waiting = [secret]
    while waiting:
        value = waiting.pop()
        inner = [*_items(value), *(item for name, item in _fields(value).items() if name != "type")]
        waiting += inner
        values += [] if inner else [value]
    return values


def _fields(value: Any) -> Mapping[Any, Any]:
    return cast("Mapping[Any, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


class _Placed:
    def __init__(self, key: str, values: Mapping[str, Any]) -> None:
        self._key = key
        self._values = values

    def config(self, config: Mapping[str, Any], kind: str) -> dict[str, Any]:
        """Return the config, resolved field by field, because fields differ in which values they allow."""
        sql = _SQL_FIELDS if kind in SQL_KINDS else frozenset[str]()
        code = KINDS[kind].code if kind in KINDS else frozenset[str]()
        return {name: value if name in code else self.of(value, is_sql=name in sql) for name, value in config.items()}

    def of(self, value: Any, *, is_sql: bool = False) -> Any:
        if isinstance(value, str):
            return self._text(value, is_sql)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {name: self.of(member, is_sql=is_sql) for name, member in members}
        if isinstance(value, list):
            return [self.of(item, is_sql=is_sql) for item in cast("list[Any]", value)]
        return value

    def _text(self, text: str, is_sql: bool) -> Any:
        parts: list[str] = []
        end = 0
        for reference in references_in(text, self._key):
            value = self._value(text[reference.start : reference.end], reference.reference)
            if not is_sql and (reference.start, reference.end) == (0, len(text)):
                return value
            written = value if isinstance(value, str) else json.dumps(value)
            if is_sql and not _PLAIN.fullmatch(written):
                label = reference.reference.label
                raise CredentialError(f"the secret {label!r} has characters that SQL cannot hold: bind it with params")
            parts += (text[end : reference.start], written)
            end = reference.end
        return "".join((*parts, text[end:])) if parts else text

    def _value(self, text: str, reference: SecretReference) -> Any:
        value = self._values[text]
        return json.dumps(value) if reference.form == "json" else value


def _texts(value: Any) -> Iterable[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += cast("dict[str, Any]", item).values()
        elif isinstance(item, list | tuple):
            waiting += cast("list[Any]", item)
