"""Facts about a graph that do not depend on a run, computed once and shared by all machines that run it."""

from __future__ import annotations

from noetl_compiler.graph import Graph, Step
from noetl_temporal.machine.join import Joins
from noetl_temporal.machine.tasks.plan import StepPlan

__all__ = ["GraphPlan"]


class GraphPlan:
    """``ends`` maps the end of each loop over steps to the loop."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.joins = Joins(graph)
        self.ends = _ends_of(graph)
        self._steps: dict[str, StepPlan] = {}

    def of_step(self, step: Step) -> StepPlan:
        """Return the plan of a step, computed when the step first runs."""
        plan = self._steps.get(step.name)
        if plan is None:
            plan = self._steps[step.name] = StepPlan(step)
        return plan


def _ends_of(graph: Graph) -> dict[str, str]:
    """End -> the loop over steps that it ends; the only route of a loop leads to its end."""
    loops = (step for step in graph.steps.values() if step.loop is not None and step.loop.end)
    return {step.route.arcs[0].target: step.name for step in loops}
