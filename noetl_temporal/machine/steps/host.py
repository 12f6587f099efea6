"""The host of a pipeline that runs for a step of the playbook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from noetl_compiler.graph import Json, Span, Step
from noetl_temporal.machine import large_values
from noetl_temporal.machine.call import LeaseRenewal
from noetl_temporal.machine.journal import VALUE_BYTES
from noetl_temporal.machine.names import assign, playbook_scope
from noetl_temporal.machine.scope import Chain
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.tasks.plan import StepPlan

if TYPE_CHECKING:
    from noetl_temporal.machine.steps.execution import Execution

__all__ = ["StepHost"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class StepHost:
    """See tasks.host.Host. The names ``outermost`` are seen behind all others."""

    def __init__(
        self, execution: Execution, plan: StepPlan, run: StepRun, outermost: Mapping[str, Any] = _NOTHING
    ) -> None:
        step, state, keychain = plan.step, execution.state, execution.keychain
        self.journal = execution.journal
        self.step: Step = step
        self.plan = plan
        self.names = execution.graph.names
        self.steps = execution.graph.steps
        self.execution_id = execution.id
        self.secrets_key = keychain.key
        self.prefix = self.run_id = run.id
        self.key = self.step_run_key = f"{execution.id}/{run.id}"
        self.parent_id = run.event_id or state.workflow_id  # a step that was not admitted has no event of its own
        self.iteration: int | None = None
        self.meta: Mapping[str, Any] = {"step": step.name, "step_run_id": run.id}
        self.circuits = state.circuits
        self._state = state
        self._run = run
        self._keychain = keychain
        self._outermost = outermost

    def scope(self, *layers: Mapping[str, Any]) -> Chain:
        """Return the names visible in this step run, with the given layers innermost."""
        state, at = self._state, self.journal.feed.at
        return playbook_scope(
            state, self.names, self.steps, self._keychain, self.execution_id, at, self._run, layers, self._outermost
        )

    def lease(self) -> LeaseRenewal | None:
        """Return None: only iterations have rows."""
        return None

    def warn(self, message: str, span: Span) -> None:
        """Warn once per span in the whole run, as repeated steps and pages evaluate the same conditions again."""
        position = f"{span.line}:{span.col}"
        if position not in self._state.warned_spans:
            self._state.warned_spans.append(position)
            self.journal.warn(message, self.step.name, "step", self.parent_id, span, **self.meta)

    def assign(self, values: Sequence[tuple[str, Json]]) -> None:
        """Apply ``set`` entries and record them."""
        self.write(values)
        self.emit_set(values)

    def write(self, values: Sequence[tuple[str, Json]]) -> None:
        """Apply ``set`` entries. Raises TemplateFailure."""
        for target, value in values:
            assign(self._state, self._run, target, value)

    def emit_set(self, values: Sequence[tuple[str, Json]]) -> None:
        """Record ``set`` entries, with the values that they leave."""
        if not values:
            return
        targets = list(dict.fromkeys(target for target, _ in values))
        self.journal.emit(
            "ctx.updated",
            self.step.name,
            "step",
            "COMPLETED",
            parent=self.parent_id,
            context={"vars": large_values.abridged_values(self._state, targets, VALUE_BYTES)},
            targets=targets,
            **self.meta,
        )
