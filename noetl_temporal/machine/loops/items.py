"""The items of a loop: its collection, filtered, ordered and cut as the playbook says (semantics.md 22, 23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_compiler import templates
from noetl_compiler.graph import Json, Loop, Step, Template
from noetl_compiler.graph.contents import templates_in
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.scope import Chain

__all__ = ["MAX_IN_FLIGHT", "body_paths", "in_flight", "items_of"]

MAX_IN_FLIGHT = 500
"""Iterations in flight in one workflow (temporal.md 0)."""

DEFAULT_IN_FLIGHT = 16


def items_of(loop: Loop, scope: Mapping[str, Any]) -> list[Json]:
    """The items in order. A text or a map is one item, none is no item."""
    if loop.collection is None:
        raise TemplateFailure("a cursor loop cannot run yet: use a collection", loop.span)
    items = _listed(templates.render(loop.collection, scope))
    if loop.where is not None:
        items = [item for item in items if templates.predicate(loop.where.source, _with(loop, scope, item)).matched]
    if loop.order_by is not None:
        items = _ordered(items, loop.order_by, loop, scope)
    limit = _count(loop, "limit", scope)
    items = items if limit is None else items[:limit]
    size = _count(loop, "chunk_size", scope)
    return _chunks(items, max(1, size or 1)) if loop.mode == "chunked" else items


def _listed(found: Json) -> list[Json]:
    if found is None:
        return []
    return list(cast("list[Json]", found)) if isinstance(found, list) else [found]


def _chunks(items: list[Json], size: int) -> list[Json]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _ordered(items: list[Json], by: Template, loop: Loop, scope: Mapping[str, Any]) -> list[Json]:
    """Sorted by a template's value; a plain field name means that field of the item."""
    source = by.source
    if "{{" not in source:
        source = f"{{{{ {loop.element}.{source} }}}}"
    keys = [templates.render_text(source, _with(loop, scope, item)) for item in items]
    try:
        return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]
    except TypeError as error:
        raise TemplateFailure("order_by gives values that cannot be compared", by.span) from error


def _with(loop: Loop, scope: Mapping[str, Any], item: Json) -> Mapping[str, Any]:
    return Chain({loop.element: item, "iter": {loop.element: item}}, scope)


def _count(loop: Loop, field: str, scope: Mapping[str, Any]) -> int | None:
    value = getattr(loop, field)
    found = templates.render(value, scope) if value is not None else None
    if found is None:
        return None
    try:
        return int(found)
    except (TypeError, ValueError) as error:
        raise TemplateFailure(f"{field} is {found!r}, expected a whole number", loop.span) from error


def in_flight(loop: Loop, scope: Mapping[str, Any]) -> int:
    """How many iterations may run at once."""
    if loop.mode != "parallel":
        return 1
    return min(MAX_IN_FLIGHT, max(1, _count(loop, "max_in_flight", scope) or DEFAULT_IN_FLIGHT))


def body_paths(step: Step) -> tuple[str, ...]:
    """The paths that the loop's body names, so that its own workflow is sent those and no more."""
    return tuple(sorted({path for one in templates_in(step.tasks) for path in templates.paths(one.source)}))
