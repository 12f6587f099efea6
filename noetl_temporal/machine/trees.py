"""Plain JSON trees: merging, reading and writing at dotted paths. Inputs are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_compiler.graph import Json

__all__ = ["merged", "read", "written"]


def merged(under: Json, over: Json) -> Json:
    """Maps merge key by key, anything else of ``over`` replaces (semantics.md 11)."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    mine, theirs = cast("dict[str, Json]", under), cast("dict[str, Json]", over)
    return {**mine, **{key: merged(mine[key], value) if key in mine else value for key, value in theirs.items()}}


def read(tree: Any, path: str) -> Any:
    """The value at ``a.b.0``; the tree itself for an empty path. KeyError when there is nothing."""
    for part in path.split(".") if path else ():
        tree = cast("list[Any]", tree)[int(part)] if isinstance(tree, list) else _member(tree, part)
    return tree


def _member(tree: Any, part: str) -> Any:
    if isinstance(tree, Mapping):
        return cast("Mapping[str, Any]", tree)[part]
    raise KeyError(part)


def written(tree: dict[str, Json], path: str, value: Json) -> dict[str, Json]:
    """The tree with ``value`` at ``a.b``; what is no map on the way is replaced."""
    first, _, rest = path.partition(".")
    if not rest:
        return {**tree, first: value}
    inner = tree.get(first)
    return {**tree, first: written(cast("dict[str, Json]", inner) if isinstance(inner, dict) else {}, rest, value)}
