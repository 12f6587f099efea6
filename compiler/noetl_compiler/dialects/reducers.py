"""Read ``reduce`` of a loop: how the values set by its iterations are combined.

reduce: {ctx.rows: append, ctx.total: sum, ctx.seen: merge}

When an iteration sets a reduced name, the value is added to a list, a number or a mapping. This module converts such
assignments to additions (semantics.md 16).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import structs
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Assign
from noetl_compiler.language.words import REDUCERS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Reducer, Step, Task
from noetl_compiler.syntax_queries import assigns_of_task

__all__ = ["read_reducers", "with_reducers"]


def read_reducers(fields: Fields) -> tuple[Reducer, ...]:
    """Read the reducers of a loop. A bare name belongs to ``ctx``."""
    node = fields.mapping("reduce")
    if node is None:
        return ()
    reduce_fields = Fields(node, fields.report, "the reducers of a loop")
    names = (Name(key.text, key.span) for key, _ in node.entries)
    reducers = ((name, reduce_fields.choice(name.text, REDUCERS)) for name in names)
    return tuple(Reducer(name, _target(name.text), suffix) for name, suffix in reducers if suffix is not None)


def _target(name: str) -> str:
    return name if name.startswith("ctx.") else f"ctx.{name}"


def with_reducers(step: Step, report: Report) -> Step:
    """Return the step with its tasks' assignments to reduced names turned into additions."""
    if step.loop is None or not step.loop.reducers:
        return step
    targets = {assign.target for task in step.tasks for assign in assigns_of_task(task)}
    for name, target, _ in step.loop.reducers:
        if target not in targets:
            message = f'no task of the loop sets "{name.text}", so nothing is reduced'
            report.warning(Code.IGNORED_FIELD, name.span, message, did_you_mean(target, targets))
    suffixes = {target: suffix for _, target, suffix in step.loop.reducers}
    return replace(step, tasks=tuple(_with_additions(task, suffixes) for task in step.tasks))


def _with_additions(task: Task, suffixes: Mapping[str, str]) -> Task:
    policy = task.policy
    if policy is not None:
        rules = (
            replace(rule, body=structs.replace(rule.body, set=tuple(_mark_targets(rule.body.set, suffixes))))
            for rule in policy.rules
        )
        policy = replace(policy, rules=tuple(rules))
    return replace(task, set=tuple(_mark_targets(task.set, suffixes)), policy=policy)


def _mark_targets(assigns: tuple[Assign, ...], suffixes: Mapping[str, str]) -> Iterator[Assign]:
    for assign in assigns:
        yield structs.replace(assign, target=assign.target + suffixes.get(assign.target, ""))
