"""The run of a playbook as its steps see it: what is shared by all of them."""

from __future__ import annotations

from typing import NamedTuple

from noetl_compiler.graph import Graph, Step
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.state import PlaybookState, StepRun
from noetl_temporal.machine.steps.host import StepHost

__all__ = ["Execution"]


class Execution(NamedTuple):
    """One run of a graph. ``state`` is the machine's own and changes."""

    graph: Graph
    id: int
    state: PlaybookState
    journal: Journal

    def host(self, step: Step, run: StepRun) -> StepHost:
        """The surroundings of a step's run."""
        return StepHost(self.journal, self.graph.source, self.id, self.state, step, run)
