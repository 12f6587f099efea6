"""Names that parallel iterations overwrite for each other."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.graph import Assign
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step

__all__ = ["warn_of_parallel_set"]


def warn_of_parallel_set(playbook: Playbook, report: Report) -> None:
    """NT402."""
    for step in playbook.steps:
        if step.loop is None or step.loop.body.mode != "parallel":
            continue
        for assign in _assigns(step):
            if assign.target.startswith("ctx."):
                message = f'parallel iterations all set "{assign.target}", and the last one wins'
                hint = "set iter.* here, or read the loop's results after it"
                report.warning(Code.PARALLEL_SET, assign.span, message, hint)


def _assigns(step: Step) -> Iterator[Assign]:
    for task in step.tasks:
        yield from task.set
        for rule in task.policy.rules if task.policy else ():
            yield from rule.body.set
