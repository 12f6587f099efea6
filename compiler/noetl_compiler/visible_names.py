"""Which names a template sees, by dialect and by place: what a run binds, as far as the playbook tells.

A bare name is looked up from the inside out: what an outcome binds, the task's input, the names of the iteration,
the engine's own names, ctx, results by step and task, the workload (semantics.md 13). The tables are compared with
what the machine really binds by ``tests/machine/test_visible_names.py``.
"""

from __future__ import annotations

from functools import cached_property

from noetl_compiler.graph import Value
from noetl_compiler.overlay import names_in
from noetl_compiler.syntax import Arc, Playbook, Step, Task
from noetl_compiler.template_uses import Place, Use, assigns_in

__all__ = ["ARC", "BEFORE", "COUNTS", "ITERATION", "OUTCOME", "OUTSIDE", "PIPELINE", "RUN", "START", "VisibleNames"]

OUTSIDE = frozenset({"env", "keychain", "now"})
"""What is not the playbook's: the environment, credentials, the time of the run."""

START = frozenset({"payload", "workload", "execution_id", "job"}) | OUTSIDE
"""When the workload's defaults are rendered."""

RUN = frozenset({*START, "work", "ctx", "vars", "iter", "results"})
"""In every step."""

ITERATION = frozenset({"loop", "_loop", "_index", "loop_index"})
"""In the body of a loop, beside the element's own name."""

COUNTS = frozenset({"index", "index0", "count", "size", "length", "first", "last"})
"""Below ``iter`` in the body of a loop; each also with a leading underscore."""

PIPELINE = frozenset({"_task", "_prev"})
"""In a task of a step, beside the labels of the tasks before it."""

BEFORE = frozenset({"output", "outcome"})
"""In a task after another: what came of that."""

OUTCOME = frozenset(
    {"output", "outcome", "_outcome", "result", "data", "response", "this", "success", "error", "status_code"}
    | {"attempt", "_attempt", "page", "iteration", "_retry"}
)
"""After a call: in rules, in sinks, in what a task or step sets, in ways on."""

ARC = frozenset({"event"})
"""In ways on."""

CLAIM = frozenset({"__frame_max_rows"})
"""In the claim of a cursor."""

_IN_LOOP = (Place.ITEM, Place.TASK, Place.OUTCOME)
_NONE: frozenset[str] = frozenset()
_JOB = frozenset({"id", "uuid", "execution_id"})


class VisibleNames:
    """The names of one playbook."""

    def __init__(self, playbook: Playbook) -> None:
        self._playbook = playbook

    def at(self, use: Use) -> frozenset[str] | None:
        """The bare names that are bound at a place; None when a template decides which they are."""
        if use.place is Place.WORKLOAD:
            return START | self.workload
        bound = self._bound(use)
        if bound is None:
            return None
        return (
            RUN
            | bound
            | self._engine(use)
            | self._labels(use)
            | self.ctx
            | self.results
            | self.workload
            | self.keychain
        )

    def below(self, use: Use, name: str) -> frozenset[str] | None:
        """The names known below a bare one; None when anything may be there."""
        match name:
            case "workload" | "work":
                return self.workload
            case "ctx":
                return self.ctx | self.results | self.workload
            case "vars":
                return self.ctx
            case "results":
                return self.results | self._labels(use)
            case "keychain":
                return self.keychain
            case "job":
                return _JOB
            case "iter":
                return self._iteration(use)
            case _:
                return None

    @cached_property
    def workload(self) -> frozenset[str]:
        """The keys of the workload's defaults. The request may bring others."""
        return frozenset(names_in(self._playbook.workload))

    @cached_property
    def results(self) -> frozenset[str]:
        """The steps, each of whose names gives its result."""
        return frozenset(step.name.text for step in self._playbook.steps)

    @cached_property
    def ctx(self) -> frozenset[str]:
        """What any step, task, rule or arc sets."""
        return self._set_under("ctx", self._playbook.steps)

    @cached_property
    def keychain(self) -> frozenset[str]:
        """The names of the keychain's entries."""
        return frozenset(str(entry.get("name")) for entry in self._playbook.keychain)

    def _engine(self, use: Use) -> frozenset[str]:
        """The names of the engine itself, and those set for the iteration."""
        names = self._set_under("iter", self._steps(use))
        if use.place in (Place.TASK, Place.OUTCOME):
            names |= PIPELINE | (BEFORE if len(_tasks(self._steps(use))) > 1 else _NONE)
        if use.place in (Place.OUTCOME, Place.AFTER, Place.ARC):
            names |= OUTCOME
        return names | ARC if use.place is Place.ARC else names

    def _bound(self, use: Use) -> frozenset[str] | None:
        """Names bound by ``input``, ``args`` and the like, by the loop and by pagination."""
        values = self._inputs(use)
        if any(isinstance(value.data, str) for value in values):
            return None
        names = {name for value in values for name in names_in(value)}
        if any(names_in(value) for value in values):
            names |= {"input", "args"}
        for step in self._steps(use):
            if step.loop is not None and (use.step is None or use.place in _IN_LOOP):
                names |= ITERATION | {step.loop.element.text}
            if step.loop is not None and step.loop.body.cursor is not None:
                names |= CLAIM
        return frozenset(names | _collected(use.task)) if use.place is Place.OUTCOME else frozenset(names)

    def _inputs(self, use: Use) -> list[Value]:
        steps = self._steps(use)
        passed = [arc.args for arc in self._arcs if any(arc.to.text == step.name.text for step in steps)]
        own = [step.args for step in steps]
        tasks = (use.task,) if use.step is not None else (*self._playbook.workbook, *_tasks(steps))
        return [*passed, *own, *(task.input for task in tasks if task is not None)]

    @cached_property
    def _arcs(self) -> tuple[Arc, ...]:
        following = (step.next for step in self._playbook.steps if step.next)
        return tuple(arc for found in following for group in found.groups for arc in group)

    def _steps(self, use: Use) -> tuple[Step, ...]:
        """The steps for which the template may be rendered: any of them for a task of the workbook."""
        return (use.step,) if use.step is not None else self._playbook.steps

    def _labels(self, use: Use) -> frozenset[str]:
        if use.place not in (Place.TASK, Place.OUTCOME):
            return _NONE
        return frozenset(task.label.text for task in _tasks(self._steps(use)))

    def _iteration(self, use: Use) -> frozenset[str]:
        """What is below ``iter``: what is set there, and in a loop the element and the counts."""
        names = self._set_under("iter", self._steps(use))
        for step in self._steps(use):
            if step.loop is not None and (use.step is None or use.place in _IN_LOOP):
                names |= COUNTS | {f"_{name}" for name in COUNTS} | {step.loop.element.text, "parent"}
        return names

    @staticmethod
    def _set_under(root: str, part: object) -> frozenset[str]:
        targets = (assign.target.split(".") for assign in assigns_in(part))
        return frozenset(target[1] for target in targets if target[0] == root)


def _tasks(steps: tuple[Step, ...]) -> tuple[Task, ...]:
    return tuple(task for step in steps for task in step.tasks)


def _collected(task: Task | None) -> frozenset[str]:
    """The running values of pagination."""
    rules = task.policy.rules if task and task.policy else ()
    return frozenset(name for rule in rules if rule.body.collect for name in (rule.body.collect.into, "accumulated"))
