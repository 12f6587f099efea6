"""Loads the stored values of a request that templates read when the run starts: in defaults and in its timeout.

The machine loads values while it runs, but cannot wait for one before that. The client does not store such values of a
request (stored_request.py); a playbook that calls another does not know its defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.contents import tokens_of, with_values_at
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.commands import LoadValue
from noetl_temporal.machine.facts import Started
from noetl_temporal.machine.stored import check_size, load_id
from noetl_temporal.machine.workload import is_read_at_start
from noetl_temporal.payloads.stored_values import loaded_fact, start_load
from noetl_temporal.workflows.current_workflow import now
from noetl_temporal.workflows.steady_time import steady_end

__all__ = ["with_values_of_start"]


async def with_values_of_start(start: Started, graph: Graph, limit: int) -> Started:
    """Return the start of a run with the stored values loaded that its templates read then; ``limit`` is the maximum
    size of one in bytes. If one cannot be loaded, the ``problem`` says why.
    """
    read = {
        place: stored for place, stored in start.stored_payload.items() if is_read_at_start(graph, tokens_of(place)[0])
    }
    if not read:
        return start
    others = {place: stored for place, stored in start.stored_payload.items() if place not in read}
    try:
        payload = with_values_at(start.payload, await _load_all(read, limit))
    except TemplateFailure as failure:
        return replace(start, at=steady_end(start.at, now()), load_error=failure.message)
    return replace(start, at=steady_end(start.at, now()), payload=payload, stored_payload=others)


async def _load_all(references: Mapping[str, StoredRef], limit: int) -> dict[str, Json]:
    """Return the values by place. Raises TemplateFailure."""
    loaded: dict[str, Json] = {}
    for place, stored in references.items():
        check_size(stored, limit)
        loaded[place] = await _load(stored)
    return loaded


async def _load(stored: StoredRef) -> Json:
    """Return a value. A cancel of the run, which the machine learns of once it runs, does not interrupt the load.
    Raises TemplateFailure.
    """
    command = LoadValue(load_id(stored), stored)
    task: asyncio.Task[msgspec.Raw] = start_load(command)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue
    fact = loaded_fact(now(), command, task)
    if fact is None or fact.error:
        raise TemplateFailure("the load was cancelled" if fact is None else fact.error)
    return fact.value
