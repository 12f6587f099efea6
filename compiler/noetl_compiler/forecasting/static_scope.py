"""Evaluate what is known before a run: the names that its request and workload bind, and the items of its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from noetl_compiler import templates
from noetl_compiler.graph import Json, Loop, Template, Value
from noetl_compiler.graph.contents import merge_json, tokens_of
from noetl_compiler.value_merge import mapping_of, select_names, without_names

__all__ = ["Count", "count_items", "known_names", "try_render"]


class Count(NamedTuple):
    """How often something happens if nothing fails; ``assumption`` says what was guessed."""

    upper: int
    lower: int
    assumption: str = ""


def known_names(declared_workload: Value, request: Mapping[str, Json]) -> dict[str, Json]:
    """Return the scope of templates before a run: the request merged over the workload.

    Defaults that can only be rendered during a run are left out.
    """
    defaults = mapping_of(declared_workload)
    for name in {tokens_of(path)[0] for path in declared_workload.templates if path} - request.keys():
        other_defaults = without_names(declared_workload, [name]).data
        scope: dict[str, Json] = {**other_defaults, "workload": other_defaults, "payload": request}
        rendered_value: Json = try_render(select_names(declared_workload, [name]), scope)
        defaults.pop(name, None)
        defaults.update(rendered_value or {})
    workload = merge_json(defaults, dict(request))
    return {**workload, "workload": workload, "ctx": workload, "payload": request}


def try_render(value: Value | None, scope: Mapping[str, Any], default: Json = None) -> Json:
    """Render a value. Return ``default`` if it cannot be rendered before the run."""
    try:
        return templates.render(value, scope) if value else default
    except templates.TemplateFailure:
        return default


_UNKNOWN = object()


def count_items(loop: Loop, author_count: int | None, scope: Mapping[str, Any]) -> Count:
    """Count the iterations of a loop; ``author_count`` is the number given by the author, if any."""
    collection: Json = try_render(loop.collection, scope, _UNKNOWN)
    if author_count is not None:
        count = Count(author_count, author_count)
    elif collection is _UNKNOWN or loop.cursor is not None:
        count = Count(1, 1, "items unknown, counted as 1 (--items)")
    else:
        count = _count_selected(loop, _as_list(collection), scope)
    return _limit_and_chunk(loop, count, scope)


def _as_list(collection: Json) -> list[Json]:
    if collection is None:
        return []
    return cast("list[Json]", collection) if isinstance(collection, list) else [collection]


def _count_selected(loop: Loop, items: list[Json], scope: Mapping[str, Any]) -> Count:
    """Count the items that match ``where``; items for which it is unknown count only for the maximum."""
    if loop.where is None:
        return Count(len(items), len(items))
    matches = [
        _matches_where(loop.where, {**scope, loop.element: item, "iter": {loop.element: item}}) for item in items
    ]
    lower = sum(match is True for match in matches)
    upper = sum(match is not False for match in matches)
    return Count(upper, lower, "" if upper == lower else "where cannot be evaluated before the run, all items counted")


def _matches_where(where: Template, scope: Mapping[str, Any]) -> bool | None:
    try:
        verdict = templates.predicate(where.source, scope)
    except templates.TemplateFailure:
        return None
    return None if verdict.indeterminate else verdict.matched


def _limit_and_chunk(loop: Loop, count: Count, scope: Mapping[str, Any]) -> Count:
    limit: Json = try_render(loop.limit, scope)
    size: Json = try_render(loop.chunk_size, scope) if loop.is_chunked else None

    def count_chunks(number: int) -> int:
        number = min(number, limit) if isinstance(limit, int) else number
        return math.ceil(number / size) if isinstance(size, int) and size > 0 else number

    return Count(count_chunks(count.upper), count_chunks(count.lower), count.assumption)
