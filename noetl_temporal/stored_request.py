"""Stores large lists of a request before its run begins (dev/decisions/0073).

The input of a workflow is in the memory of its worker, several times, for as long as the run is cached there. So the
client stores a large list page by page, and the input has references to the pages. A loop over the list gives each of
its chunks a reference to a part of a page, and no process has the whole list.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.graph import Graph
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.machine.workload import is_read_at_start
from noetl_temporal.run_input import RunInput
from noetl_temporal.stored_lists import large_lists, store_list
from noetl_temporal.value_store import ValueStore

__all__ = ["store_large_lists"]


async def store_large_lists(run_input: RunInput, graph: Graph, values: ValueStore) -> RunInput:
    """Return the input with references in place of the large lists of its payload. Raises the driver's errors.

    A run does not load stored values when it starts: values that a template may read then stay in the payload.
    """
    if not values.is_available:
        return run_input
    may_be_stored = {name: value for name, value in run_input.payload.items() if not is_read_at_start(graph, name)}
    kept = {place: await store_list(items, values) for place, items in large_lists(may_be_stored)}
    payload = with_values_at(run_input.payload, dict.fromkeys(kept))
    return replace(run_input, payload=payload, kept={**run_input.kept, **kept})
