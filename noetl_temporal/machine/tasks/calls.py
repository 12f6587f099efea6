"""From a place in a pipeline to the call that its activity gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noetl_compiler import templates
from noetl_compiler.graph import SourceRef, Step, Task
from noetl_temporal.machine.call import Outcome, ToolCall
from noetl_temporal.machine.ids import escaped, fitted
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.rendering import RenderedTask, scope_paths, sink_calls

__all__ = ["Caller", "call_id", "store_call", "summary", "timer_id", "tool_call"]

MAX_LABEL = 100
"""Characters of the names in a summary, so that item and page are still seen."""


class Caller(Protocol):
    """Whom a call is made for.

    ``prefix`` makes ids unique in the workflow, ``key`` in the world; ``once`` is the key of the run of the step, which
    all iterations of its loop share.
    """

    journal: Journal
    step: Step
    source: SourceRef
    execution_id: int
    prefix: str
    key: str
    once: str
    iteration: int | None


def call_id(caller: Caller, task: Task, state: PipelineState) -> str:
    """Unique in the workflow, whatever the names hold."""
    return fitted(_place(caller, task, state))


def timer_id(caller: Caller, task: Task, state: PipelineState) -> str:
    """Of the delay after a call."""
    return fitted(f"{_place(caller, task, state)}:delay")


def _place(caller: Caller, task: Task, state: PipelineState) -> str:
    return f"{caller.prefix}:{escaped(task.label)}:{state.executions}"


def tool_call(
    caller: Caller,
    task: Task,
    state: PipelineState,
    rendered: RenderedTask,
    names: Mapping[str, Any],
    page: int | None,
) -> ToolCall:
    """The call of a task, with what its rules and its attempt-level sinks need of the scope and nothing more."""
    key = _key(caller, task, state)
    sinks = sink_calls(task.sinks, "attempt", key, _once(caller, task), names)
    return ToolCall(
        id=call_id(caller, task, state),
        key=key,
        execution_id=caller.execution_id,
        step=caller.step.name,
        task=task.label,
        kind=task.kind,
        event_id=state.event_id,
        dialect=caller.source.dialect,
        config=rendered.config,
        input=rendered.input,
        auth=rendered.auth,
        timeout=rendered.timeout,
        connect_timeout=rendered.connect_timeout,
        read_timeout=rendered.read_timeout,
        rules=rendered.rules,
        scope=templates.project(names, scope_paths(rendered.rules or (), sinks)),
        sinks=sinks,
        idempotent=task.idempotent,
        idempotency_key=task.idempotency_key,
        iteration=caller.iteration,
        page=page,
        aside=task.guard is not None,
    )


def store_call(
    caller: Caller, task: Task, state: PipelineState, names: Mapping[str, Any], outcome: Outcome
) -> ToolCall:
    """A call that is nothing but the task-level sinks, with the outcome to store."""
    key = _key(caller, task, state)
    sinks = sink_calls(task.sinks, "task", key, _once(caller, task), names)
    return ToolCall(
        id=fitted(f"{_place(caller, task, state)}:sink"),
        key=key,
        execution_id=caller.execution_id,
        step=caller.step.name,
        task=task.label,
        kind=sinks[0].kind,
        event_id=state.event_id,
        dialect=caller.source.dialect,
        scope=templates.project(names, scope_paths((), sinks)),
        sinks=sinks,
        iteration=caller.iteration,
        store=outcome,
    )


def _key(caller: Caller, task: Task, state: PipelineState) -> str:
    return f"{caller.key}/{escaped(task.label)}/{state.executions}"


def _once(caller: Caller, task: Task) -> str:
    """The same for all calls of the task in this run of its step, in whichever iteration."""
    return f"{caller.once}/{escaped(task.label)}"


def summary(caller: Caller, task: Task, page: int | None) -> str:
    """What the Temporal UI shows: ``fetch [http] item 2 page 3``."""
    step = caller.step
    label = step.name if len(step.tasks) == 1 else f"{step.name}.{task.label}"
    label = label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 3]}..."
    item = "" if caller.iteration is None else f" item {caller.iteration + 1}"
    return f"{label} [{task.kind}]{item}" + ("" if page is None else f" page {page}")
