"""What is known of the tasks of a step before it runs, computed once per machine. It is not part of the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Policy, Rule, Sink, Step, Task, Value
from noetl_compiler.graph.contents import templates_in
from noetl_compiler.language.defaults import MULTIPLIER
from noetl_compiler.language.tools import WAIT_KINDS
from noetl_temporal.machine.call import CallRule
from noetl_temporal.machine.ids import escape_name
from noetl_temporal.machine.routing import Boundary, Selection, fixed_selection
from noetl_temporal.machine.scope import NAMES_OF_EVERY_OUTCOME
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.collect import collect_of

__all__ = ["StepPlan", "TaskPlan", "call_rule", "scope_paths"]

MAX_LABEL = 100
"""Maximum length of the names in a summary, so that item and page are displayed."""


class TaskPlan:
    """The plan of one task. ``name`` is its label in ids, ``title`` the start of a summary: ``fetch [http]``. It
    ``paginates`` if a rule has the action ``again``, ``binds_names`` if it has an input, and ``needs_scope`` if its
    activity evaluates templates. ``first_names`` are the names of the pipeline before its first result.
    """

    def __init__(self, step: Step, task: Task) -> None:
        self.task = task
        self.name = escape_name(task.label)
        self.title = _title(step, task)
        self.rules = _rules(task.policy)
        self.circuit = task.policy.circuit if task.policy is not None and task.kind not in WAIT_KINDS else None
        self.collect = collect_of(task)
        self.paginates = task.policy is not None and any(rule.do == "again" for rule in task.policy.rules)
        self.attempt_sinks = _sinks_of_level(task, "attempt")
        self.task_sinks = _sinks_of_level(task, "task")
        self.needs_scope = bool(self.rules or self.attempt_sinks)
        self.binds_names = bool(task.inherited_input.data or task.input.data)
        self.first_names: Mapping[str, Any] = {"_task": task.label, "_prev": None}

    @cached_property
    def call_paths(self) -> tuple[str, ...]:
        """The paths of the scope that the call needs. Raises TemplateFailure."""
        return self._outer_paths(self.rules or (), self.attempt_sinks)

    @cached_property
    def store_paths(self) -> tuple[str, ...]:
        """The paths that the task-level sinks read, for the call that performs them. Raises TemplateFailure."""
        return self._outer_paths((), self.task_sinks)

    @property
    def reads_names(self) -> bool:
        """Whether a template of the call may read names of the scope. Raises TemplateFailure."""
        task = self.task
        if task.config.templates or task.splices or task.auth or task.timeout or self.circuit or self.attempt_sinks:
            return True
        return self.needs_scope and bool(self.call_paths)

    def _outer_paths(self, rules: Sequence[CallRule], sinks: Sequence[tuple[int, Sink]]) -> tuple[str, ...]:
        """Return the paths that rules and sinks read, without the names of every outcome, which shadow those of the
        scope. Only a guarded task reads the outcome of another task.
        """
        paths = scope_paths(rules, (sink for _, sink in sinks))
        if self.task.guard is not None:
            return paths
        return tuple(path for path in paths if path.partition(".")[0] not in NAMES_OF_EVERY_OUTCOME)

    def page(self, state: PipelineState) -> int | None:
        """Return the current page, from 1; None for a task without pages."""
        return state.progress.page if self.paginates else None


class StepPlan:
    """The plan of one step: the plans of its ``tasks`` in order; ``name`` is the step's name in ids."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.name = escape_name(step.name)
        self.tasks = tuple([TaskPlan(step, task) for task in step.tasks])
        self._fixed_routes: dict[Boundary, Selection | None] = {}

    def fixed_routes(self, boundary: Boundary) -> Selection | None:
        """Return the routes after a success or error if they are the same for all runs of the step; else None."""
        if boundary not in self._fixed_routes:
            self._fixed_routes[boundary] = fixed_selection(self.step.route, boundary)
        return self._fixed_routes[boundary]


def _title(step: Step, task: Task) -> str:
    label = step.name if len(step.tasks) == 1 else f"{step.name}.{task.label}"
    label = label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 3]}..."
    return f"{label} [{task.kind}]"


def _sinks_of_level(task: Task, level: str) -> tuple[tuple[int, Sink], ...]:
    """Return the sinks of a level, ``attempt`` or ``task``, with their positions among all sinks of the task."""
    return tuple([(index, sink) for index, sink in enumerate(task.sinks) if sink.level == level]) if task.sinks else ()


def _rules(policy: Policy | None) -> tuple[CallRule, ...] | None:
    if policy is None:
        return None
    return tuple(call_rule(index, rule) for index, rule in enumerate(policy.rules))


def call_rule(index: int, rule: Rule) -> CallRule:
    """Return a rule as its call contains it; the activity renders its numbers when it applies the rule."""
    return CallRule(
        index=index,
        do=rule.do if rule.wait_for is None else "wait",
        on_status=rule.on_status,
        when=rule.when.source if rule.when else None,
        attempts=rule.attempts,
        backoff=rule.backoff,
        multiplier=MULTIPLIER if rule.multiplier == MULTIPLIER else rule.multiplier,  # the same object is left out
        delay=rule.delay,
        max_delay=rule.max_delay,
        jitter=rule.jitter,
    )


def scope_paths(rules: Iterable[CallRule], sinks: Iterable[Sink]) -> tuple[str, ...]:
    """Return the paths of names that rules and sinks read: the call sends their values to the activity."""
    sources: set[str] = set()
    for rule in rules:
        sources.update(() if rule.when is None else (rule.when,))
        sources.update(template.source for template in templates_in(_numeric_values(rule)))
    for sink in sinks:
        sources.update(template.source for template in templates_in((sink.config, sink.guard)))
    return tuple(sorted({path for source in sources for path in templates.read_paths(source)}))


def _numeric_values(rule: CallRule) -> tuple[Value | None, ...]:
    """Return the values of a rule that the activity reads as numbers when the rule applies."""
    if rule.do == "again":
        return (rule.attempts,)
    return (rule.attempts, rule.delay, rule.max_delay) if rule.do == "retry" else ()
