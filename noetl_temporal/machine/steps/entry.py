"""The start of a step run: its admission, its args, its ``set`` on entry, and its timeout."""

from __future__ import annotations

from noetl_compiler import templates
from noetl_compiler.graph import Json, Step
from noetl_compiler.language.events import ENTERED
from noetl_temporal.machine.ids import shorten_id
from noetl_temporal.machine.policy import allows
from noetl_temporal.machine.routing import Admission, admit
from noetl_temporal.machine.scope import event_names
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.rendering import seconds_of
from noetl_temporal.machine.undefined import is_reported

__all__ = ["deadline_id", "emit_started", "enter", "is_admitted", "new_run"]


def new_run(execution: Execution, step: Step) -> StepRun:
    """Return the next run of a step. Its id ``<step>#<n>`` is unique in the workflow; in a region it is prefixed with
    the loop's id and the iteration's index.
    """
    counts = execution.state.run_counts
    counts[step.name] = count = counts.get(step.name, 0) + 1
    id_ = shorten_id(f"{execution.prefix}{execution.plan.step_plan(step).name}#{count}")
    run = StepRun(id_, 0, execution.journal.feed.at)
    run.step = step.name
    return run


def deadline_id(run: StepRun) -> str:
    """Return the id of the timeout of a step run."""
    return f"{run.id}:timeout"


def is_admitted(execution: Execution, step: Step, run: StepRun) -> bool:
    """Whether the admission rules of the step let it run; their decision is emitted. Raises TemplateFailure."""
    if not step.admit:
        return True
    host = execution.host(step, run)
    scope = host.scope(event_names(ENTERED, step.name, None))
    admission: Admission = admit(step.admit, scope)
    execution.journal.emit(
        "policy.admit.evaluated",
        step.name,
        "step",
        "COMPLETED",
        parent=execution.state.workflow_id,
        allowed=admission.allowed,
        rule=admission.rule,
        indeterminate=list(admission.indeterminate) or None,
    )
    has_condition = admission.rule is not None and step.admit[admission.rule].when is not None
    if is_reported(execution.graph.names, (has_condition,)):
        for warning in admission.warnings:
            host.warn(warning.message, warning.span)
    return admission.allowed


def emit_started(execution: Execution, step: Step, run: StepRun) -> int:
    """Emit the start of a run. Returns the id of the event."""
    meta: dict[str, Json] = {"step_run_id": run.id}
    if step.is_synthetic:
        meta["synthetic"] = True
    cause = execution.state.failures.cause if step.name == execution.graph.final else None
    if cause is not None:  # the failure that led to the final step
        meta |= {"routed_to_end": True, "original_failed_step": cause.step}
    parent = execution.state.workflow_id
    return execution.journal.emit(
        "step.started", step.name, "step", "STARTED", parent=parent, span=step.span, meta=meta
    )


def enter(execution: Execution, step: Step, run: StepRun) -> float | None:
    """Render the args of the step and apply its ``set`` on entry. Returns the timeout of the run in seconds, if it has
    one. Raises TemplateFailure.
    """
    if not (step.args.data or step.enter or step.timeout):
        return None
    host = execution.host(step, run)
    args: dict[str, Json] = templates.render(step.args, host.scope()) or {}
    run.args = {**args, "input": args, "args": args} if args else {}
    if step.enter:
        scope = host.scope(event_names(ENTERED, step.name, None))
        assigns = [assign for rule in step.enter if allows(rule.guard, "ok", scope) for assign in rule.set]
        host.assign([(assign.target, templates.render(assign.value, scope)) for assign in assigns])
    return seconds_of(step.timeout.total, host.scope(), "timeout") if step.timeout else None
