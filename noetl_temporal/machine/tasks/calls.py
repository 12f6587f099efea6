"""Builds the call of an activity from the state of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noetl_compiler import templates
from noetl_compiler.graph import NamesProfile, Step
from noetl_temporal.machine.call import LeaseRenewal, PlainOutcome, ToolCall
from noetl_temporal.machine.ids import shorten_id
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.plan import StepPlan, TaskPlan
from noetl_temporal.machine.tasks.rendering import RenderedTask, sink_calls

__all__ = ["Caller", "call_id", "store_call", "summary", "timer_id", "tool_call"]


class Caller(Protocol):
    """The step run or iteration that makes a call.

    With ``prefix`` the ids of calls are unique in the workflow; with ``key`` their idempotency keys are unique in all
    runs. ``step_run_key`` is the key of the step run, which all iterations of its loop share. ``secrets_key`` signs the
    run's references to secrets, if it has any.
    """

    journal: Journal
    step: Step
    plan: StepPlan
    names: NamesProfile
    secrets_key: str
    prefix: str
    key: str
    step_run_key: str
    iteration: int | None

    def lease(self) -> LeaseRenewal | None:
        """Return the lease of the row that a call processes. Raises TemplateFailure."""
        ...


def call_id(caller: Caller, plan: TaskPlan, state: PipelineState) -> str:
    """Return the id of the call, unique in the workflow."""
    return shorten_id(f"{caller.prefix}:{plan.name}:{state.executions}")


def timer_id(caller: Caller, plan: TaskPlan, state: PipelineState) -> str:
    """Return the id of the timer for the delay after a call."""
    return _suffixed_id(caller, plan, state, "delay")


def _suffixed_id(caller: Caller, plan: TaskPlan, state: PipelineState, end: str) -> str:
    return shorten_id(f"{caller.prefix}:{plan.name}:{state.executions}:{end}")


def tool_call(
    caller: Caller, plan: TaskPlan, state: PipelineState, id_: str, rendered: RenderedTask, names: Mapping[str, Any]
) -> ToolCall:
    """Return the call of a task, with only those names of the scope that its rules and attempt-level sinks read."""
    key, task, outcome_to_store = _key(caller, plan, state), plan.task, None
    return ToolCall(  # by position: each keyword costs msgspec as much as ten positions
        id_,
        key,
        caller.step.name,
        task.label,
        task.kind,
        state.progress.event_id,
        caller.names.outcome if plan.needs_scope else "usual",
        rendered.config,
        rendered.input,
        rendered.auth,
        rendered.timeout,
        rendered.connect_timeout,
        rendered.read_timeout,
        plan.rules,
        templates.project(names, plan.call_paths) if plan.needs_scope and plan.call_paths else {},
        sink_calls(plan.attempt_sinks, key, _task_key(caller, plan), names) if plan.attempt_sinks else (),
        task.idempotent,
        task.idempotency_key,
        caller.iteration,
        plan.page(state),
        outcome_to_store,
        task.guard is not None,
        caller.secrets_key,
        caller.lease(),
    )


def store_call(
    caller: Caller, plan: TaskPlan, state: PipelineState, names: Mapping[str, Any], outcome: PlainOutcome
) -> ToolCall:
    """Return a call that only performs the task-level sinks, with the outcome to store."""
    key = _key(caller, plan, state)
    sinks = sink_calls(plan.task_sinks, key, _task_key(caller, plan), names)
    return ToolCall(
        id=_suffixed_id(caller, plan, state, "sink"),
        key=key,
        step=caller.step.name,
        task=plan.task.label,
        kind=sinks[0].kind,
        event_id=state.progress.event_id,
        names=caller.names.outcome,
        scope=templates.project(names, plan.store_paths),
        sinks=sinks,
        iteration=caller.iteration,
        outcome_to_store=outcome,
        secrets_key=caller.secrets_key,
    )


def _key(caller: Caller, plan: TaskPlan, state: PipelineState) -> str:
    return f"{caller.key}/{plan.name}/{state.executions}"


def _task_key(caller: Caller, plan: TaskPlan) -> str:
    """Return the key of the task in this step run, the same for all its calls and iterations."""
    return f"{caller.step_run_key}/{plan.name}"


def summary(caller: Caller, plan: TaskPlan, page: int | None) -> str:
    """Return the summary in Temporal's UI: ``fetch [http] item 2 page 3``."""
    item = "" if caller.iteration is None else f" item {caller.iteration + 1}"
    return plan.title + item + ("" if page is None else f" page {page}")
