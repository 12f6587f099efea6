"""The part of a playbook's run that all its steps share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from noetl_compiler.graph import Graph, Step
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.loops.host import IterationHost
from noetl_temporal.machine.regions.host import RegionHost
from noetl_temporal.machine.scope import Late
from noetl_temporal.machine.state import PlaybookState, StepRun
from noetl_temporal.machine.steps.final import ended_names
from noetl_temporal.machine.steps.host import StepHost
from noetl_temporal.machine.tasks.plan import StepPlan

__all__ = ["Execution", "ends_of"]


def ends_of(graph: Graph) -> dict[str, str]:
    """End -> the loop over steps that it ends; the only route of a loop leads to its end."""
    loops = (step for step in graph.steps.values() if step.loop is not None and step.loop.end)
    return {step.route.arcs[0].to: step.name for step in loops}


class Execution(NamedTuple):
    """One run of a graph. ``state`` is that of the machine and changes; ``plans`` are computed as steps run. ``ends``
    maps the end of each loop over steps to the loop. The steps of a region run ``inside`` an iteration, which is the
    ``prefix`` of their ids.
    """

    graph: Graph
    id: int
    state: PlaybookState
    journal: Journal
    plans: dict[str, StepPlan]
    keychain: Keychain
    ends: Mapping[str, str] = MappingProxyType({})
    inside: IterationHost | None = None
    prefix: str = ""

    def host(self, step: Step, run: StepRun) -> StepHost:
        """Return the host of a step run."""
        plan = self.plans.get(step.name)
        if plan is None:
            plan = self.plans[step.name] = StepPlan(step)
        if self.inside is not None:
            return RegionHost(self, self.inside, plan, run)
        names, state = self.graph.names, self.state
        if step.name != self.graph.final:
            return StepHost(self.journal, names, self.keychain, self.id, state, plan, run)
        ended = Late(partial(ended_names, self.graph, state, state.failures))
        return StepHost(self.journal, names, self.keychain, self.id, state, plan, run, ended)
