"""Guarded tasks of a pipeline, which run after the other tasks of the step (graph.Task).

Their *subject* is the last task without a guard: they see its outcome, under the same names as rules do. They may run
after its failure, too; the pipeline then still ends with that failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_compiler.graph import Task
from noetl_compiler.language.names_profile import OutcomeNames
from noetl_temporal.machine.records import TaskRecord
from noetl_temporal.machine.scope import call_names

__all__ = ["may_follow", "subject_names"]


def subject_names(
    names: OutcomeNames, step: str, subject: TaskRecord, outer_scope: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the names of the outcome of the subject. ``outer_scope`` is the scope of its call."""
    return call_names(names, step, subject.kind, subject.outcome, outer_scope=lambda: outer_scope)


def may_follow(tasks: Sequence[Task], index: int) -> bool:
    """Whether a guarded task may run after a failure of this one, which is not guarded itself."""
    if tasks[index].guard is not None:
        return False
    return any(task.guard is not None and task.guard.on_status != "ok" for task in tasks[index + 1 :])
