"""What is known before a run: the names bound by its request and workload, and the items of its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from noetl_compiler import templates
from noetl_compiler.graph import Json, Loop, Template, Value
from noetl_compiler.value_merge import names_in, picked, without

__all__ = ["Count", "items_of", "known_names", "rendered"]


class Count(NamedTuple):
    """How often something happens if nothing fails; ``assumed`` describes what was guessed."""

    most: int
    least: int
    assumed: str = ""


def known_names(declared: Value, request: Mapping[str, Json]) -> dict[str, Json]:
    """Return the scope of templates before a run: the request merged over the workload.

    Defaults that can only be rendered during a run are left out.
    """
    defaults = names_in(declared)
    for name in {place.split("/")[1] for place in declared.templates if place} - request.keys():
        others = without(declared, [name]).data
        seen: dict[str, Json] = {**others, "workload": others, "payload": request}
        found: Json = rendered(picked(declared, [name]), seen)
        defaults.pop(name, None)
        defaults.update(found or {})
    workload = _merged(defaults, request)
    return {**workload, "workload": workload, "ctx": workload, "payload": request}


def _merged(under: Json, over: Json) -> Json:
    if not isinstance(under, dict) or not isinstance(over, Mapping):
        return over
    given = cast("Mapping[str, Json]", over)
    merged: dict[str, Json] = dict(cast("dict[str, Json]", under))
    for key, value in given.items():
        merged[key] = _merged(merged.get(key), value)
    return merged


def rendered(value: Value | None, scope: Mapping[str, Any], otherwise: Json = None) -> Json:
    """Render a value; return ``otherwise`` if it cannot be rendered before the run."""
    try:
        return templates.render(value, scope) if value else otherwise
    except templates.TemplateFailure:
        return otherwise


_UNKNOWN = object()


def items_of(loop: Loop, given: int | None, scope: Mapping[str, Any]) -> Count:
    """Count the iterations of a loop; ``given`` is the number of items given by the author, if any."""
    found: Json = rendered(loop.collection, scope, _UNKNOWN)
    if given is not None:
        count = Count(given, given)
    elif found is _UNKNOWN or loop.cursor is not None:
        count = Count(1, 1, "items unknown, counted as 1 (--items)")
    else:
        count = _selected(loop, _listed(found), scope)
    return _cut(loop, count, scope)


def _listed(found: Json) -> list[Json]:
    if found is None:
        return []
    return cast("list[Json]", found) if isinstance(found, list) else [found]


def _selected(loop: Loop, items: list[Json], scope: Mapping[str, Any]) -> Count:
    """Count the items that match ``where``; items for which it is unknown count only for the maximum."""
    if loop.where is None:
        return Count(len(items), len(items))
    verdicts = [_matches(loop.where, {**scope, loop.element: item, "iter": {loop.element: item}}) for item in items]
    least = sum(verdict is True for verdict in verdicts)
    most = sum(verdict is not False for verdict in verdicts)
    return Count(most, least, "" if most == least else "where cannot be evaluated before the run, all items counted")


def _matches(where: Template, scope: Mapping[str, Any]) -> bool | None:
    try:
        verdict = templates.predicate(where.source, scope)
    except templates.TemplateFailure:
        return None
    return None if verdict.indeterminate else verdict.matched


def _cut(loop: Loop, count: Count, scope: Mapping[str, Any]) -> Count:
    limit: Json = rendered(loop.limit, scope)
    size: Json = rendered(loop.chunk_size, scope) if loop.is_chunked else None

    def cut(number: int) -> int:
        number = min(number, limit) if isinstance(limit, int) else number
        return math.ceil(number / size) if isinstance(size, int) and size > 0 else number

    return Count(cut(count.most), cut(count.least), count.assumed)
