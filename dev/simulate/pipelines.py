"""Checks each call against its task: its end in the log, its sinks, its delays, and a break after it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.statements import is_statement
from noetl_compiler.graph import Rule, Task
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Command, Emit
from noetl_temporal.machine.facts import ToolFinished

__all__ = ["check_pipelines"]

TASK_ENDS = {"task.done": "ok", "task.failed": "error", "task.cancelled": "cancelled"}


def check_pipelines(run_trace: RunTrace) -> None:
    """Raises Finding."""
    for invariant in (_check_ends_of_calls, _check_lost_calls, _check_breaks, _check_sinks):
        invariant(run_trace)


def _check_ends_of_calls(run_trace: RunTrace) -> None:
    """Check that a call ends in the log as it really ended."""
    for trace in run_trace.traces.values():
        calls = _calls_by_id(trace)
        ends = {
            event.meta.get("task_run_id"): TASK_ENDS[event.type] for event in trace.events if event.type in TASK_ENDS
        }
        for turn in trace.turns:
            fact: Any = turn.fact
            if isinstance(fact, ToolFinished) and _ends_its_task(run_trace, calls[fact.call_id]):
                _check_logged_end(fact, ends.get(fact.call_id))


def _ends_its_task(run_trace: RunTrace, call: Any) -> bool:
    """Whether a call ends its task: not if sinks run after the calls of the task."""
    task = _task_of(run_trace, call)
    return call.outcome_to_store is None and all(sink.level == "attempt" for sink in task.sinks)


def _task_of(run_trace: RunTrace, call: ToolCall) -> Task:
    step = run_trace.graph.steps[call.step]
    cursor = step.loop.cursor if step.loop is not None else None
    tasks = cursor.tasks if cursor is not None and is_statement(call) else step.tasks
    return next(task for task in tasks if task.label == call.task)


def _check_logged_end(fact: ToolFinished, expected: str | None) -> None:
    if fact.cancelled and expected != "cancelled":
        raise Finding("a call's end is logged wrongly", f"{fact.call_id} was cancelled, the log has {expected}")
    if not fact.cancelled and expected == "cancelled":
        raise Finding("a call's end is logged wrongly", f"{fact.call_id} ended by itself, the log has {expected}")


def _calls_by_id(trace: MachineTrace) -> dict[str, ToolCall]:
    commands = (command for turn in trace.turns for command in turn.commands)
    return {command.call.id: command.call for command in commands if isinstance(command, CallTool)}


def _check_lost_calls(run_trace: RunTrace) -> None:
    """Check that a lost call is repeated according to the rules, and not before their delay is over."""
    for trace in run_trace.traces.values():
        calls = _calls_by_id(trace)
        for number, turn in enumerate(trace.turns):
            fact: Any = turn.fact
            if not isinstance(fact, ToolFinished) or fact.report.is_decided or fact.cancelled:
                continue
            call = calls[fact.call_id]
            seconds = _delay_of(_task_of(run_trace, call), turn.commands)
            if seconds > 0 and _is_called_again(turn.commands, call):
                raise Finding("a delay is dropped", f"of {seconds} s after {call.id} was lost, in turn {number}")


def _delay_of(task: Task, commands: list[Command]) -> float:
    """Return the delay of the rule that the machine applied, in seconds, if it is a plain number, else 0."""
    decisions = [
        command.event.meta
        for command in commands
        if isinstance(command, Emit) and command.event.meta.get("do") == "retry"
    ]
    if not decisions or task.policy is None:
        return 0.0
    rules: tuple[Rule, ...] = task.policy.rules
    delay = rules[int(decisions[0]["rule"])].delay
    return float(delay.data) if delay is not None and isinstance(delay.data, int | float) else 0.0


def _is_called_again(commands: list[Any], call: ToolCall) -> bool:
    """Whether the call is repeated in the same step run; a failed ``set`` may lead back to the step."""
    return any(
        isinstance(command, CallTool) and _run_and_task(command.call) == _run_and_task(call) for command in commands
    )


def _run_and_task(call: ToolCall) -> str:
    return call.id.rpartition(":")[0]


def _check_breaks(run_trace: RunTrace) -> None:
    """Check that no further task of the pipeline begins after a rule's break."""
    for trace in run_trace.traces.values():
        broken_pipelines: set[Any] = set()
        pipelines: dict[str, Any] = {}
        for turn in trace.turns:
            fact: Any = turn.fact
            if isinstance(fact, ToolFinished) and not fact.cancelled and _does_break(pipelines[fact.call_id][1], fact):
                broken_pipelines.add(pipelines[fact.call_id][0])
            for command in turn.commands:
                if isinstance(command, CallTool):
                    pipeline = command.call.id.rsplit(":", 3 if command.call.outcome_to_store is not None else 2)[0]
                    pipelines[command.call.id] = (pipeline, command.call)
                    if (
                        pipeline in broken_pipelines
                        and command.call.outcome_to_store is None
                        and not command.call.is_guarded
                    ):
                        raise Finding("a task begins after a break", command.call.id)


def _does_break(call: Any, fact: ToolFinished) -> bool:
    rules = {rule.index: rule.do for rule in call.rules or ()}
    return fact.report.rule is not None and rules.get(fact.report.rule) == "break"


def _check_sinks(run_trace: RunTrace) -> None:
    """Check that every call has the sinks of its task, and that keys of calls are unique."""
    keys: Counter[str] = Counter()
    for trace in run_trace.traces.values():
        for turn in trace.turns:
            for command in turn.commands:
                if isinstance(command, CallTool):
                    _check_sinks_of_call(run_trace, command.call)
                    keys[command.call.key + ("/store" if command.call.outcome_to_store else "")] += 1
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise Finding("two calls have one key", repeated[0])


def _check_sinks_of_call(run_trace: RunTrace, call: Any) -> None:
    task = _task_of(run_trace, call)
    level = "attempt" if call.outcome_to_store is None else "task"
    expected = [sink for sink in task.sinks if sink.level == level]
    if len(call.sinks) != len(expected):
        raise Finding("a call has other sinks than its task", f"{call.id}: {len(call.sinks)} of {len(expected)}")
