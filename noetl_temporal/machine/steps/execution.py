"""The part of a playbook's run that all its steps share."""

from __future__ import annotations

from functools import partial

from noetl_compiler.graph import Step
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.loops.host import IterationHost
from noetl_temporal.machine.regions.host import RegionHost
from noetl_temporal.machine.scope import LazyNames
from noetl_temporal.machine.state import PlaybookState, StepRun
from noetl_temporal.machine.steps.final import final_names
from noetl_temporal.machine.steps.graph_plan import GraphPlan
from noetl_temporal.machine.steps.host import StepHost

__all__ = ["Execution"]


class Execution:
    """One run of a graph. ``state`` is that of the machine and changes. The steps of a region run ``iteration_host`` an
    iteration, which is the ``prefix`` of their ids.
    """

    def __init__(
        self,
        plan: GraphPlan,
        id_: int,
        state: PlaybookState,
        journal: Journal,
        keychain: Keychain,
        iteration_host: IterationHost | None = None,
        prefix: str = "",
    ) -> None:
        self.plan = plan
        self.graph = plan.graph
        self.id = id_
        self.state = state
        self.journal = journal
        self.keychain = keychain
        self.iteration_host = iteration_host
        self.prefix = prefix

    def host(self, step: Step, run: StepRun) -> StepHost:
        """Return the host of a step run."""
        plan = self.plan.step_plan(step)
        if self.iteration_host is not None:
            return RegionHost(self, self.iteration_host, plan, run)
        if step.name != self.graph.final:
            return StepHost(self, plan, run)
        return StepHost(self, plan, run, LazyNames(partial(final_names, self.graph, self.state, self.state.failures)))
