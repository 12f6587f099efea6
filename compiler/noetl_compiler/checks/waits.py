"""Waits where a run cannot wait, and signals with two different schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.graph import Json, Span
from noetl_compiler.language.tools import WAITS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import all_tasks, calls_of, workbook_of
from noetl_compiler.value_merge import names_in

__all__ = ["check_waits"]


def check_waits(playbook: Playbook, report: Report) -> None:
    """NT106 for waits in frames, NT109 for schemas that differ."""
    _forbid_in_frames(playbook, report)
    _forbid_two_schemas(playbook, report)


def _forbid_in_frames(playbook: Playbook, report: Report) -> None:
    """A frame is one activity, and activities receive no signals."""
    workbook = workbook_of(playbook)
    for step in playbook.steps:
        if step.loop is None or step.loop.body.frame is None:
            continue
        for task in step.tasks:
            for span, what in _waits_of(calls_of(task, workbook)):
                report.error(Code.WRONG_VALUE, span, f"{what} cannot run in a frame", "remove the frame")


def _waits_of(calls: tuple[Task, ...]) -> Iterator[tuple[Span, str]]:
    for task in calls:
        if task.kind.text in WAITS:
            yield task.kind.span, f'a task of kind "{task.kind.text}"'
        for rule in task.policy.rules if task.policy else ():
            if rule.body.wait_for is not None:
                yield rule.body.span, '"wait_for"'


def _forbid_two_schemas(playbook: Playbook, report: Report) -> None:
    """A signal is checked when it arrives, possibly before any step waits for it, so its name has one schema."""
    first: dict[str, tuple[Json, Task]] = {}
    for task in all_tasks(playbook):
        config: dict[str, Any] = names_in(task.config)
        name = config.get("signal")
        if task.kind.text != "wait" or not isinstance(name, str):
            continue
        schema, before = first.setdefault(name, (config.get("schema"), task))
        if schema != config.get("schema"):
            related = (Related(before.span, "the other one is here"),)
            message = f'two waits for the signal "{name}" have different schemas'
            report.error(Code.CONFLICTING_FIELDS, task.span, message, "give both the same schema", related)
