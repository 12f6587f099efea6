"""Computes the items of a loop: its collection, filtered, ordered and limited (semantics.md 22, 23)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Json, Loop, NamesProfile, Step
from noetl_compiler.graph.contents import templates_in
from noetl_compiler.language import defaults
from noetl_compiler.templates import TemplateFailure
from noetl_compiler.templating.paths import lone_path
from noetl_temporal.machine import quantities
from noetl_temporal.machine.budget import MAX_PENDING, Budget
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.scope import Chain
from noetl_temporal.machine.stored import stored_list
from noetl_temporal.machine.undefined import is_reported, left_out_warning, undefined_name

__all__ = [
    "Selection",
    "collection_of",
    "max_in_flight_of",
    "outer_names",
    "select_items",
    "stored_collection",
    "where_warning",
]

_PARENT = "iter.parent."

ITEM_WORK = 6
"""Work of selecting one item (budget.py)."""


class Selection(msgspec.Struct):
    """The progress of selecting the items of a loop.

    ``items`` is the whole collection. ``where`` was evaluated for the first ``position`` items, and matched those at
    ``selected_indexes``. ``keys`` are the sort keys of the first selected items. For ``undefined_count`` items
    ``where`` used an undefined name: ``undefined_name`` is the first such name, and ``undefined_position`` the index of
    its item.
    """

    items: list[Json]
    position: int = 0
    selected_indexes: list[int] = []
    keys: list[Json] = []
    undefined_count: int = 0
    undefined_name: str = ""
    undefined_position: int = 0


def collection_of(loop: Loop, scope: Mapping[str, Any]) -> Selection:
    """Return the whole collection of a loop, of which nothing is selected yet. Text or a mapping is one item, null is
    no item. Raises TemplateFailure.
    """
    if loop.collection is None:
        return Selection([])
    return Selection(_as_list(templates.render(loop.collection, scope)))


def stored_collection(loop: Loop, scope: Mapping[str, Any]) -> StoredRef | None:
    """Return the reference to the collection of a loop over all items of a stored list, which is not loaded; else None.

    Raises TemplateFailure.
    """
    collection = loop.collection
    if collection is None or loop.is_chunked or loop.where or loop.order_by or loop.limit is not None:
        return None
    if list(collection.templates) != [""] or lone_path(str(collection.data)) is None:
        return None
    reference = stored_list(lambda: templates.render(collection, scope))
    return reference if reference is not None and _has_only_lists(reference) else None


def _has_only_lists(reference: StoredRef) -> bool:
    """Whether each part is a slice of a stored list, which chunks can share."""
    return all(part.key and part.count for part in reference.parts)


def select_items(loop: Loop, scope: Mapping[str, Any], selection: Selection, budget: Budget) -> list[Json] | None:
    """Return the items in order; None if the budget is spent before all were selected. Raises TemplateFailure."""
    if not (_filter_items(loop, scope, selection, budget) and _compute_keys(loop, scope, selection, budget)):
        return None
    items = _order_items(loop, selection)
    limit = _rendered_count(loop, "limit", scope)
    items = items if limit is None else items[:limit]
    size = _rendered_count(loop, "chunk_size", scope)
    return _sublists(items, max(1, size or 1)) if loop.is_chunked else items


def _filter_items(loop: Loop, scope: Mapping[str, Any], selection: Selection, budget: Budget) -> bool:
    if loop.where is None:
        return True
    while selection.position < len(selection.items) and not budget.is_spent():
        budget.add_work(ITEM_WORK)
        names = _item_scope(loop, scope, selection.items[selection.position])
        verdict = templates.predicate(loop.where.source, names, loop.where.span)
        if verdict.matched:
            selection.selected_indexes.append(selection.position)
        elif name := undefined_name(verdict):
            selection.undefined_count += 1
            if not selection.undefined_name:
                selection.undefined_name, selection.undefined_position = name, selection.position
        selection.position += 1
    return selection.position == len(selection.items)


def where_warning(
    loop: Loop, scope: Mapping[str, Any], selection: Selection, names: NamesProfile
) -> ConditionWarning | None:
    """Return the warning about ``where`` after all items were selected; None if there is none."""
    if (
        loop.where is None
        or not selection.undefined_name
        or not is_reported(names, (bool(selection.selected_indexes),))
    ):
        return None
    item_scope = _item_scope(loop, scope, selection.items[selection.undefined_position])
    message = left_out_warning(
        loop.where.source, item_scope, selection.undefined_name, selection.undefined_count, len(selection.items)
    )
    return ConditionWarning(message, loop.where.span)


def _compute_keys(loop: Loop, scope: Mapping[str, Any], selection: Selection, budget: Budget) -> bool:
    """Compute the keys to sort by. A plain name means that field of the item."""
    if loop.order_by is None:
        return True
    source = loop.order_by.source
    if "{{" not in source:
        source = f"{{{{ {loop.element}.{source} }}}}"
    indexes = _selected_indexes(loop, selection)
    while len(selection.keys) < len(indexes) and not budget.is_spent():
        budget.add_work(ITEM_WORK)
        item = selection.items[indexes[len(selection.keys)]]
        selection.keys.append(templates.render_text(source, _item_scope(loop, scope, item)))
    return len(selection.keys) == len(indexes)


def _selected_indexes(loop: Loop, selection: Selection) -> Sequence[int]:
    return range(len(selection.items)) if loop.where is None else selection.selected_indexes


def _order_items(loop: Loop, selection: Selection) -> list[Json]:
    """Return the selected items in order; the collection itself if nothing changed, to avoid copying a large list."""
    indexes = _selected_indexes(loop, selection)
    if loop.order_by is None:
        return selection.items if loop.where is None else [selection.items[index] for index in indexes]
    try:
        order = sorted(range(len(indexes)), key=selection.keys.__getitem__)
    except TypeError as error:
        raise TemplateFailure("order_by yields values that cannot be compared", loop.order_by.span) from error
    return [selection.items[indexes[index]] for index in order]


def _as_list(value: Json) -> list[Json]:
    if value is None:
        return []
    return cast("list[Json]", value) if isinstance(value, list) else [value]


def _sublists(items: list[Json], size: int) -> list[Json]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _item_scope(loop: Loop, scope: Mapping[str, Any], item: Json) -> Mapping[str, Any]:
    return Chain({loop.element: item, "iter": {**_parent_names(scope), loop.element: item}}, scope)


def _parent_names(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``iter.parent``, the iteration around a loop, if there is one."""
    return {"parent": scope["iter"]} if "iter" in scope else {}


def _rendered_count(loop: Loop, field: str, scope: Mapping[str, Any]) -> int | None:
    value = getattr(loop, field)
    number = templates.render(value, scope) if value is not None else None
    return None if number is None else quantities.count(number, field, loop.span)


def max_in_flight_of(loop: Loop, scope: Mapping[str, Any]) -> int:
    """Return the number of iterations that may run at once. Raises TemplateFailure."""
    if not loop.is_parallel:
        return 1
    return min(MAX_PENDING, max(1, _rendered_count(loop, "max_in_flight", scope) or defaults.IN_FLIGHT))


def outer_names(step: Step, region: Mapping[str, Step], scope: Mapping[str, Any]) -> dict[str, Json]:
    """Return the names outside the loop that its body reads: only these are sent to the workflow of a chunk."""
    entry_route = step.loop.entry_route if step.loop is not None else None
    cursor = step.loop.cursor if step.loop is not None else None
    sources = (*templates_in(step.tasks), *templates_in(cursor), *templates_in(entry_route), *templates_in(region))
    read = {path for source in sources for path in templates.read_paths(source.source)}
    names = Chain({"iter": parent}, scope) if (parent := _parent_names(scope)) else scope
    return templates.project(names, sorted(read | {outer for path in read for outer in _outer_paths(path)}))


def _outer_paths(path: str) -> Iterator[str]:
    """Yield the path that a path in an inner loop has in each outer loop: ``iter.parent.a`` is ``iter.a`` there."""
    while path.startswith(_PARENT):
        path = "iter." + path.removeprefix(_PARENT)
        yield path
