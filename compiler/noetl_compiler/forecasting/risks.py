"""Warn of limits that a run may reach, both Temporal's and our own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import msgspec

from noetl_compiler.forecasting.cost_model import RESULT_BYTES, STORED_BYTES, CostModel, HostWorkflow
from noetl_compiler.forecasting.counts import MAX_IN_FLIGHT, Counts, Sizes
from noetl_compiler.forecasting.reachability import postorder, successors_of
from noetl_compiler.forecasting.static_scope import try_render
from noetl_compiler.graph import Graph, Json, Loop, Step, encode

__all__ = ["risks"]

WARNING_EVENTS, LIMIT_EVENTS = 10_240, 51_200
"""History events of a workflow run at which Temporal warns, and at which it terminates the run."""
LIMIT_BYTES, LIMIT_TASK_BYTES = 2_000_000, 4_000_000
"""Maximum bytes of one value, and of all commands of one workflow task."""
LIMIT_PENDING = 2_000
MANY_ITEMS = 100_000


class _RiskContext(msgspec.Struct, frozen=True):
    graph: Graph
    counts: Counts
    sizes: Sizes
    costs: CostModel


def risks(
    graph: Graph, counts: Counts, sizes: Sizes, costs: CostModel, playbook_workflow: HostWorkflow
) -> Iterator[str]:
    """Yield warnings about the workflow of the playbook (``playbook_workflow``), then about each step."""
    yield from _continue_as_new_risk(
        playbook_workflow, f"first at about {_first_renewal_step(graph, counts, costs, playbook_workflow)}"
    )
    yield from _history_risks("the playbook", playbook_workflow)
    if (size := len(encode(graph))) > LIMIT_BYTES:
        yield f"the graph has {size:,} bytes: over 2 MB it needs a Postgres for large values"
    for step in graph.steps.values():
        context = _RiskContext(graph, counts, sizes, costs)
        if step.loop and counts.most[step.name].loops:
            yield from _loop_risks(step, step.loop, context)
        if step.tasks:
            yield from _result_risks(step.name, sizes.result_bytes.get(step.name, RESULT_BYTES))


def _history_risks(subject: str, host: HostWorkflow) -> Iterator[str]:
    if host.longest > WARNING_EVENTS:
        verdict = "terminates it" if host.longest > LIMIT_EVENTS else f"warns at {WARNING_EVENTS:,} and terminates it"
        yield f"{subject}: one history may have {host.longest:,} events: Temporal {verdict} at {LIMIT_EVENTS:,}"
    if host.pending > LIMIT_PENDING:
        yield f"{subject}: {host.pending:,} calls and loops may be pending at once: Temporal allows {LIMIT_PENDING:,}"


def _continue_as_new_risk(host: HostWorkflow, position: str) -> Iterator[str]:
    if host.runs > 1:
        times = f"{host.runs - 1:,} time{'s' * (host.runs > 2)}"
        reason = (
            f"it has {host.events:,} events and {host.bytes:,} bytes, a run has at most {host.max_events:,} or 4 MB"
        )
        yield f"the playbook continues as new {times}, {position}: {reason}"


def _first_renewal_step(graph: Graph, counts: Counts, costs: CostModel, playbook_workflow: HostWorkflow) -> str:
    """Return the step at which the first run continues as new, if the steps run in topological order."""
    order = [name for name in reversed(postorder(successors_of(graph))) if not counts.around[name]]
    events_so_far = accumulate(costs.events_around(name) for name in order)
    share = playbook_workflow.events / playbook_workflow.runs
    return next((name for name, events in zip(order, events_so_far, strict=True) if events >= share), graph.final)


def _loop_risks(step: Step, loop: Loop, context: _RiskContext) -> Iterator[str]:
    subject, work = step.name, context.counts.most[step.name]
    host = context.costs.loop(step)
    yield from _history_risks(subject, host)
    requested: Json = try_render(loop.max_in_flight, context.counts.names)
    if isinstance(requested, int) and requested > MAX_IN_FLIGHT:
        yield f"{subject}: max_in_flight is {requested:,}, at most {MAX_IN_FLIGHT} items run at once"
    collection_size = len(msgspec.json.encode(try_render(loop.collection, context.counts.names)))
    if collection_size > LIMIT_BYTES:
        yield f"{subject}: its collection has {collection_size:,} bytes: over 2 MB it needs a Postgres for large values"
    items = work.items // work.loops
    total_size = items * context.sizes.result_bytes.get(step.name, RESULT_BYTES)
    if total_size > LIMIT_BYTES:
        yield f"{subject}: its results have {total_size:,} bytes: over 2 MB they need a Postgres for large values"
    if items > MANY_ITEMS and loop.frame is None:
        yield f"{subject}: the loop has {items:,} items, each with activities of its own: add a frame"


def _result_risks(subject: str, size: int) -> Iterator[str]:
    if size > STORED_BYTES:
        yield f"{subject}: results over 64 KB are stored in Postgres, not in history"
    if size > LIMIT_BYTES:
        yield f"{subject}: without a Postgres for large values, a result over 2 MB fails its call"
