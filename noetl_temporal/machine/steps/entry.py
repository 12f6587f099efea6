"""The way into a step: admission, the names it binds, what it sets on entering, its time."""

from __future__ import annotations

from noetl_compiler import templates
from noetl_compiler.graph import Json, Step
from noetl_temporal.machine.commands import Cancel, StartTimer
from noetl_temporal.machine.policy import allows
from noetl_temporal.machine.routing import Admission, admit
from noetl_temporal.machine.scope import event_names
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.rendering import seconds_of

__all__ = ["TIMEOUT", "cancel_timeout", "emit_started", "enter", "is_admitted"]

TIMEOUT = ":timeout"
"""What the id of a run's timer ends with."""


def is_admitted(execution: Execution, step: Step, run: StepRun) -> bool:
    """Whether the step may run; a step with rules about it says so in the log."""
    if not step.admit:
        return True
    scope = execution.host(step, run).scope(event_names("step.enter", step.name, None))
    found: Admission = admit(step.admit, scope)
    execution.journal.emit(
        "policy.admit.evaluated",
        step.name,
        "step",
        "COMPLETED",
        parent=execution.state.workflow_id,
        allowed=found.allowed,
        rule=found.rule,
        indeterminate=list(found.indeterminate) or None,
    )
    return found.allowed


def emit_started(execution: Execution, step: Step, run: StepRun) -> int:
    """The event of the run's beginning."""
    return execution.journal.emit(
        "step.started",
        step.name,
        "step",
        "STARTED",
        parent=execution.state.workflow_id,
        span=step.span,
        step_run_id=run.id,
        **_routed(execution, step),
    )


def _routed(execution: Execution, step: Step) -> dict[str, Json]:
    """What the final step's start says of failures that led there (failure-handling seed)."""
    unhandled = [failure.step for failure in execution.state.failures if not failure.handled]
    if step.name != execution.graph.final or not unhandled:
        return {}
    return {"routed_to_end": True, "original_failed_step": unhandled[0]}


def enter(execution: Execution, step: Step, run: StepRun) -> None:
    """Bind the step's names, apply what it sets on entering, start its time. Raises TemplateFailure."""
    host = execution.host(step, run)
    args: dict[str, Json] = templates.render(step.args, host.scope()) or {}
    run.args = {**args, "input": args, "args": args} if args else {}
    scope = host.scope(event_names("step.enter", step.name, None))
    assigns = [one for rule in step.enter if allows(rule.guard, "ok", scope) for one in rule.set]
    host.assign([(one.target, templates.render(one.value, scope)) for one in assigns])
    seconds = seconds_of(step.timeout.total, host.scope()) if step.timeout else None
    if seconds is not None:
        execution.journal.send(StartTimer(f"{run.id}{TIMEOUT}", seconds, f"{step.name} times out in {seconds:g}s"))


def cancel_timeout(execution: Execution, step: Step, run: StepRun) -> None:
    """The run ended in its time."""
    if step.timeout is not None:
        execution.journal.send(Cancel(f"{run.id}{TIMEOUT}"))
