"""Stores large lists of a request before its run begins (dev/decisions/0073).

A worker has the input of a workflow in memory, several times, as long as it caches the run. So the client stores a
large list page by page, and the input has references to the pages. A loop over the list passes references to parts of
pages to its chunks, and no process has the whole list in memory.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.graph import Graph
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.machine.workload import is_read_at_start
from noetl_temporal.messages.run_input import RunInput
from noetl_temporal.payloads.stored_lists import large_lists, store_list
from noetl_temporal.payloads.value_store import ValueStore

__all__ = ["store_large_lists"]


async def store_large_lists(run_input: RunInput, graph: Graph, values: ValueStore) -> RunInput:
    """Return the input with references in place of the large lists of its payload. Raises the driver's errors.

    Values that a template may read when the run starts stay in the payload, as stored ones would have to be loaded
    first.
    """
    if not values.is_available:
        return run_input
    storable = {name: value for name, value in run_input.payload.items() if not is_read_at_start(graph, name)}
    references = {path: await store_list(items, values) for path, items in large_lists(storable)}
    payload = with_values_at(run_input.payload, dict.fromkeys(references))
    return replace(run_input, payload=payload, stored_payload={**run_input.stored_payload, **references})
