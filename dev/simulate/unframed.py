"""Compares framed runs, with faults in the processes of their frames, with unframed runs of the same playbook: status,
results by index, failures and rows must be equal.

Playbooks whose outcome depends on time, or on the order in which calls end, are skipped, as in temporal.py. So are
runs in which a parallel loop failed fast, since the items that had begun depend on the frames, playbooks with circuits,
since each frame has its own, and playbooks with a frame that has invalid limits: its step fails, and an unframed loop
has no such limits.
"""

from __future__ import annotations

import msgspec

from dev.simulate.breakers import has_breakers
from dev.simulate.run_summary import RunSummary, differences, summarize
from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
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


def check_unframed(run_trace: RunTrace) -> None:
    """Compare, if the run has frames. Raises Finding."""
    if not any(trace.name and trace.chunk_input.frame for trace in run_trace.traces.values()) or _is_unsuitable(
        run_trace.graph
    ):
        return
    graph = _without_frames(run_trace.graph)
    baseline = _summary_of(run_trace, graph, 0)
    if baseline is None or any(_summary_of(run_trace, graph, order) != baseline for order in range(1, BASELINE_ORDERS)):
        return
    for order in range(FRAMED_RUNS):
        framed_run = _run(run_trace, run_trace.graph, order, with_faults=True)
        difference_lines = list(differences(baseline, summarize(framed_run), ("unframed", "framed")))
        if difference_lines and all(
            _summary_of(run_trace, graph, more) == baseline for more in range(BASELINE_ORDERS, CONFIRMING_ORDERS)
        ):
            raise Finding("a framed run comes to something else", difference_lines[0][:1500])


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
    def step_without_frame(step: object) -> object:
        loop = getattr(step, "loop", None)
        return step if loop is None else msgspec.structs.replace(step, loop=msgspec.structs.replace(loop, frame=None))  # type: ignore[type-var]

    return msgspec.structs.replace(graph, steps={name: step_without_frame(step) for name, step in graph.steps.items()})


def _summary_of(run_trace: RunTrace, graph: Graph, order: int) -> RunSummary | None:
    """The summary of an unframed run; None for a run that depends on time, leases or chunks, or does not end."""
    try:
        run = _run(run_trace, graph, order, with_faults=False)
    except Finding:
        return None
    commands = [command for trace in run.traces.values() for turn in trace.turns for command in turn.commands]
    has_timeouts = any(
        isinstance(command, StartTimer) and command.timer_id.endswith(":timeout") for command in commands
    )
    has_timeouts = has_timeouts or any(
        isinstance(command, CallTool) and command.call.timeout is not None for command in commands
    )
    return (
        None if has_timeouts or run.row_changes or any(map(_has_failed_fast, run.traces.values())) else summarize(run)
    )


def _has_failed_fast(trace: MachineTrace) -> bool:
    """Whether it is a chunk of a parallel loop that its first failed item stopped."""
    chunk: ChunkInput | None = trace.chunk_input
    if chunk is None or chunk.is_sequential or trace.report is None:
        return False
    loop = chunk.step.loop
    return loop is not None and loop.on_error == "fail_fast" and trace.report.stats["failed"] > 0


def _run(run_trace: RunTrace, graph: Graph, order: int, *, with_faults: bool) -> RunTrace:
    run = RunTrace(run_trace.seed, run_trace.text, graph)
    World(run, order, with_faults=with_faults).run()
    return run
