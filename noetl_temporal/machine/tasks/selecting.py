"""Computes the named parts of a result (``select``). They are in the outcome; keys of the result shadow them."""

from __future__ import annotations

from noetl_compiler.graph import Json, Output
from noetl_temporal.machine import json_trees
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.stored import loaded_result
from noetl_temporal.machine.views import result_view

__all__ = ["with_selected"]


def with_selected(output: Output, kind: str, outcome: PlainOutcome) -> PlainOutcome:
    """Return the outcome with ``selected``, the parts by name. Parts that do not exist are left out."""
    if not output.select or outcome["status"] != "ok":
        return outcome
    view = result_view(kind, loaded_result(outcome))
    selected: dict[str, Json] = {}
    for selection in output.select:
        try:
            selected[selection.name] = json_trees.plain(json_trees.read(view, selection.path))
        except (KeyError, IndexError, ValueError, TypeError):
            continue
    return {**outcome, "selected": selected}
