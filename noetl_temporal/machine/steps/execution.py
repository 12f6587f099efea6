"""The run of a playbook as its steps see it: what is shared by all of them."""

from __future__ import annotations

from typing import NamedTuple

from noetl_compiler.graph import Graph, Step
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.state import PlaybookState, StepRun
from noetl_temporal.machine.steps.host import StepHost
from noetl_temporal.machine.tasks.plan import StepPlan

__all__ = ["Execution"]


class Execution(NamedTuple):
    """One run of a graph. ``state`` is the machine's own and changes; ``plans`` are found out as steps run."""

    graph: Graph
    id: int
    state: PlaybookState
    journal: Journal
    plans: dict[str, StepPlan]
    keychain: Keychain

    def host(self, step: Step, run: StepRun) -> StepHost:
        """The surroundings of a step's run."""
        plan = self.plans.get(step.name)
        if plan is None:
            plan = self.plans[step.name] = StepPlan(step)
        return StepHost(self.journal, self.graph.names, self.keychain, self.id, self.state, plan, run)
