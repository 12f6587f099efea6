"""Facts about the tasks of a step that do not depend on a run, computed once per machine and not part of its state."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from noetl_compiler import templates
from noetl_compiler.graph import Policy, Rule, Sink, Step, Task, Value
from noetl_compiler.graph.contents import templates_in
from noetl_compiler.language.defaults import MULTIPLIER
from noetl_compiler.language.tools import WAITS
from noetl_temporal.machine.call import CallRule
from noetl_temporal.machine.ids import escaped
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.collect import collect_of

__all__ = ["StepPlan", "TaskPlan", "call_rule", "scope_paths"]

MAX_LABEL = 100
"""Maximum length of the names in a summary, so that item and page are displayed."""


class TaskPlan:
    """One task. ``name`` is its label in ids, ``title`` the start of a summary: ``fetch [http]``. It ``binds_names`` if
    it has an input.
    """

    def __init__(self, step: Step, task: Task) -> None:
        self.task = task
        self.name = escaped(task.label)
        self.title = _title(step, task)
        self.rules = _rules(task.policy)
        self.circuit = task.policy.circuit if task.policy is not None and task.kind not in WAITS else None
        self.collect = collect_of(task)
        self.paginates = task.policy is not None and any(rule.do == "again" for rule in task.policy.rules)
        self.attempt_sinks = _of_level(task, "attempt")
        self.task_sinks = _of_level(task, "task")
        self.binds_names = any(one.data or one.templates for one in (task.given, task.input))
        self.needs_scope = bool(self.rules or self.attempt_sinks)

    @cached_property
    def call_paths(self) -> tuple[str, ...]:
        """The paths of the scope that the call needs. Raises TemplateFailure."""
        return scope_paths(self.rules or (), (sink for _, sink in self.attempt_sinks))

    @cached_property
    def store_paths(self) -> tuple[str, ...]:
        """The paths that the task-level sinks read, for the call that performs them."""
        return scope_paths((), (sink for _, sink in self.task_sinks))

    def page(self, state: PipelineState) -> int | None:
        """Return the current page, from 1; None for a task without pages."""
        return state.task.page if self.paginates else None


class StepPlan:
    """All tasks of a step, in order."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.tasks = tuple(TaskPlan(step, task) for task in step.tasks)


def _title(step: Step, task: Task) -> str:
    label = step.name if len(step.tasks) == 1 else f"{step.name}.{task.label}"
    label = label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 3]}..."
    return f"{label} [{task.kind}]"


def _of_level(task: Task, level: str) -> tuple[tuple[int, Sink], ...]:
    """Return the sinks of a level, with their positions among all sinks of the task."""
    return tuple((index, sink) for index, sink in enumerate(task.sinks) if sink.level == level)


def _rules(policy: Policy | None) -> tuple[CallRule, ...] | None:
    if policy is None:
        return None
    return tuple(call_rule(index, rule) for index, rule in enumerate(policy.rules))


def call_rule(index: int, rule: Rule) -> CallRule:
    """Return the form of a rule in a call; its numbers are rendered when it is applied."""
    return CallRule(
        index=index,
        do=rule.do if rule.wait_for is None else "wait",
        on=rule.on,
        when=rule.when.source if rule.when else None,
        attempts=rule.attempts,
        backoff=rule.backoff,
        multiplier=MULTIPLIER if rule.multiplier == MULTIPLIER else rule.multiplier,  # the same object is left out
        delay=rule.delay,
        max_delay=rule.max_delay,
        jitter=rule.jitter,
    )


def scope_paths(rules: Iterable[CallRule], sinks: Iterable[Sink]) -> tuple[str, ...]:
    """Return the paths that rules and sinks read, so the activity needs them."""
    sources: set[str] = set()
    for rule in rules:
        sources.update(() if rule.when is None else (rule.when,))
        sources.update(one.source for one in templates_in(_numeric_values(rule)))
    for sink in sinks:
        sources.update(one.source for one in templates_in((sink.config, sink.guard)))
    return tuple(sorted({path for source in sources for path in templates.paths(source)}))


def _numeric_values(rule: CallRule) -> tuple[Value | None, ...]:
    """Return the values of a rule that the activity reads as numbers when the rule applies."""
    if rule.do == "again":
        return (rule.attempts,)
    return (rule.attempts, rule.delay, rule.max_delay) if rule.do == "retry" else ()
