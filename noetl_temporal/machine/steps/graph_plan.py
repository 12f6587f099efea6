"""What is known of a graph before it runs, computed once and shared by all iterations of a loop."""

from __future__ import annotations

from noetl_compiler.graph import Graph, Step
from noetl_temporal.machine.join import Joins
from noetl_temporal.machine.tasks.plan import StepPlan

__all__ = ["GraphPlan"]


class GraphPlan:
    """The joins of a graph, the plans of its steps, and ``loops_by_end``: the step that ends each loop over steps, and
    the step of that loop.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.joins = Joins(graph)
        self.loops_by_end = _loops_by_end(graph)
        self._steps: dict[str, StepPlan] = {}

    def step_plan(self, step: Step) -> StepPlan:
        """Return the plan of a step, computed when the step first runs."""
        plan = self._steps.get(step.name)
        if plan is None:
            plan = self._steps[step.name] = StepPlan(step)
        return plan


def _loops_by_end(graph: Graph) -> dict[str, str]:
    """Return the step of each loop over steps by the step that ends it, the target of the loop's only arc."""
    loops = (step for step in graph.steps.values() if step.loop is not None and step.loop.end)
    return {step.route.arcs[0].target: step.name for step in loops}
