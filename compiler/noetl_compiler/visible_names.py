"""Which names a template sees, by dialect and by place: what a run binds, as far as the playbook determines it.

A bare name is looked up from the inside out: what an outcome binds, the task's input, the names of the iteration,
the engine's own names, ctx, results by step and task, the workload (semantics.md 13). The names of the
engine are tables in ``language/names.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from noetl_compiler.graph import Assign, Value
from noetl_compiler.language.names import (
    ALL_RESULTS,
    BELOW_EVENT,
    BELOW_JOB,
    CLAIM,
    COUNTS,
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
from noetl_compiler.language.words import Dialect
from noetl_compiler.syntax import Loop, Playbook, Step, Task
from noetl_compiler.syntax_queries import entry_of, final_of, passed_by_arcs, set_by_step, set_by_task
from noetl_compiler.templating.template_sites import RenderedAt, Use
from noetl_compiler.value_merge import names_in

__all__ = [
    "IN_LOOP",
    "VisibleNames",
]

IN_LOOP = (RenderedAt.CURSOR, RenderedAt.ITEM, RenderedAt.TASK, RenderedAt.OUTCOME, RenderedAt.ITEM_ARC)
"""Where a template is rendered for each iteration of its step's loop."""

_QUOTED_NAME = re.compile(r"""["']([A-Za-z]\w*)["']""")
_NONE: frozenset[str] = frozenset()


class VisibleNames:
    """The names of one playbook."""

    def __init__(self, playbook: Playbook) -> None:
        self.dialect: Dialect = playbook.dialect
        self._playbook = playbook
        self._profile = PROFILES[playbook.dialect]
        self._bound_at: dict[tuple[RenderedAt, int, int], frozenset[str] | None] = {}
        self._author_names_at: dict[tuple[RenderedAt, int, int], frozenset[str] | None] = {}
        self._of_engine: dict[tuple[RenderedAt, int], frozenset[str]] = {}

    def knows(self, use: Use, name: str) -> bool:
        """Whether a bare name is bound at a place, or may be."""
        if use.place is RenderedAt.WORKLOAD:
            return name in WORKLOAD_DEFAULTS or name in self.workload
        if name in self._global_names or name in self._engine(use):
            return True
        bound = self._bound(use)
        return bound is None or name in bound

    def binds_otherwise(self, use: Use, name: str) -> bool:
        """Whether a step's name may be that of something else at a place."""
        if name in self._beside_results or name in self._engine(use):
            return True
        bound = self._bound(use)
        return bound is None or name in bound

    def binds(self, use: Use, name: str) -> bool:
        """Whether the playbook itself binds a name at a place, over those of the engine, or may do so. Where a template
        decides what is bound, it is taken not to be the workload.
        """
        given = self._author_names(use)
        return name not in WORKLOAD if given is None else name in given

    def is_only_task(self, use: Use, name: str) -> bool:
        """Whether a name refers only to a task of the step at a place."""
        bound, own = self._bound(use), use.step.name.text if use.step is not None else ""
        return bound is not None and name not in bound | self._beside_results | self.results - {own}

    def steps_with_task(self, name: str) -> tuple[Step, ...]:
        """The steps that have a task of this name."""
        return self._steps_by_task.get(name, ())

    @cached_property
    def entry(self) -> str:
        """The step where a run begins."""
        return entry_of(self._playbook)

    def at(self, use: Use) -> frozenset[str]:
        """All bare names that are known to be bound at a place."""
        if use.place is RenderedAt.WORKLOAD:
            return WORKLOAD_DEFAULTS | self.workload
        bound = self._bound(use)
        return self._global_names if bound is None else self._global_names | bound | self._engine(use)

    def below(self, use: Use, name: str) -> frozenset[str] | None:
        """The names known below one of the engine's; None when anything may be there."""
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
                return None if self.regions else self._iteration(use)
            case "loop" | "_loop":
                known = COUNTS | self.results if self._profile.task_results else COUNTS
                return None if self.regions or name in self._beside_counts else known
            case "event":
                return BELOW_EVENT if self._has_event(use) and name not in self._beside_counts else None
            case _:
                return None

    @cached_property
    def workload(self) -> frozenset[str]:
        """The keys of the workload's defaults. The request may bring others."""
        return frozenset(names_in(self._playbook.workload))

    @cached_property
    def results(self) -> frozenset[str]:
        """The names that give results: those of the steps, and in some dialects those of the tasks."""
        steps = self._playbook.steps
        tasks = _tasks(steps) if self._profile.task_results else ()
        return frozenset({step.name.text for step in steps} | {task.label.text for task in tasks})

    @cached_property
    def ctx(self) -> frozenset[str]:
        """What any step, task, rule, arc or VarsCache sets."""
        of_workbook = (assign for task in self._playbook.workbook for assign in set_by_task(task))
        assigned = _set_under("ctx", (*of_workbook, *_set_by(self._playbook.steps)))
        return assigned.union(*map(_named_in_code, (*self._playbook.workbook, *_tasks(self._playbook.steps))))

    @cached_property
    def _final(self) -> str:
        return final_of(self._playbook)

    @cached_property
    def _steps_by_task(self) -> dict[str, tuple[Step, ...]]:
        found: dict[str, tuple[Step, ...]] = {}
        for step in self._playbook.steps:
            for label in {task.label.text for task in step.tasks}:
                found[label] = (*found.get(label, ()), step)
        return found

    @cached_property
    def keychain(self) -> frozenset[str]:
        """The names of the keychain's entries."""
        return frozenset(entry.name for entry in self._playbook.keychain)

    @cached_property
    def regions(self) -> frozenset[str]:
        """Loops over steps, and those whose items have routes, bind their elements for many steps; in v1 so does every
        way that passes names.
        """
        names: set[str] = set()
        for step in self._playbook.steps:
            if step.loop is not None and (step.loop.next is not None or not step.tasks):
                names |= ITERATION | {step.loop.element.text}
            if step.ends is not None:
                names.update(names_in(step.result) if step.result is not None else ("results",))
        if self._playbook.dialect == "v1":
            names.update(name for passed in self._values_passed.values() for args in passed for name in names_in(args))
        return frozenset(names)

    @cached_property
    def _beside_counts(self) -> frozenset[str]:
        """Names of the playbook's own, which may be those of the engine as well."""
        elements = {step.loop.element.text for step in self._playbook.steps if step.loop is not None}
        passed = {name for given in self._values_passed.values() for args in given for name in names_in(args)}
        return self.results | self.ctx | self.workload | elements | passed

    @cached_property
    def _global_names(self) -> frozenset[str]:
        return self._beside_results | self.results

    @cached_property
    def _beside_results(self) -> frozenset[str]:
        step = {"step"} if self._profile.outcome == "step" else _NONE
        steps = {"steps", "loop"} if self._profile.task_results else _NONE
        return RUN | step | steps | self.ctx | self.regions | self.workload | self.keychain

    @cached_property
    def _below_ctx(self) -> frozenset[str]:
        return self.ctx | self.results | self.workload

    @cached_property
    def _values_passed(self) -> dict[str, list[Value]]:
        return passed_by_arcs(self._playbook)

    def _engine(self, use: Use) -> frozenset[str]:
        """The names of the engine itself, and those set for the iteration. All tasks of a step see the same."""
        key = (use.place, id(use.step))
        if key not in self._of_engine:
            self._of_engine[key] = self._bound_by_engine(use)
        return self._of_engine[key]

    def _bound_by_engine(self, use: Use) -> frozenset[str]:
        names = _set_under("iter", _set_by(self._steps(use)))
        if use.place in (RenderedAt.TASK, RenderedAt.OUTCOME):
            tasks = _tasks(self._steps(use))
            names |= PIPELINE | {task.label.text for task in tasks} | (PREVIOUS_OUTCOME if len(tasks) > 1 else _NONE)
        if use.place in (RenderedAt.OUTCOME, RenderedAt.AFTER, RenderedAt.ITEM_ARC, RenderedAt.ARC):
            names |= OUTCOME.keys() | _names_in_sinks(use)
        if use.place is RenderedAt.AFTER and any(step.sinks for step in self._steps(use)):
            names |= LOOP_SINK
        if use.step is not None and use.step.name.text == self._final:
            names |= FINAL_STEP_NAMES
        if use.step is not None and use.step.ends is not None and use.place is RenderedAt.AFTER:
            names |= {results_name(use.step.ends.text), ALL_RESULTS}
        return names | EVENT if self._has_event(use) else names

    def _has_event(self, use: Use) -> bool:
        """Routes know the event they answer to, and so do all rules about a call where calls bind it."""
        if use.place in (RenderedAt.ENTER, RenderedAt.ITEM_ARC, RenderedAt.ARC):
            return True
        return self._profile.outcome == "call" and use.place in (RenderedAt.OUTCOME, RenderedAt.AFTER)

    def _author_names(self, use: Use) -> frozenset[str] | None:
        """What the playbook itself binds there, over the names of the engine: ``input``, ``args`` and the like, and the
        element of a loop. None when a template decides which they are.
        """
        key = (use.place, id(use.step), id(use.task))
        if key not in self._author_names_at:
            values = [value for value in self._inputs(use) if value.data]
            names = {loop.element.text for loop in self._loops(use)}
            for value in values:
                names |= names_in(value).keys()
            is_open = any(isinstance(value.data, str) for value in values)
            self._author_names_at[key] = None if is_open else frozenset(names)
        return self._author_names_at[key]

    def _bound(self, use: Use) -> frozenset[str] | None:
        """Names given, the iteration's own and those of pagination; None when a template decides which they are."""
        key = (use.place, id(use.step), id(use.task))
        if key not in self._bound_at:
            given = self._author_names(use)
            self._bound_at[key] = None if given is None else self._bound_beside(given, use)
        return self._bound_at[key]

    def _bound_beside(self, given: frozenset[str], use: Use) -> frozenset[str]:
        names, loops = set(given), list(self._loops(use))
        if names and any(names_in(value) for value in self._inputs(use)):
            names |= {"input", "args"}
        if loops:
            names |= ITERATION
        if use.place is RenderedAt.CURSOR:
            names |= CLAIM
        elif any(loop.body.cursor is not None for loop in loops):
            names.add(LEASE)
        return frozenset(names | _collected(use.task) if use.place is RenderedAt.OUTCOME else names)

    def _inputs(self, use: Use) -> list[Value]:
        steps = self._steps(use)
        passed = [args for step in steps for args in self._values_passed.get(step.name.text, ())]
        tasks = (use.task,) if use.step is not None else (*self._playbook.workbook, *_tasks(steps))
        return [*passed, *(step.args for step in steps), *(task.input for task in tasks if task is not None)]

    def _steps(self, use: Use) -> tuple[Step, ...]:
        """The steps for which the template may be rendered: any of them for a task of the workbook."""
        return (use.step,) if use.step is not None else self._playbook.steps

    def _loops(self, use: Use) -> Iterator[Loop]:
        """The loops in whose iterations the template may be rendered."""
        if use.step is None or use.place in IN_LOOP:
            yield from (step.loop for step in self._steps(use) if step.loop is not None)

    def _iteration(self, use: Use) -> frozenset[str]:
        """What is below ``iter``: what is set there, and in a loop the element and the counts."""
        names = _set_under("iter", _set_by(self._steps(use)))
        for loop in self._loops(use):
            names |= COUNTS | {f"_{name}" for name in COUNTS} | {loop.element.text}
        return names


def _set_under(root: str, assigns: Iterable[Assign]) -> frozenset[str]:
    targets = (re.split(r"[.\[]", assign.target) for assign in assigns)
    return frozenset(target[1] for target in targets if target[0] == root)


def _named_in_code(task: Task) -> frozenset[str]:
    """What code that imports VarsCache may set: any text in it may be a name."""
    texts = (text.node.text for text in task.texts if VARS_MODULE in text.node.text)
    return frozenset(name for code in texts for name in _QUOTED_NAME.findall(code))


def _set_by(steps: tuple[Step, ...]) -> Iterator[Assign]:
    return (assign for step in steps for assign in set_by_step(step))


def _tasks(steps: tuple[Step, ...]) -> tuple[Task, ...]:
    return tuple(task for step in steps for task in step.tasks)


def _collected(task: Task | None) -> frozenset[str]:
    """The running values of pagination."""
    rules = task.policy.rules if task and task.policy else ()
    return frozenset(name for rule in rules if rule.body.collect for name in (rule.body.collect.into, "accumulated"))


def _names_in_sinks(use: Use) -> frozenset[str]:
    """``params`` in the statement of a sink, ``row`` in its mapping."""
    sinks = use.task.sinks if use.task else use.step.sinks if use.step else ()
    keys = {key for sink in sinks for key in names_in(sink.config)}
    return frozenset(name for key, name in (("statement", "params"), ("mapping", ROW)) if key in keys)
