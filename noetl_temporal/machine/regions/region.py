"""What the iterations of a loop over steps have in common, and what their states share with that of the loop."""

from __future__ import annotations

from typing import NamedTuple

from noetl_compiler.graph import VERSION, Graph, Json, Step
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.state import Iteration, MachineState, PlaybookState
from noetl_temporal.machine.steps.graph_plan import GraphPlan

__all__ = ["Region", "new_region", "region_of", "share", "without_shared"]

_OVER = "/over"
"""The step at which every branch of an iteration ends. It never runs, and its name is invalid in playbooks."""

_SHARED = ("ids", "pending", "timers", "waits", "circuits", "sizes")
"""The fields that a machine shares with those inside it: all are in one workflow, and an iteration sees changes by
earlier ones.
"""

_INSIDE = ("region", "inner")
"""The fields that contain the state of a machine inside."""


class Region(NamedTuple):
    """The part of a graph that a loop over steps repeats.

    The graph of the ``plan`` has the steps of one iteration and of the loops inside it. ``end`` is the step whose
    arrivals have results; a region on the routes of items has none.
    """

    plan: GraphPlan
    end: str


def region_of(given: ChunkInput) -> Region | None:
    """Return the region of a loop; None for a loop over the tasks of its own step."""
    loop = given.step.loop
    if loop is None or not loop.region:
        return None
    over = Step(_OVER, given.step.span, injected=True)
    steps = {**given.steps, _OVER: over}
    graph = Graph(VERSION, "", given.source, _OVER, _OVER, steps, failure=given.failure, names=given.names)
    return Region(GraphPlan(graph), loop.end)


def new_region(iteration: Iteration) -> PlaybookState:
    """Return the initial state of an iteration."""
    return PlaybookState(phase="running", started=iteration.started, workflow_id=iteration.event_id)


def share(inner: MachineState, outer: MachineState) -> None:
    """Make the inner state use the shared parts of the outer one."""
    for name in _SHARED:
        setattr(inner, name, getattr(outer, name))


def without_shared(snapshot: Json) -> dict[str, Json]:
    """Return the snapshot without the repeated shared parts of inner states."""
    runs: dict[str, dict[str, Json]] = snapshot.get("runs") or {}
    return {**snapshot, "runs": {id_: _own_of_run(run) for id_, run in runs.items()}}


def _own_of_run(run: dict[str, Json]) -> dict[str, Json]:
    """A run and the states inside it, without the shared parts."""
    own = dict(run)
    for name in _INSIDE:
        if own.get(name) is not None:
            own[name] = {key: value for key, value in without_shared(own[name]).items() if key not in _SHARED}
    return own
