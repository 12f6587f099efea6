"""Find the names that a template sees where it is used, as far as the playbook determines them.

A bare name is looked up in these scopes, in this order: the outcome, the input of the task, the iteration, the engine,
``ctx``, the results of steps and tasks, the workload (semantics.md 13). The names of the engine are
tables in ``language/names.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from noetl_compiler.graph import Assign, Value
from noetl_compiler.language.names import (
    ALL_RESULTS,
    BELOW_EVENT,
    BELOW_ITER,
    BELOW_JOB,
    CURSOR_STATEMENT,
    EVENT,
    FINAL_STEP_NAMES,
    ITERATION,
    LEASE,
    LOOP_SINK,
    OUTCOME,
    PIPELINE,
    PREVIOUS_OUTCOME,
    ROW,
    RUN,
    VARS_MODULE,
    WORKLOAD,
    WORKLOAD_DEFAULTS,
    results_name,
)
from noetl_compiler.language.names_profile import PROFILES
from noetl_compiler.language.tools import APPROVAL
from noetl_compiler.language.words import Dialect
from noetl_compiler.syntax import Loop, Playbook, Step, Task
from noetl_compiler.syntax_queries import (
    assigns_of_step,
    assigns_of_task,
    entry_name_of,
    final_name_of,
    values_passed_to_steps,
)
from noetl_compiler.templating.template_uses import RenderedAt, TemplateUse
from noetl_compiler.value_merge import mapping_of

__all__ = [
    "IN_LOOP",
    "VisibleNames",
]

IN_LOOP = (RenderedAt.CURSOR, RenderedAt.ITEM, RenderedAt.TASK, RenderedAt.OUTCOME, RenderedAt.ITEM_ARC)
"""When a template is rendered for each iteration of the loop of its step."""

_QUOTED_NAME = re.compile(r"""["']([A-Za-z]\w*)["']""")
_NO_NAMES: frozenset[str] = frozenset()


class VisibleNames:
    """Determines the names that the templates of one playbook see."""

    def __init__(self, playbook: Playbook) -> None:
        self.dialect: Dialect = playbook.dialect
        self._playbook = playbook
        self._profile = PROFILES[playbook.dialect]
        self._bound_names_at: dict[tuple[RenderedAt, int, int], frozenset[str] | None] = {}
        self._author_names_at: dict[tuple[RenderedAt, int, int], frozenset[str] | None] = {}
        self._engine_names_at: dict[tuple[RenderedAt, int], frozenset[str]] = {}

    def may_be_bound(self, use: TemplateUse, name: str) -> bool:
        """Whether a bare name is bound for this use, or may be."""
        if use.rendered_at is RenderedAt.WORKLOAD:
            return name in WORKLOAD_DEFAULTS or name in self.workload
        if name in self._global_names or name in self._engine_names(use):
            return True
        bound_names = self._bound_names(use)
        return bound_names is None or name in bound_names

    def may_shadow_result(self, use: TemplateUse, name: str) -> bool:
        """Whether the name of a step may be bound to anything but the result of the step for this use."""
        if name in self._global_names_without_results or name in self._engine_names(use):
            return True
        bound_names = self._bound_names(use)
        return bound_names is None or name in bound_names

    def may_be_bound_by_playbook(self, use: TemplateUse, name: str) -> bool:
        """Whether the playbook itself binds a name for this use, which hides that of the engine, or may do so. If a
        template decides which names are bound, any name but ``workload`` may be.
        """
        author_names = self._author_names(use)
        return name not in WORKLOAD if author_names is None else name in author_names

    def can_only_be_task(self, use: TemplateUse, name: str) -> bool:
        """Whether a name has no other meaning for this use than that of a task of the step."""
        bound_names, step_name = self._bound_names(use), use.step.name.text if use.step is not None else ""
        return (
            bound_names is not None
            and name not in bound_names | self._global_names_without_results | self.results - {step_name}
        )

    def steps_with_task(self, name: str) -> tuple[Step, ...]:
        """Return the steps that have a task of this name."""
        return self._steps_by_task.get(name, ())

    @cached_property
    def entry(self) -> str:
        """The step where a run begins."""
        return entry_name_of(self._playbook)

    def known_names(self, use: TemplateUse) -> frozenset[str]:
        """Return all bare names that are known to be bound for this use."""
        if use.rendered_at is RenderedAt.WORKLOAD:
            return WORKLOAD_DEFAULTS | self.workload
        bound_names = self._bound_names(use)
        return self._global_names if bound_names is None else self._global_names | bound_names | self._engine_names(use)

    def names_below(self, use: TemplateUse, name: str) -> frozenset[str] | None:
        """Return the names that are defined below a name of the engine; None if that is unknown."""
        match name:
            case "workload" | "work":
                return self.workload
            case "ctx":
                return self._below_ctx
            case "vars":
                return self.ctx | self.workload
            case "results" | "steps":
                return self.results | {task.label.text for task in use.step.tasks} if use.step else None
            case "keychain":
                return self.keychain
            case "job":
                return BELOW_JOB
            case "iter":
                return None if self.region_names else self._iteration_names(use)
            case "loop" | "_loop":
                result_names = BELOW_ITER | self.results if self._profile.task_results else BELOW_ITER
                return None if self.region_names or name in self._playbook_names else result_names
            case "event":
                return BELOW_EVENT if self._has_event(use) and name not in self._playbook_names else None
            case _:
                return None

    @cached_property
    def approvals(self) -> dict[str, Task]:
        """The steps whose result is that of an approval, with its task."""
        last_tasks = {step.name.text: step.tasks[-1] for step in self._playbook.steps if step.tasks and not step.loop}
        return {name: task for name, task in last_tasks.items() if task.kind.text == APPROVAL}

    @cached_property
    def workload(self) -> frozenset[str]:
        """The keys of the defaults in the workload. The request may add others."""
        return frozenset(mapping_of(self._playbook.workload))

    @cached_property
    def results(self) -> frozenset[str]:
        """The names that are bound to results: those of the steps, and in some dialects those of the tasks."""
        steps = self._playbook.steps
        tasks = _tasks_of(steps) if self._profile.task_results else ()
        return frozenset({step.name.text for step in steps} | {task.label.text for task in tasks})

    @cached_property
    def ctx(self) -> frozenset[str]:
        """The names below ``ctx`` that any step, task, rule, arc or VarsCache sets."""
        workbook_assigns = (assign for task in self._playbook.workbook for assign in assigns_of_task(task))
        assigned_names = _names_assigned_below("ctx", (*workbook_assigns, *_assigns_of_steps(self._playbook.steps)))
        return assigned_names.union(*map(_names_in_code, (*self._playbook.workbook, *_tasks_of(self._playbook.steps))))

    @cached_property
    def _final(self) -> str:
        return final_name_of(self._playbook)

    @cached_property
    def _steps_by_task(self) -> dict[str, tuple[Step, ...]]:
        steps_by_label: dict[str, tuple[Step, ...]] = {}
        for step in self._playbook.steps:
            for label in {task.label.text for task in step.tasks}:
                steps_by_label[label] = (*steps_by_label.get(label, ()), step)
        return steps_by_label

    @cached_property
    def keychain(self) -> frozenset[str]:
        """The names of the keychain's entries."""
        return frozenset(entry.name for entry in self._playbook.keychain)

    @cached_property
    def region_names(self) -> frozenset[str]:
        """Names that are bound for many steps: the elements of loops over steps and of loops whose items have routes;
        in v1 also the names that routes pass.
        """
        names: set[str] = set()
        for step in self._playbook.steps:
            if step.loop is not None and (step.loop.next is not None or not step.tasks):
                names |= ITERATION | {step.loop.element.text}
            if step.ended_loop is not None:
                names.update(mapping_of(step.result) if step.result is not None else ("results",))
        if self._playbook.dialect == "v1":
            names.update(
                name
                for passed_values in self._values_passed.values()
                for args in passed_values
                for name in mapping_of(args)
            )
        return frozenset(names)

    @cached_property
    def _playbook_names(self) -> frozenset[str]:
        """The names that the playbook itself binds. They may be those of the engine, too."""
        elements = {step.loop.element.text for step in self._playbook.steps if step.loop is not None}
        passed_values = {
            name for values in self._values_passed.values() for args in values for name in mapping_of(args)
        }
        return self.results | self.ctx | self.workload | elements | passed_values

    @cached_property
    def _global_names(self) -> frozenset[str]:
        return self._global_names_without_results | self.results

    @cached_property
    def _global_names_without_results(self) -> frozenset[str]:
        step = {"step"} if self._profile.outcome == "step" else _NO_NAMES
        steps = {"steps", "loop"} if self._profile.task_results else _NO_NAMES
        return RUN | step | steps | self.ctx | self.region_names | self.workload | self.keychain

    @cached_property
    def _below_ctx(self) -> frozenset[str]:
        return self.ctx | self.results | self.workload

    @cached_property
    def _values_passed(self) -> dict[str, list[Value]]:
        return values_passed_to_steps(self._playbook)

    def _engine_names(self, use: TemplateUse) -> frozenset[str]:
        """Return the names of the engine, and those set for the iteration. All tasks of a step see the same."""
        key = (use.rendered_at, id(use.step))
        if key not in self._engine_names_at:
            self._engine_names_at[key] = self._find_engine_names(use)
        return self._engine_names_at[key]

    def _find_engine_names(self, use: TemplateUse) -> frozenset[str]:
        names = _names_assigned_below("iter", _assigns_of_steps(self._steps_of(use)))
        if use.rendered_at in (RenderedAt.TASK, RenderedAt.OUTCOME):
            tasks = _tasks_of(self._steps_of(use))
            names |= (
                PIPELINE | {task.label.text for task in tasks} | (PREVIOUS_OUTCOME if len(tasks) > 1 else _NO_NAMES)
            )
        if use.rendered_at in (RenderedAt.OUTCOME, RenderedAt.AFTER, RenderedAt.ITEM_ARC, RenderedAt.ARC):
            names |= OUTCOME.keys() | _names_in_sinks(use)
        if use.rendered_at is RenderedAt.AFTER and any(step.sinks for step in self._steps_of(use)):
            names |= LOOP_SINK
        if use.step is not None and use.step.name.text == self._final:
            names |= FINAL_STEP_NAMES
        if use.step is not None and use.step.ended_loop is not None and use.rendered_at is RenderedAt.AFTER:
            names |= {results_name(use.step.ended_loop.text), ALL_RESULTS}
        return names | EVENT if self._has_event(use) else names

    def _has_event(self, use: TemplateUse) -> bool:
        """Whether templates see the event: routes do, and so do all rules of a call in dialects where calls bind it."""
        if use.rendered_at in (RenderedAt.ENTER, RenderedAt.ITEM_ARC, RenderedAt.ARC):
            return True
        return self._profile.outcome == "call" and use.rendered_at in (RenderedAt.OUTCOME, RenderedAt.AFTER)

    def _author_names(self, use: TemplateUse) -> frozenset[str] | None:
        """Return the names that the playbook itself binds, which hide those of the engine: by ``input``, ``args`` and
        their synonyms, and the element of a loop. None if a template decides which they are.
        """
        key = (use.rendered_at, id(use.step), id(use.task))
        if key not in self._author_names_at:
            values = [value for value in self._bound_values(use) if value.data]
            names = {loop.element.text for loop in self._loops_of(use)}
            for value in values:
                names |= mapping_of(value).keys()
            has_template = any(isinstance(value.data, str) for value in values)
            self._author_names_at[key] = None if has_template else frozenset(names)
        return self._author_names_at[key]

    def _bound_names(self, use: TemplateUse) -> frozenset[str] | None:
        """Return the names that the playbook binds, and those of the iteration and of pagination; None if a template
        decides them.
        """
        key = (use.rendered_at, id(use.step), id(use.task))
        if key not in self._bound_names_at:
            author_names = self._author_names(use)
            self._bound_names_at[key] = None if author_names is None else self._add_bound_names(author_names, use)
        return self._bound_names_at[key]

    def _add_bound_names(self, author_names: frozenset[str], use: TemplateUse) -> frozenset[str]:
        names, loops = set(author_names), list(self._loops_of(use))
        if names and any(mapping_of(value) for value in self._bound_values(use)):
            names |= {"input", "args"}
        if loops:
            names |= ITERATION
        if use.rendered_at is RenderedAt.CURSOR:
            names |= CURSOR_STATEMENT
        elif any(loop.body.cursor is not None for loop in loops):
            names.add(LEASE)
        return frozenset(names | _pagination_names(use.task) if use.rendered_at is RenderedAt.OUTCOME else names)

    def _bound_values(self, use: TemplateUse) -> list[Value]:
        steps = self._steps_of(use)
        passed_values = [args for step in steps for args in self._values_passed.get(step.name.text, ())]
        tasks = (use.task,) if use.step is not None else (*self._playbook.workbook, *_tasks_of(steps))
        return [*passed_values, *(step.args for step in steps), *(task.input for task in tasks if task is not None)]

    def _steps_of(self, use: TemplateUse) -> tuple[Step, ...]:
        """Return the steps for which the template may be rendered: all of them for a task of the workbook."""
        return (use.step,) if use.step is not None else self._playbook.steps

    def _loops_of(self, use: TemplateUse) -> Iterator[Loop]:
        """Yield the loops in whose iterations the template may be rendered."""
        if use.step is None or use.rendered_at in IN_LOOP:
            yield from (step.loop for step in self._steps_of(use) if step.loop is not None)

    def _iteration_names(self, use: TemplateUse) -> frozenset[str]:
        """Return the names below ``iter``: those set there, and in a loop the element and the counts."""
        names = _names_assigned_below("iter", _assigns_of_steps(self._steps_of(use)))
        for loop in self._loops_of(use):
            names |= BELOW_ITER | {f"_{name}" for name in BELOW_ITER} | {loop.element.text}
        return names


def _names_assigned_below(root: str, assigns: Iterable[Assign]) -> frozenset[str]:
    """Return the first names below ``root``, which is ``ctx`` or ``iter``, that the assignments set."""
    targets = (re.split(r"[.\[]", assign.target) for assign in assigns)
    return frozenset(target[1] for target in targets if target[0] == root)


def _names_in_code(task: Task) -> frozenset[str]:
    """Return the names that code with VarsCache may set: any string constant may be one."""
    texts = (text.node.text for text in task.texts if VARS_MODULE in text.node.text)
    return frozenset(name for code in texts for name in _QUOTED_NAME.findall(code))


def _assigns_of_steps(steps: tuple[Step, ...]) -> Iterator[Assign]:
    return (assign for step in steps for assign in assigns_of_step(step))


def _tasks_of(steps: tuple[Step, ...]) -> tuple[Task, ...]:
    return tuple(task for step in steps for task in step.tasks)


def _pagination_names(task: Task | None) -> frozenset[str]:
    """Return the names of the values collected by pagination."""
    rules = task.policy.rules if task and task.policy else ()
    return frozenset(name for rule in rules if rule.body.collect for name in (rule.body.collect.into, "accumulated"))


def _names_in_sinks(use: TemplateUse) -> frozenset[str]:
    """Return the names bound in sinks: ``params`` in a statement, ``row`` in a mapping."""
    sinks = use.task.sinks if use.task else use.step.sinks if use.step else ()
    keys = {key for sink in sinks for key in mapping_of(sink.config)}
    return frozenset(name for key, name in (("statement", "params"), ("mapping", ROW)) if key in keys)
