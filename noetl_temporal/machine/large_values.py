"""Large values of the request and of ``set``: stored outside the state before continue-as-new (dev/decisions/0029).

When a run becomes idle before continue-as-new, its large top-level values of ``payload``, ``workload``, ``ctx`` and
``vars`` are stored. The state then has null instead of the value, and a reference to it. Templates that read such a
value wait until it is loaded (stored.py), and it is not copied any more.

Large lists of the request, at any depth of its mappings, are stored before the run begins (stored_request.py). The
state has the references to all stored values under their JSON pointers.

A value is measured once after each write, and only before continue-as-new. A list that a playbook appends to is not
measured on every append.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import pointer
from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine import json_trees
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.facts import PayloadRef
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.machine.stored import stored_value, with_deferred
from noetl_temporal.shortening import abridge

__all__ = ["add_request_references", "begin_storing", "finish_storing", "mark_request_values", "values_under", "write"]

LARGE_BYTES = STORE_FROM_BYTES
"""A value is stored from this size on, as JSON."""

_BYTES_PER_CHARACTER = 6
"""Maximum size of a character as JSON."""


def values_under(state: PlaybookState, root: str) -> Mapping[str, Any]:
    """Return the current values under ``payload``, ``workload``, ``ctx`` or ``vars``; stored ones are deferred."""
    values, references = _values(state, root), state.stored_values.get(root)
    return with_deferred(values, references) if references else values


def add_request_references(state: PlaybookState, references: Mapping[str, StoredRef], *, has_workload: bool) -> None:
    """Add the references to stored values of the request; with ``has_workload`` they are in the workload, too."""
    for root in ("payload", "workload") if has_workload else ("payload",):
        if references:
            state.stored_values = {**state.stored_values, root: dict(references)}
            state.has_stored = True


def abridged_values(state: PlaybookState, targets: Sequence[str], limit: int) -> dict[str, Json]:
    """Return the values of ``ctx`` and ``vars`` that ``set`` entries with these targets have changed, by name, each
    abridged to ``limit`` bytes for the log.
    """
    abridged: dict[str, Json] = {}
    for target in targets:
        root, path, _ = json_trees.split_target(target)
        name = path.partition(".")[0]
        if root in ("ctx", "vars"):
            reference = state.stored_values.get(root, {}).get(pointer("", name))
            value = _values(state, root).get(name)
            abridged[name] = (
                abridge(value, limit) if reference is None else {"_truncated": True, "_size": reference.bytes}
            )
    return abridged


def mark_request_values(state: PlaybookState) -> None:
    """Mark the values of the request and the workload that may be large, to be measured later."""
    for root in ("payload", "workload"):
        values, stored_names = _values(state, root), {path.split("/")[1] for path in state.stored_values.get(root, ())}
        large = (name for name, value in values.items() if _may_be_large(value))
        state.unmeasured += [f"{root}.{name}" for name in large if pointer("", name)[1:] not in stored_names]


def write(state: PlaybookState, root: str, path: str, value: Json) -> None:
    """Write a value at ``path`` in ``ctx`` or ``vars``. Raises NotLoaded and TemplateFailure if the path is inside a
    stored value, which must be read then.
    """
    name, _, inner = path.partition(".")
    values, references, top_level = _values(state, root), state.stored_values.get(root, {}), f"{root}.{name}"
    name_pointer = pointer("", name)
    if name_pointer in references:
        values = {**values, name: stored_value(references[name_pointer]) if inner else None}
        others = {
            other_pointer: reference for other_pointer, reference in references.items() if other_pointer != name_pointer
        }
        state.stored_values = {**state.stored_values, root: others}
    values = json_trees.with_value(values, path, value)
    setattr(state, root, values)
    state.being_stored = ["" if entry == top_level else entry for entry in state.being_stored]
    if top_level not in state.unmeasured and _may_be_large(values[name]):
        state.unmeasured.append(top_level)


def begin_storing(state: PlaybookState) -> list[Json]:
    """Return the values to be stored now; the state lists them in ``being_stored`` until ``finish_storing``."""
    candidates = dict.fromkeys([*(path for path in state.being_stored if path), *state.unmeasured])
    large = [
        (path, value) for path, value in _values_at(state, candidates) if len(msgspec.json.encode(value)) >= LARGE_BYTES
    ]
    state.unmeasured = []
    state.being_stored = [path for path, _ in large]
    return [value for _, value in large]


def finish_storing(state: PlaybookState, references: Sequence[PayloadRef] | None) -> None:
    """Replace the values that have been stored by references, except those written since. ``references`` is None if
    they could not be stored: they stay as they are.
    """
    paths, state.being_stored = state.being_stored, []
    if references is None:
        return
    for path, payload in zip(paths, references, strict=True):
        root, _, name = path.partition(".")
        if path:
            setattr(state, root, {**_values(state, root), name: None})
            reference = StoredRef((Part(payload.key),), payload.bytes, is_one=True)
            state.stored_values = {
                **state.stored_values,
                root: {**state.stored_values.get(root, {}), pointer("", name): reference},
            }
    state.has_stored = True


def _values_at(state: PlaybookState, paths: Iterable[str]) -> Iterable[tuple[str, Json]]:
    for path in paths:
        root, _, name = path.partition(".")
        yield path, _values(state, root)[name]


def _may_be_large(value: Json) -> bool:
    """Whether the value may be large: a cheap test without measuring it."""
    if isinstance(value, str):
        return len(value) * _BYTES_PER_CHARACTER >= LARGE_BYTES
    return isinstance(value, list | dict)


def _values(state: PlaybookState, root: str) -> dict[str, Json]:
    return cast("dict[str, Json]", getattr(state, root))
