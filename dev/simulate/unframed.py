"""Compares framed runs, with faults in the processes of their frames, with unframed runs of the same playbook: status,
results by index, failures and rows must be equal.

Playbooks whose outcome depends on time, or on the order in which calls end, are skipped, as in temporal.py. So are
runs in which a parallel loop failed fast, since which items had begun by then depends on how it was cut, playbooks with
circuits, each of which frames have for themselves, and playbooks with a frame whose limits cannot be used: its step
fails, and an unframed loop has no such limits.
"""

from __future__ import annotations

import msgspec

from dev.simulate.breakers import has_breakers
from dev.simulate.run_summary import RunSummary, differences, summarize
from dev.simulate.story import Finding, Story, Tale
from dev.simulate.world import World
from noetl_compiler.graph import Graph
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.commands import CallTool, ChunkInput, StartTimer
from noetl_temporal.machine.loops.frames import frame_limits

__all__ = ["check_unframed"]

BASELINE_ORDERS = 3
"""Random orders in which unframed runs must have equal summaries, or else the playbook is skipped."""

CONFIRMING_ORDERS = 24
"""Random orders in which they must before a difference is a finding: in some playbooks the order rarely matters."""

FRAMED_RUNS = 2
"""Framed runs per playbook."""


def check_unframed(story: Story) -> None:
    """Compare, if the run has frames. Raises Finding."""
    if not any(tale.name and tale.given.frame for tale in story.tales.values()) or _is_unsuitable(story.graph):
        return
    unframed = _without_frames(story.graph)
    first = _summary_of(story, unframed, 0)
    if first is None or any(_summary_of(story, unframed, order) != first for order in range(1, BASELINE_ORDERS)):
        return
    for order in range(FRAMED_RUNS):
        framed = _run(story, story.graph, order, with_faults=True)
        problems = list(differences(first, summarize(framed), ("unframed", "framed")))
        if problems and all(
            _summary_of(story, unframed, more) == first for more in range(BASELINE_ORDERS, CONFIRMING_ORDERS)
        ):
            raise Finding("a framed run comes to something else", problems[0][:1500])


def _is_unsuitable(graph: Graph) -> bool:
    return has_breakers(graph) or _has_bad_limits(graph)


def _has_bad_limits(graph: Graph) -> bool:
    """The generator's limits depend on the workload alone."""
    scope = {"workload": graph.workload.data}
    for loop in (step.loop for step in graph.steps.values() if step.loop is not None):
        try:
            frame_limits(loop, scope, 1)
        except TemplateFailure:
            return True
    return False


def _without_frames(graph: Graph) -> Graph:
    def unframed(step: object) -> object:
        loop = getattr(step, "loop", None)
        return step if loop is None else msgspec.structs.replace(step, loop=msgspec.structs.replace(loop, frame=None))  # type: ignore[type-var]

    return msgspec.structs.replace(graph, steps={name: unframed(step) for name, step in graph.steps.items()})


def _summary_of(story: Story, graph: Graph, order: int) -> RunSummary | None:
    """The summary of an unframed run; None for a run that depends on time, leases or chunks, or does not end."""
    try:
        alone = _run(story, graph, order, with_faults=False)
    except Finding:
        return None
    commands = [command for tale in alone.tales.values() for turn in tale.turns for command in turn.commands]
    timed = any(isinstance(command, StartTimer) and command.timer_id.endswith(":timeout") for command in commands)
    timed = timed or any(isinstance(command, CallTool) and command.call.timeout is not None for command in commands)
    return None if timed or alone.deeds or any(map(_failed_fast, alone.tales.values())) else summarize(alone)


def _failed_fast(tale: Tale) -> bool:
    """Whether it is a chunk of a parallel loop that its first failed item stopped."""
    chunk: ChunkInput | None = tale.given
    if chunk is None or chunk.is_sequential or tale.report is None:
        return False
    loop = chunk.step.loop
    return loop is not None and loop.on_error == "fail_fast" and tale.report.stats["failed"] > 0


def _run(story: Story, graph: Graph, order: int, *, with_faults: bool) -> Story:
    made = Story(story.seed, story.text, graph)
    World(made, order, with_faults=with_faults).run()
    return made
