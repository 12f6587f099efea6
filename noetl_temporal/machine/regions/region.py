"""The graph that each iteration of a loop over steps runs, and the fields of the loop's state that they share."""

from __future__ import annotations

from typing import NamedTuple

from noetl_compiler.graph import VERSION, Graph, Json, Step
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.state import Iteration, MachineState, PlaybookState
from noetl_temporal.machine.steps.graph_plan import GraphPlan

__all__ = ["Region", "initial_state", "region_of", "share_state", "without_shared"]

_END = "/over"
"""The name of the step at which every branch of an iteration ends. It never runs, and playbooks cannot use its name."""

_SHARED = ("ids", "pending", "timers", "waits", "circuits", "result_sizes")
"""The fields of its state that a machine shares with the machines inside it: all of them run in one workflow, and an
iteration sees the changes of earlier ones.
"""

_INNER_STATES = ("region", "inner")
"""The fields of a run that contain the state of a machine inside it."""


class Region(NamedTuple):
    """The part of a graph that a loop over steps repeats.

    The graph of the ``plan`` has the steps of one iteration and of the loops inside it. ``end`` is the step whose
    arrivals have results; a region on the routes of items has none.
    """

    plan: GraphPlan
    end: str


def region_of(chunk: ChunkInput) -> Region | None:
    """Return the region of a loop; None for a loop over the tasks of its own step."""
    loop = chunk.step.loop
    if loop is None or not loop.region:
        return None
    end_step = Step(_END, chunk.step.span, injected=True)
    steps = {**chunk.steps, _END: end_step}
    graph = Graph(VERSION, "", chunk.source, _END, _END, steps, branch_failure=chunk.branch_failure, names=chunk.names)
    return Region(GraphPlan(graph), loop.end)


def initial_state(iteration: Iteration) -> PlaybookState:
    """Return the initial state of an iteration."""
    return PlaybookState(phase="running", started=iteration.started, workflow_id=iteration.event_id)


def share_state(inner: MachineState, outer: MachineState) -> None:
    """Make the state of an inner machine use the shared fields of the outer one."""
    for name in _SHARED:
        setattr(inner, name, getattr(outer, name))


def without_shared(snapshot: Json) -> dict[str, Json]:
    """Return the snapshot without the shared fields of inner states, which would repeat them."""
    runs: dict[str, dict[str, Json]] = snapshot.get("runs") or {}
    return {**snapshot, "runs": {id_: _run_without_shared(run) for id_, run in runs.items()}}


def _run_without_shared(run: dict[str, Json]) -> dict[str, Json]:
    """Return the run without the shared fields of its inner states."""
    fields = dict(run)
    for name in _INNER_STATES:
        if fields.get(name) is not None:
            fields[name] = {key: value for key, value in without_shared(fields[name]).items() if key not in _SHARED}
    return fields
