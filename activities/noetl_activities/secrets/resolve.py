"""Replaces references to secrets by their values, in a copy of a call's config."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from noetl_activities.errors import CredentialError
from noetl_compiler.language.tools import KINDS, SQL_FIELDS, SQL_KINDS
from noetl_compiler.secret_references import MARK, SecretReference, references_in

__all__ = ["leaf_values", "may_contain_reference", "replace_references", "select_part"]

Fetch: TypeAlias = Callable[[SecretReference], Awaitable[Any]]

_SQL_FIELDS = SQL_FIELDS | {"sql", "statement"}
"""The fields of tasks and sinks that contain SQL."""

_SAFE_IN_SQL = re.compile(r"(?:(?!--|/\*)[\w \-+/=.:@%~,])*", re.ASCII)
"""Values that are safe in SQL, quoted or not."""


async def replace_references(value: Any, key: str, fetch: Fetch, kind: str = "") -> Any:
    """Return the JSON value with the references of the run with this ``key`` replaced by the values from ``fetch``.

    Inside a longer string, the value is inserted as text. If the value is the config of a tool, ``kind`` is that of the
    tool: references in its code are kept, and values in its SQL must not contain quotes.
    """
    if not may_contain_reference(value):
        return value
    references = {
        text[reference.start : reference.end]: reference.reference
        for text in _strings(value)
        for reference in references_in(text, key)
    }
    values = {text: await fetch(reference) for text, reference in references.items()}
    if not values:
        return value
    replacement = _Replacement(key, values)
    return (
        replacement.replace_in_config(cast("dict[str, Any]", value), kind)
        if kind and isinstance(value, dict)
        else replacement.replace(value)
    )


def may_contain_reference(value: Any) -> bool:
    """Whether a JSON value may contain a reference."""
    return any(MARK in text for text in _strings(value))


def select_part(value: Any, reference: SecretReference) -> Any:
    """Return the part of a secret that the reference names. Raises CredentialError with a message without values."""
    value_at_path = value
    for depth, part in enumerate(reference.path):
        fields, items = _fields(value_at_path), _items(value_at_path)
        try:
            value_at_path = items[int(part)] if items else fields[part]
        except (LookupError, ValueError):
            parent = ".".join(map(str, (reference.name, *reference.path[:depth])))
            hint = f": it has {', '.join(map(str, fields))}" if fields else ""
            raise CredentialError(f"the secret {parent!r} has no {str(part)!r}{hint}") from None
    return value_at_path


def leaf_values(secret: Any) -> list[Any]:
    """Return all values inside a secret, except its type."""
    values: list[Any] = []
    pending = [secret]
    while pending:
        value = pending.pop()
        members = [*_items(value), *(item for name, item in _fields(value).items() if name != "type")]
        pending += members
        values += [] if members else [value]
    return values


def _fields(value: Any) -> Mapping[Any, Any]:
    return cast("Mapping[Any, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


class _Replacement:
    def __init__(self, key: str, values: Mapping[str, Any]) -> None:
        self._key = key
        self._values = values

    def replace_in_config(self, config: Mapping[str, Any], kind: str) -> dict[str, Any]:
        """Return the config with the references in its fields replaced, except in code."""
        sql = _SQL_FIELDS if kind in SQL_KINDS else frozenset[str]()
        code = KINDS[kind].code_fields if kind in KINDS else frozenset[str]()
        return {
            name: value if name in code else self.replace(value, is_sql=name in sql) for name, value in config.items()
        }

    def replace(self, value: Any, *, is_sql: bool = False) -> Any:
        if isinstance(value, str):
            return self._replace_in_string(value, is_sql)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {name: self.replace(member, is_sql=is_sql) for name, member in members}
        if isinstance(value, list):
            return [self.replace(item, is_sql=is_sql) for item in cast("list[Any]", value)]
        return value

    def _replace_in_string(self, text: str, is_sql: bool) -> Any:
        parts: list[str] = []
        end = 0
        for reference in references_in(text, self._key):
            value = self._value(text[reference.start : reference.end], reference.reference)
            if not is_sql and (reference.start, reference.end) == (0, len(text)):
                return value
            value_text = value if isinstance(value, str) else json.dumps(value)
            if is_sql and not _SAFE_IN_SQL.fullmatch(value_text):
                label = reference.reference.label
                raise CredentialError(f"the secret {label!r} has characters that SQL cannot hold: bind it with params")
            parts += (text[end : reference.start], value_text)
            end = reference.end
        return "".join((*parts, text[end:])) if parts else text

    def _value(self, text: str, reference: SecretReference) -> Any:
        value = self._values[text]
        return json.dumps(value) if reference.form == "json" else value


def _strings(value: Any) -> Iterable[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending += cast("dict[str, Any]", item).values()
        elif isinstance(item, list | tuple):
            pending += cast("list[Any]", item)
