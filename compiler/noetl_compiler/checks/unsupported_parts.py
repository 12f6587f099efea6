"""Parts of a playbook that compile and cannot run yet. Kinds of tools and sinks are looked at where they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Span
from noetl_compiler.language.scripts import FETCHED, source_of
from noetl_compiler.language.tools import PLAYBOOK
from noetl_compiler.language.unsupported import CIRCUIT, CURSOR, FRAMED_CALL, REGION, REMOTE_CODE, Unsupported
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step, Task
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import names_in

__all__ = ["warn_of_unsupported_parts"]


def warn_of_unsupported_parts(playbook: Playbook, report: Report) -> None:
    """NT502, at the first place of each."""
    for span, part in _found(playbook, report):
        if report.first(f"unsupported {part.problem}"):
            message = f"{part.problem}: the playbook compiles, but a run is refused"
            report.warning(Code.NO_EXECUTOR, span, message, part.remedy)


def _found(playbook: Playbook, report: Report) -> Iterator[tuple[Span, Unsupported]]:
    for step in playbook.steps:
        if not report.has_error_in(step.name.span):
            yield from _of_loop(step)
    for task in all_tasks(playbook):
        yield from _of_task(task, report)


def _of_loop(step: Step) -> Iterator[tuple[Span, Unsupported]]:
    if step.loop is not None and step.loop.body.cursor is not None:
        yield step.loop.body.cursor.span, CURSOR
    elif step.loop is not None and not step.tasks and not step.sinks:
        yield step.loop.body.span, REGION
    if step.loop is not None and step.loop.body.frame is not None:
        yield from ((task.span, FRAMED_CALL) for task in step.tasks if task.kind.text == PLAYBOOK)


def _of_task(task: Task, report: Report) -> Iterator[tuple[Span, Unsupported]]:
    if task.policy is not None and task.policy.circuit is not None:
        yield task.policy.circuit.span, CIRCUIT
    script, tool = names_in(task.config).get("script"), report.tools.get(task.kind.text)
    if isinstance(script, dict) and tool is not None and tool.has_executor:
        source = source_of(cast("dict[str, Json]", script))
        if source not in FETCHED and "{{" not in source:
            yield task.span, REMOTE_CODE
