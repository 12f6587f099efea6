"""Plain JSON trees: reading and writing at dotted paths. Inputs are never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import merge_json
from noetl_compiler.templates import TemplateFailure

__all__ = ["plain", "read", "split_target", "value_to_write", "with_value"]


def read(tree: Any, path: str) -> Any:
    """Return the value at ``a.b.0``; the tree itself for an empty path. Raises KeyError if there is none."""
    for part in path.split(".") if path else ():
        tree = cast("list[Any]", tree)[int(part)] if isinstance(tree, list) else _member(tree, part)
    return tree


def plain(value: Any) -> Json:
    """Return the JSON of a view; other values unchanged."""
    return value.materialise() if hasattr(value, "materialise") else value


def _member(tree: Any, part: str) -> Any:
    if isinstance(tree, Mapping):
        return cast("Mapping[str, Any]", tree)[part]
    raise KeyError(part)


def split_target(target: str) -> tuple[str, str, str]:
    """Return the root, the path and the operation: ``ctx.a[]`` appends to a list, see graph.Assign."""
    plain, bracket, suffix = target.partition("[")
    root, _, path = plain.partition(".")
    return root, path, bracket + suffix


def value_to_write(trees: Sequence[Any], path: str, operator: str, value: Json) -> Json:
    """Return the value to write; for an addition, the one at ``path`` in the first tree that has it, with ``value``
    added.

    Raises TemplateFailure if the types do not fit.
    """
    if not operator:
        return value
    current: Json = next((node for tree in trees if (node := _read_or_none(tree, path)) is not None), None)
    match operator:
        case "[+]":
            return _sum(path, current, value)
        case "[|]":
            return merge_json(current, value)
        case "[*]":
            return [*_as_list([] if current is None else current), *_as_list(value)]
        case _:
            return [*_as_list([] if current is None else current), value]


def _sum(path: str, current: Json, value: Json) -> Json:
    if all(isinstance(operand, int | float) and not isinstance(operand, bool) for operand in (current or 0, value)):
        total = (current or 0) + value
        if isinstance(total, int) and not -(2**63) <= total < 2**64:
            raise TemplateFailure(f"{path} would have more than 64 bits")
        return total
    raise TemplateFailure(f"{value!r:.40} cannot be added to {path}, which is {current!r:.40}: only numbers can")


def _as_list(value: Json) -> list[Json]:
    """Return the list itself; any other value as a list with one item."""
    return cast("list[Json]", value) if isinstance(value, list) else [value]


def _read_or_none(tree: Any, path: str) -> Json:
    try:
        return read(tree, path)
    except (KeyError, IndexError, ValueError):
        return None


def with_value(tree: dict[str, Json], path: str, value: Json) -> dict[str, Json]:
    """Return the tree with ``value`` at ``a.b``. Values on the path that are not mappings are replaced."""
    first, _, inner_path = path.partition(".")
    if not inner_path:
        return {**tree, first: value}
    inner = tree.get(first)
    return {
        **tree,
        first: with_value(cast("dict[str, Json]", inner) if isinstance(inner, dict) else {}, inner_path, value),
    }
