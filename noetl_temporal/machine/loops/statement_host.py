"""The host of a cursor's SQL statements: the claim of rows, and the end of a row's lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Json, Span, Step, Task
from noetl_temporal.machine.call import LeaseRenewal
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.scope import Chain
from noetl_temporal.machine.state import Iteration, LoopState
from noetl_temporal.machine.tasks.plan import StepPlan

__all__ = ["StatementHost", "statement_plan"]


def statement_plan(step: Step, task: Task) -> StepPlan:
    """Return the plan of a step whose only task is the statement."""
    statement_step = Step(step.name, task.span, tasks=(task,))
    plan = StepPlan(statement_step)
    plan.tasks[0].title = f"{step.name}.{task.label} [{task.kind}]"
    return plan


class StatementHost:
    """See tasks.host.Host. ``plan`` is that of the statement, ``names`` are the names for its templates, ``meta`` is
    the metadata of its events, ``outer_lease`` is the lease of the row that the outer iteration of the loop processes.
    """

    def __init__(
        self,
        input_: ChunkInput,
        plan: StepPlan,
        loop: LoopState,
        run: Iteration,
        journal: Journal,
        names: Mapping[str, Any],
        meta: dict[str, Any],
        outer_lease: LeaseRenewal | None,
    ) -> None:
        label = plan.step.tasks[0].label
        self.journal = journal
        self.plan = plan
        self.step: Step = plan.step
        self.names = input_.names
        self.secrets_key = input_.secrets_key
        self.run_id = run.id
        self.prefix = run.id if run.row is None else f"{run.id}-{label}"
        suffix = f"claim-{run.claim_number}" if run.row is None else f"{run.index}-{label}"
        self.key = f"{input_.execution_id}/{input_.chunk_id}/{suffix}"
        self.step_run_key = self.key
        self.parent_id = run.event_id
        self.iteration: int | None = None if run.row is None else run.index
        self.meta: Mapping[str, Any] = meta
        self.circuits = loop.circuits
        self._outer = input_.scope
        self._outer_lease = outer_lease
        self._loop = loop
        self._statement_names = names

    def scope(self, *layers: Mapping[str, Any]) -> Chain:
        """Return the names of the statement, which shadow those that the playbook sent with the chunk."""
        return Chain(*layers, self._statement_names, {"now": templates.Clock(self.journal.feed.at)}, self._outer)

    def lease(self) -> LeaseRenewal | None:
        """Return the lease of the outer row only: a statement ends the lease of its own row, or has no row yet."""
        return self._outer_lease

    def warn(self, message: str, span: Span) -> None:
        """Add a warning to the report."""
        if not any(warning.span == span for warning in self._loop.warnings):
            self._loop.warnings.append(ConditionWarning(message, span))

    def assign(self, values: Sequence[tuple[str, Json]]) -> None:
        """Nothing to do: a statement has no ``set`` entries."""
