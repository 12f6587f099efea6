"""Names that a task expects, but that its call does not bind."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean
from noetl_compiler.graph import Json, Value
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import calls_of, values_passed_to_steps, workbook_of
from noetl_compiler.value_merge import mapping_of

__all__ = ["warn_of_unbound_expectations"]


def warn_of_unbound_expectations(playbook: Playbook, report: Report) -> None:
    """Report NT506. Nothing is reported where a template decides which names are bound."""
    workbook, route_args = workbook_of(playbook), values_passed_to_steps(playbook)
    for step in playbook.steps:
        names = {name: None for args in route_args.get(step.name.text, ()) for name in mapping_of(args)}
        outer_values = (step.args, Value(names))
        for task in step.tasks:
            calls = calls_of(task, workbook)
            if not calls[-1].expects:
                continue
            values = (*outer_values, *(value for call in calls for value in (call.input, call.config)))
            if not any(isinstance(value.data, str) for value in values):
                _check_expectations(
                    task, calls[-1], frozenset(name for value in values for name in _names_at_two_levels(value)), report
                )


def _names_at_two_levels(value: Value) -> Iterator[str]:
    """Yield the keys of a mapping and of the mappings in it: a tool may take its names below ``data`` or ``params``."""
    for name, item in mapping_of(value).items():
        yield name
        inner: Json = item
        yield from mapping_of(Value(inner))


def _check_expectations(task: Task, called_task: Task, bound_names: frozenset[str], report: Report) -> None:
    for name in called_task.expects:
        if name.text not in bound_names:
            message = f'the task "{called_task.label.text}" expects "{name.text}", which is not defined here'
            related = (Related(name.span, "it is expected here"),)
            report.warning(Code.EXPECTED_NAME, task.label.span, message, did_you_mean(name.text, bound_names), related)
