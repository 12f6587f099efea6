"""The names that templates see in a pipeline: the input of a task, earlier results, the outcome of a call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from noetl_compiler import templates
from noetl_compiler.graph import Json, Task, Value
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.names import task_view
from noetl_temporal.machine.records import TaskRecord
from noetl_temporal.machine.scope import Chain, LazyNames, call_names
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks import guarded_tasks
from noetl_temporal.machine.tasks.call_input import CallInput, render_input
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import TaskPlan
from noetl_temporal.machine.views import OutcomeView

__all__ = ["NO_NAMES", "PipelineNames"]

NO_NAMES: Mapping[str, Any] = MappingProxyType({})
"""The scope of a call without templates."""


class PipelineNames:
    """The names in the current state of a pipeline."""

    def __init__(self, host: Host, state: PipelineState) -> None:
        self._host = host
        self._state = state

    def input_names(self, task: Task) -> dict[str, Json]:
        """Return the names of the inherited input, overridden by those of the task's own input, whose templates see the
        inherited ones. In profiles in which args override input, the inherited names override the own ones.
        """
        outer_input = _names_of_input(task, self._render(task.inherited_input))
        task_input = _names_of_input(task, self._render(task.input, outer_input))
        if self._host.names.args_over_input and task.guard is None:
            task_input |= {name: value for name, value in outer_input.items() if value is not None}
        return outer_input | task_input

    def call_input(self, task: Task) -> CallInput:
        """Return the same as ``input_names`` for the call of a playbook, in which stored lists are references."""
        outer_input = self._call_input(task, task.inherited_input)
        task_input = self._call_input(task, task.input, outer_input.names.uncomputed)
        if self._host.names.args_over_input and task.guard is None:
            task_input = task_input.overridden_by(outer_input.without_nulls())
        return outer_input.overridden_by(task_input)

    def _call_input(self, task: Task, value: Value, *layers: Mapping[str, Any]) -> CallInput:
        values, references = render_input(value, self.scope(*layers))
        return CallInput(_names_of_input(task, values), references)

    def scope(self, *layers: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return all names that are visible now, with the given layers innermost. They include the results of earlier
        tasks by label and in ``results``, the last of them as ``_prev``, and its outcome as ``output``. The names do
        not change afterwards.
        """
        state, plans = self._state, self._host.plan.tasks
        plan = plans[state.index] if state.index < len(plans) else None
        if plan is not None and not state.records:
            return self._host.scope(*layers, plan.first_names)
        task = None if plan is None else plan.task
        subject = state.subject if task is not None and task.guard is not None else None
        outer = self._host.scope()
        earlier = LazyNames(
            partial(self._names_of_results, task, dict(state.records), state.last_success, subject, outer)
        )
        return outer.with_inner_layers(*layers, earlier)

    def call_scope(self, names: Mapping[str, Any], input_: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the scope of the templates of a call with this input; ``names`` are its values by name."""
        return self.scope({**names, "input": input_, "args": input_})

    def _render(self, value: Value, *layers: Mapping[str, Any]) -> Json:
        return templates.render(value, self.scope(*layers)) if value.templates else value.data

    def outcome_scope(self, plan: TaskPlan, outcome: PlainOutcome, attempts: int) -> Mapping[str, Any]:
        """Return the scope of the rules and ``set`` of a task after a call with this number of attempts."""
        if plan.task.guard is not None:
            return self.scope()
        names = self.outcome_names_of(plan.task, outcome, max(1, attempts))
        if plan.collect is not None:
            names[plan.collect.into] = names["accumulated"] = self._state.progress.collected
        return self.scope(names)

    def outcome_names_of(self, task: Task, outcome: PlainOutcome, attempts: int = 1) -> dict[str, Any]:
        """Return the names of the outcome of a call."""
        host, page = self._host, self._state.progress.page
        return call_names(host.names.outcome, host.step.name, task.kind, outcome, attempts, page, host.scope)

    def _names_of_results(
        self,
        task: Task | None,
        records: Mapping[str, TaskRecord],
        last: str | None,
        subject: str | None,
        outer: Mapping[str, Any],
    ) -> dict[str, Any]:
        results: dict[str, Any] = {
            label: task_view(record) for label, record in records.items() if record.outcome["status"] == "ok"
        }
        names = dict(results)
        if results:
            names["results"] = Chain(results, outer.get("results") or {})
        names["_task"] = task.label if task else None
        names["_prev"] = names.get(last or "")
        if last is not None:
            names["output"] = names["outcome"] = OutcomeView(records[last].kind, records[last].outcome)
        if subject is None:
            return names
        return {
            **guarded_tasks.subject_names(self._host.names.outcome, self._host.step.name, records[subject], outer),
            **names,
        }


def _names_of_input(task: Task, values: Json) -> dict[str, Json]:
    """Return the names of a rendered input: of a mapping, or none for null. Raises TemplateFailure for other values."""
    if not values or isinstance(values, dict):
        return cast("dict[str, Json]", values or {})
    raise templates.TemplateFailure(f"the input is {values!r:.40}, expected a mapping of names", task.span)
