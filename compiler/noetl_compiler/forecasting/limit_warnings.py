"""Warnings about limits that a run may reach, those of Temporal and our own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import msgspec

from noetl_compiler.forecasting.cost_model import RESULT_BYTES, STORED_BYTES, CostModel, HostWorkflow
from noetl_compiler.forecasting.counts import MAX_IN_FLIGHT, Counts, Sizes
from noetl_compiler.forecasting.reachability import postorder, successors_of
from noetl_compiler.forecasting.static_scope import try_render
from noetl_compiler.graph import Graph, Json, Loop, Step, encode

__all__ = ["limit_warnings"]

WARN_EVENTS, MAX_EVENTS = 10_240, 51_200
"""History events of a workflow run at which Temporal warns, and at which it terminates the run."""
MAX_VALUE_BYTES, MAX_TASK_BYTES = 2_000_000, 4_000_000
"""Maximum bytes of one value, and of all commands of one workflow task."""
MAX_PENDING = 2_000
"""Pending activities and child workflows that Temporal allows in one workflow."""
MANY_ITEMS = 100_000
"""Items of a loop above which a frame is suggested."""


class _WarningContext(msgspec.Struct, frozen=True):
    graph: Graph
    counts: Counts
    sizes: Sizes
    costs: CostModel


def limit_warnings(
    graph: Graph, counts: Counts, sizes: Sizes, costs: CostModel, playbook_workflow: HostWorkflow
) -> Iterator[str]:
    """Yield warnings about the workflow of the playbook (``playbook_workflow``), then about each step."""
    yield from _continue_as_new_warning(
        playbook_workflow, f"first at about {_first_continue_as_new_step(graph, counts, costs, playbook_workflow)}"
    )
    yield from _history_warnings("the playbook", playbook_workflow)
    if (size := len(encode(graph))) > MAX_VALUE_BYTES:
        yield f"the graph has {size:,} bytes: over 2 MB it needs a Postgres for large values"
    for step in graph.steps.values():
        context = _WarningContext(graph, counts, sizes, costs)
        if step.loop and counts.upper[step.name].loops:
            yield from _loop_warnings(step, step.loop, context)
        if step.tasks:
            yield from _result_warnings(step.name, sizes.result_bytes.get(step.name, RESULT_BYTES))


def _history_warnings(subject: str, host: HostWorkflow) -> Iterator[str]:
    if host.longest_history > WARN_EVENTS:
        verdict = (
            "terminates it" if host.longest_history > MAX_EVENTS else f"warns at {WARN_EVENTS:,} and terminates it"
        )
        yield f"{subject}: one history may have {host.longest_history:,} events: Temporal {verdict} at {MAX_EVENTS:,}"
    if host.concurrent_items > MAX_PENDING:
        pending = f"{host.concurrent_items:,} calls and loops may be pending at once"
        yield f"{subject}: {pending}: Temporal allows {MAX_PENDING:,}"


def _continue_as_new_warning(host: HostWorkflow, position: str) -> Iterator[str]:
    if host.runs > 1:
        times = f"{host.runs - 1:,} time{'s' * (host.runs > 2)}"
        reason = (
            f"it has {host.events:,} events and {host.bytes:,} bytes, "
            f"one workflow run may have at most {host.max_events:,} or 4 MB"
        )
        yield f"the playbook continues as new {times}, {position}: {reason}"


def _first_continue_as_new_step(graph: Graph, counts: Counts, costs: CostModel, playbook_workflow: HostWorkflow) -> str:
    """Return the step at which the first run continues as new, if the steps run in topological order."""
    order = [name for name in reversed(postorder(successors_of(graph))) if not counts.enclosing_loops[name]]
    events_so_far = accumulate(costs.host_events(name) for name in order)
    events_per_run = playbook_workflow.events / playbook_workflow.runs
    return next(
        (name for name, events in zip(order, events_so_far, strict=True) if events >= events_per_run), graph.final
    )


def _loop_warnings(step: Step, loop: Loop, context: _WarningContext) -> Iterator[str]:
    subject, work = step.name, context.counts.upper[step.name]
    host = context.costs.loop_workflow(step)
    yield from _history_warnings(subject, host)
    requested_limit: Json = try_render(loop.max_in_flight, context.counts.names)
    if isinstance(requested_limit, int) and requested_limit > MAX_IN_FLIGHT:
        yield f"{subject}: max_in_flight is {requested_limit:,}, at most {MAX_IN_FLIGHT} items run at once"
    collection_size = len(msgspec.json.encode(try_render(loop.collection, context.counts.names)))
    if collection_size > MAX_VALUE_BYTES:
        yield f"{subject}: its collection has {collection_size:,} bytes: over 2 MB it needs a Postgres for large values"
    items = work.items // work.loops
    total_size = items * context.sizes.result_bytes.get(step.name, RESULT_BYTES)
    if total_size > MAX_VALUE_BYTES:
        yield f"{subject}: its results have {total_size:,} bytes: over 2 MB they need a Postgres for large values"
    if items > MANY_ITEMS and loop.frame is None:
        yield f"{subject}: the loop has {items:,} items, each with activities of its own: add a frame"
    if loop.frame is not None and 1 < items <= context.counts.frame_limits[step.name].concurrent_frames:
        yield (
            f"{subject}: each frame has one item, as max_in_flight over row_concurrency is at least {items:,}, "
            "the number of items: raise row_concurrency, or remove the frame"
        )


def _result_warnings(subject: str, size: int) -> Iterator[str]:
    if size > STORED_BYTES:
        yield f"{subject}: results over 64 KB are stored in Postgres, not in history"
    if size > MAX_VALUE_BYTES:
        yield f"{subject}: without a Postgres for large values, a result over 2 MB fails its call"
