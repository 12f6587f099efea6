"""The host of a pipeline that runs for a step of a region, in one iteration of its loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from noetl_compiler.graph import Json, Span
from noetl_temporal.machine.call import LeaseRenewal
from noetl_temporal.machine.loops.host import IterationHost
from noetl_temporal.machine.names import results_of
from noetl_temporal.machine.scope import Chain, LazyNames, running_step_names
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.host import StepHost
from noetl_temporal.machine.tasks.plan import StepPlan

if TYPE_CHECKING:
    from noetl_temporal.machine.steps.execution import Execution

__all__ = ["RegionHost"]


class RegionHost(StepHost):
    """See tasks.host.Host. All steps of the iteration see the values that the step sets."""

    def __init__(self, execution: Execution, iteration_host: IterationHost, plan: StepPlan, run: StepRun) -> None:
        super().__init__(execution, plan, run)
        self.step_run_key = f"{iteration_host.step_run_key}/{plan.step.name}"
        self.iteration = iteration_host.iteration
        self._iteration_host = iteration_host

    def scope(self, *layers: Mapping[str, Any]) -> Chain:
        """Return the names of the iteration; results of its steps shadow those of steps before the loop."""
        results = results_of(self._state, self.names, self.steps)
        step = running_step_names(self.names.outcome, self.step.name, lambda: Chain(results, outer.get("step") or {}))
        run_names = {"iter": self._iteration_host.iter_names, **step}
        loop = self._iteration_host.step.name
        if loop in self._state.records:  # the outcome of the tasks of the loop for this item
            run_names[loop] = results[loop]
        outer = self._iteration_host.scope(results=results)
        reserved = LazyNames(partial(_reserved_names, outer, results))
        return Chain(*layers, self._run.args, run_names, reserved, outer)

    def lease(self) -> LeaseRenewal | None:
        """Return the lease of the row that the iteration processes."""
        return self._iteration_host.lease()

    def write(self, values: Sequence[tuple[str, Json]]) -> None:
        """Apply ``set`` entries. Raises TemplateFailure."""
        self._iteration_host.write(values)

    def warn(self, message: str, span: Span) -> None:
        """Warn once per span in the whole loop."""
        self._iteration_host.warn(message, span)


def _reserved_names(outer: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """Reserved names that contain results."""
    names = {name: Chain(results, outer.get(name) or {}) for name in ("results", "steps")}
    return {**names, "ctx": Chain(outer["ctx"], results)}
