"""Warnings about limits, Temporal's and our own, that a run may reach."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import msgspec

from noetl_compiler.forecasting.cost_model import RESULT_BYTES, STORED_BYTES, CostModel, HostWorkflow
from noetl_compiler.forecasting.counts import MAX_IN_FLIGHT, Counts, Sizes
from noetl_compiler.forecasting.reachability import postorder, successors_of
from noetl_compiler.forecasting.static_scope import rendered
from noetl_compiler.graph import Graph, Json, Loop, Step, encode

__all__ = ["risks"]

WARNING_EVENTS, LIMIT_EVENTS = 10_240, 51_200
"""History events of a workflow run at which Temporal warns, and at which it terminates the run."""
LIMIT_BYTES, LIMIT_TASK_BYTES = 2_000_000, 4_000_000
"""Maximum bytes of one value, and of all commands of one workflow task."""
LIMIT_PENDING = 2_000
MANY_ITEMS = 100_000


class _Subject(msgspec.Struct, frozen=True):
    graph: Graph
    counts: Counts
    sizes: Sizes
    prices: CostModel


def risks(graph: Graph, counts: Counts, sizes: Sizes, prices: CostModel, own: HostWorkflow) -> Iterator[str]:
    """Yield warnings about the workflow of the playbook (``own``), then about each step."""
    yield from _renewed(own, f"first at about {_reached_at(graph, counts, prices, own)}")
    yield from _limits("the playbook", own)
    if (size := len(encode(graph))) > LIMIT_BYTES:
        yield f"the graph has {size:,} bytes: over 2 MB it needs a Postgres for large values"
    for step in graph.steps.values():
        subject = _Subject(graph, counts, sizes, prices)
        if step.loop and counts.most[step.name].loops:
            yield from _of_loop(step, step.loop, subject)
        if step.tasks:
            yield from _of_results(step.name, sizes.result_bytes.get(step.name, RESULT_BYTES))


def _limits(whose: str, host: HostWorkflow) -> Iterator[str]:
    if host.longest > WARNING_EVENTS:
        verdict = "terminates it" if host.longest > LIMIT_EVENTS else f"warns at {WARNING_EVENTS:,} and terminates it"
        yield f"{whose}: one history may have {host.longest:,} events: Temporal {verdict} at {LIMIT_EVENTS:,}"
    if host.pending > LIMIT_PENDING:
        yield f"{whose}: {host.pending:,} calls and loops may be pending at once: Temporal allows {LIMIT_PENDING:,}"


def _renewed(host: HostWorkflow, where: str) -> Iterator[str]:
    if host.runs > 1:
        times = f"{host.runs - 1:,} time{'s' * (host.runs > 2)}"
        why = f"it has {host.events:,} events and {host.bytes:,} bytes, a run has at most {host.renewed:,} or 4 MB"
        yield f"the playbook continues as new {times}, {where}: {why}"


def _reached_at(graph: Graph, counts: Counts, prices: CostModel, own: HostWorkflow) -> str:
    """Return the step at which the first run continues as new, if the steps run in topological order."""
    order = [name for name in reversed(postorder(successors_of(graph))) if not counts.around[name]]
    grown = accumulate(prices.events_around(name) for name in order)
    share = own.events / own.runs
    return next((name for name, events in zip(order, grown, strict=True) if events >= share), graph.final)


def _of_loop(step: Step, loop: Loop, subject: _Subject) -> Iterator[str]:
    whose, work = step.name, subject.counts.most[step.name]
    host = subject.prices.loop(step)
    yield from _limits(whose, host)
    requested: Json = rendered(loop.max_in_flight, subject.counts.names)
    if isinstance(requested, int) and requested > MAX_IN_FLIGHT:
        yield f"{whose}: max_in_flight is {requested:,}, at most {MAX_IN_FLIGHT} items run at once"
    collection = len(msgspec.json.encode(rendered(loop.collection, subject.counts.names)))
    if collection > LIMIT_BYTES:
        yield f"{whose}: its collection has {collection:,} bytes: over 2 MB it needs a Postgres for large values"
    items = work.items // work.loops
    gathered = items * subject.sizes.result_bytes.get(step.name, RESULT_BYTES)
    if gathered > LIMIT_BYTES:
        yield f"{whose}: its results have {gathered:,} bytes together: over 2 MB they need a Postgres for large values"
    if items > MANY_ITEMS and loop.frame is None:
        yield f"{whose}: the loop has {items:,} items, each with activities of its own: add a frame"


def _of_results(whose: str, size: int) -> Iterator[str]:
    if size > STORED_BYTES:
        yield f"{whose}: results over 64 KB are stored in Postgres, not in history"
    if size > LIMIT_BYTES:
        yield f"{whose}: without a Postgres for large values, a result over 2 MB fails its call"
