"""The contents of graph parts: JSON at pointers (RFC 6901), and templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from noetl_compiler.graph.values import Json, Template, Value

__all__ = ["merge_json", "pointer", "templates_in", "tokens_of", "value_at", "with_values_at"]


def pointer(parent: str, key: str | int) -> str:
    """Return the JSON pointer of a key or index below ``parent``."""
    token = str(key)
    if "~" in token or "/" in token:
        token = token.replace("~", "~0").replace("/", "~1")
    return f"{parent}/{token}"


@lru_cache(maxsize=4096)
def tokens_of(path: str) -> tuple[str, ...]:
    """Return the unescaped tokens of a JSON pointer."""
    tokens = path.split("/")[1:]
    return tuple([token.replace("~1", "/").replace("~0", "~") for token in tokens] if "~" in path else tokens)


def value_at(data: Json, path: str) -> Json:
    """Return the value at a JSON pointer."""
    for token in tokens_of(path):
        data = data[int(token) if isinstance(data, list) else token]
    return data


def with_values_at(data: Json, values: Mapping[str, Json]) -> Json:
    """Return a copy of the data with the values at these JSON pointers. The parents of each must be mappings."""
    for path, value in values.items():
        data = _with_value_at(data, tokens_of(path), value)
    return data


def _with_value_at(data: Json, tokens: tuple[str, ...], value: Json) -> Json:
    if not tokens:
        return value
    name, *others = tokens
    return {**data, name: _with_value_at(data[name] if others else None, tuple(others), value)}


def merge_json(base: Json, override: Json) -> Json:
    """Merge mappings key by key; any other value of ``override`` replaces that of ``base`` (semantics.md 11)."""
    if not (isinstance(base, dict) and isinstance(override, dict)):
        return override
    values, overrides = cast("dict[str, Json]", base), cast("dict[str, Json]", override)
    merged = {key: merge_json(values[key], value) if key in values else value for key, value in overrides.items()}
    return {**values, **merged}


def templates_in(part: object) -> Iterator[Template]:
    """Yield all templates in a value, a struct, or a collection of them."""
    if isinstance(part, Template):
        yield part
    elif isinstance(part, Value):
        for path, span in part.templates.items():
            yield Template(str(value_at(part.data, path)), span)
    elif isinstance(part, msgspec.Struct):
        for name in part.__struct_fields__:
            yield from templates_in(getattr(part, name))
    elif isinstance(part, Mapping):
        for item in cast("Mapping[str, Any]", part).values():
            yield from templates_in(item)
    elif isinstance(part, tuple):
        for item in cast("tuple[object, ...]", part):
            yield from templates_in(item)
