"""The routes from a step: which arcs are followed, what they set, and whether a failure is handled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Json, Step
from noetl_compiler.language.events import AFTER_CALL, AFTER_LOOP, SKIPPED
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.failure_log import Failure, FailureLog
from noetl_temporal.machine.failures import failure_at, template_outcome
from noetl_temporal.machine.loops.result import ITEMS_FAILED
from noetl_temporal.machine.routing import Boundary, Selection, select
from noetl_temporal.machine.scope import LazyNames, call_names, event_names
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.undefined import is_reported

__all__ = [
    "OK",
    "ChosenRoutes",
    "StepExit",
    "add_deferred_failures",
    "choose_routes",
    "enter_region",
    "follow_routes",
    "record_failure",
]

OK: PlainOutcome = {"status": "ok", "result": None}
"""The result of a step without calls."""


class StepExit(msgspec.Struct, frozen=True):
    """The end of a run of ``step``, whose token moves to ``targets``. With ``fail_fast`` the other branches stop,
    because the run failed and no route handles it.
    """

    step: str
    targets: tuple[str, ...]
    fail_fast: bool = False


class ChosenRoutes(msgspec.Struct, frozen=True):
    """The routes chosen after a step run, not yet emitted. ``values`` are the values that their arcs have set, with
    their targets. If the routes could not be evaluated, ``evaluation_failure`` says why, and none is chosen.
    ``warnings`` are about conditions.
    """

    chosen: Selection = Selection((), ())
    values: tuple[tuple[str, Json], ...] = ()
    evaluation_failure: End | None = None
    warnings: tuple[ConditionWarning, ...] = ()


def choose_routes(
    execution: Execution, step: Step, run: StepRun, status: str, end: End, kind: str = ""
) -> ChosenRoutes | None:
    """Choose the arcs and apply their ``set``. Nothing is emitted: an arc that cannot be evaluated fails the step,
    whose end is emitted first. ``status`` is that of the run.

    None if no arc is evaluated, because the token moves to the final step.
    """
    if status == "cancelled" or step.name == execution.graph.final or execution.state.stop is not None:
        return None
    boundary: Boundary = "error" if status == "failed" else "ok"
    fixed_selection = execution.plan.step_plan(step).fixed_routes(boundary)
    if fixed_selection is not None:
        return ChosenRoutes(fixed_selection)
    scope = LazyNames(lambda: _route_scope(execution, step, run, status, end, kind))
    warnings: tuple[ConditionWarning, ...] = ()
    try:
        selection = select(step.route, boundary, scope)
        warnings = _reported_warnings(execution, selection) if status == "completed" else ()
        assigns = [assign for arc in selection.arcs for assign in arc.set]
        values = [(assign.target, templates.render(assign.value, scope)) for assign in assigns]
        if values:
            execution.host(step, run).write(values)
    except templates.TemplateFailure as failure:
        return ChosenRoutes(
            evaluation_failure=End("error", template_outcome(failure), None, failure.span or step.span),
            warnings=warnings,
        )
    return ChosenRoutes(selection, tuple(values), warnings=warnings)


def follow_routes(
    execution: Execution, step: Step, run: StepRun, status: str, end: End, routes: ChosenRoutes | None
) -> StepExit:
    """Emit the chosen routes, record the failures of the run, and return where its token moves. ``status`` and ``end``
    are those that were emitted for the run. Routes that could not be evaluated are its failure, or an additional one.
    """
    failed = status == "failed"
    targets = () if routes is None else routes.chosen.targets
    _add_item_failures(execution, step, run, handled=failed and bool(targets))
    if routes is None:
        return (
            _exit_after_failure(execution, step, run, end, ())
            if failed
            else StepExit(step.name, (execution.graph.final,))
        )
    _emit_routes(execution, step, run, routes)
    for warning in routes.warnings:
        execution.host(step, run).warn(warning.message, warning.span)
    if routes.values:
        execution.host(step, run).emit_set(routes.values)
    if failed:
        step_exit = _exit_after_failure(execution, step, run, end, targets)
        if routes.evaluation_failure is not None and routes.evaluation_failure is not end:
            _add_failure(execution, step, run, routes.evaluation_failure, handled=False)
        return step_exit
    if not targets and step.route.on_no_match == "end":
        targets = (execution.graph.final,)
    return StepExit(step.name, targets)


def enter_region(
    execution: Execution, entry: Step, run: StepRun, end: End | None = None, kind: str = ""
) -> ChosenRoutes:
    """Choose the arcs into a loop's region and emit them. ``entry`` is the loop step with these arcs as its route.
    ``end`` is the end of its tasks for this item, None if it has no tasks; ``kind`` is that of their result.
    """
    end = end or End("ok", OK, None, entry.span)
    routes = choose_routes(execution, entry, run, "failed" if end.status == "error" else "completed", end, kind)
    if routes is None:
        return ChosenRoutes()
    _emit_routes(execution, entry, run, routes)
    for warning in routes.warnings:
        execution.host(entry, run).warn(warning.message, warning.span)
    if routes.values:
        execution.host(entry, run).emit_set(routes.values)
    return routes


def _route_scope(execution: Execution, step: Step, run: StepRun, status: str, end: End, kind: str) -> Mapping[str, Any]:
    host = execution.host(step, run)
    profile = execution.graph.names.outcome
    names = call_names(profile, step.name, kind, end.outcome, end.attempt, end.page, host.scope)
    return host.scope({**names, **event_names(_event_name(execution, step, status), step.name, end.outcome)})


def _event_name(execution: Execution, step: Step, status: str) -> str:
    if status == "skipped":
        return SKIPPED
    after = AFTER_LOOP if step.loop is not None or step.name in execution.plan.loops_by_end else AFTER_CALL
    return after["error" if status == "failed" else "ok"]


def _emit_routes(execution: Execution, step: Step, run: StepRun, routes: ChosenRoutes) -> None:
    evaluation_failure = routes.evaluation_failure
    execution.journal.emit(
        "next.evaluated",
        step.name,
        "step",
        "COMPLETED" if evaluation_failure is None else "FAILED",
        parent=run.event_id or execution.state.workflow_id,
        error=message_of(evaluation_failure.outcome) if evaluation_failure else None,
        span=evaluation_failure.span if evaluation_failure else None,
        meta={
            "mode": step.route.mode,
            "arcs": list(routes.chosen.evaluated),
            "chosen": list(routes.chosen.targets),
            "step_run_id": run.id,
        },
    )


def _reported_warnings(execution: Execution, selection: Selection) -> tuple[ConditionWarning, ...]:
    """Return the warnings about conditions that did not match because of an undefined name."""
    has_conditions = (bool(arc.when) for arc in selection.arcs)
    return selection.warnings if is_reported(execution.graph.names, has_conditions) else ()


def _exit_after_failure(execution: Execution, step: Step, run: StepRun, end: End, targets: tuple[str, ...]) -> StepExit:
    """Record the failure of a run and return where its token moves. The failure is handled if an arc is followed after
    it; else the token moves to the final step (semantics.md 4).

    Failures belong to one run of a step: handling one does not handle those of other runs. Failures of loop items are
    recorded already and are more specific than that of the loop. No arc handles the failure of a guarded task that
    followed that of the step.
    """
    is_handled = bool(targets)
    error: dict[str, Any] = end.outcome.get("error") or {}
    is_of_items = error.get("kind") == ITEMS_FAILED
    deferred_failures = _take_deferred_failures(execution, step)
    if deferred_failures.total:
        _add_failures(execution, deferred_failures, handled=is_handled)
    elif is_of_items and run.loop is not None and run.loop.failures.total:
        pass  # the failures of the items are recorded or deferred already
    elif is_handled and step.loop is not None and step.loop.end:
        _defer_failures(execution, step, FailureLog().with_failure(_failure_of_run(execution, step, run, end)))
    else:
        _add_failure(execution, step, run, end, handled=is_handled)
    if end.guarded_failure is not None:
        _add_failure(execution, step, run, end.guarded_failure, handled=False)
        is_handled = False
    stops = not is_handled and (step.branch_failure or execution.graph.branch_failure) == "fail_fast"
    return StepExit(step.name, targets or (execution.graph.final,), stops)


def record_failure(execution: Execution, step: Step, run: StepRun, end: End, *, handled: bool) -> None:
    """Record the failure of a step run and those of its items."""
    items = FailureLog() if run.loop is None else run.loop.failures
    _add_failures(execution, items, handled=handled)
    error: dict[str, Any] = end.outcome.get("error") or {}
    if not (error.get("kind") == ITEMS_FAILED and items.total):
        _add_failure(execution, step, run, end, handled=handled)


def _add_failure(execution: Execution, step: Step, run: StepRun, end: End, *, handled: bool) -> None:
    failure = replace(_failure_of_run(execution, step, run, end), handled=handled)
    execution.state.failures = execution.state.failures.with_failure(failure)


def _failure_of_run(execution: Execution, step: Step, run: StepRun, end: End) -> Failure:
    return failure_at(execution.graph.source, step.name, end.outcome, end.span, run=run.id, task=end.task)


def _add_item_failures(execution: Execution, step: Step, run: StepRun, *, handled: bool) -> None:
    """Add the failures of loop items at the end of the step, when it is known whether they are handled; those of a loop
    over steps are added at the end of the step that ends the loop.
    """
    if step.loop is None or run.loop is None:
        return
    if handled and step.loop.end:
        _defer_failures(execution, step, run.loop.failures)
    else:
        _add_failures(execution, run.loop.failures, handled=handled or step.loop.failure == "best_effort")


def _defer_failures(execution: Execution, step: Step, failures: FailureLog) -> None:
    """Defer failures to the step that ends the loop, which may handle them."""
    record = execution.state.records[step.name]
    record.failures = record.failures.followed_by(failures)


def add_deferred_failures(execution: Execution) -> None:
    """At the end of the run, add the failures of loops over steps whose end was not reached, as unhandled."""
    for record in execution.state.records.values():
        if record.failures.counts:
            failures, record.failures = record.failures, FailureLog()
            _add_failures(execution, failures, handled=False)


def _take_deferred_failures(execution: Execution, step: Step) -> FailureLog:
    """Return the failures of items that were deferred to the step that ends their loop."""
    loop = execution.state.records.get(execution.plan.loops_by_end.get(step.name, ""))
    if loop is None:
        return FailureLog()
    failures, loop.failures = loop.failures, FailureLog()
    return failures


def _add_failures(execution: Execution, failures: FailureLog, *, handled: bool) -> None:
    execution.state.failures = execution.state.failures.followed_by(failures.as_handled() if handled else failures)
