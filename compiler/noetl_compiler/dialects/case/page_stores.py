"""Convert tasks that store the pages of a repeated call to sinks.

then: [{save_page: {tool: {kind: postgres, command: ...}}}, {retry: {args: {...}}}]

A call is repeated inside one activity, so its pages are stored there too. Other tasks cannot run there.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.case.rules import CaseRule
from noetl_compiler.graph import Sink, Value
from noetl_compiler.language.sinks import TRANSACTIONAL_KINDS
from noetl_compiler.language.tools import SQL_COMMANDS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Task
from noetl_compiler.value_merge import mapping_of

__all__ = ["with_page_sinks"]

_STATEMENT = "statement"
_SHARED_FIELDS = frozenset({"params", "database"})
"""Fields that have the same name in a sink."""


def with_page_sinks(rule: CaseRule, report: Report) -> CaseRule:
    """Return the rule with the tasks that store pages converted to sinks."""
    actions = rule.actions
    if actions.repetition is None or "ok" not in rule.outcomes or not actions.tasks:
        return rule
    pairs = [(task, _as_sink(task)) for task in actions.tasks]
    for task, sink in pairs:
        if sink is not None:
            message = f'task "{task.label.text}" stores the pages of a repeated call, as a sink does'
            report.warning(Code.DEPRECATED_FORM, task.label.span, message, "write sink: {tool: {kind: ...}}")
    sinks = tuple(sink for _, sink in pairs if sink is not None)
    others = tuple(task for task, sink in pairs if sink is None)
    return replace(rule, actions=replace(actions, sinks=(*actions.sinks, *sinks), tasks=others))


def _as_sink(task: Task) -> Sink | None:
    """Convert a task to a sink; None if it has fields that sinks do not have."""
    config = mapping_of(task.config)
    commands = [name for name in config if name in SQL_COMMANDS]
    task_without_other_fields = Task(
        task.label, task.kind, task.span, config=task.config, auth=task.auth, texts=task.texts, code=task.code
    )
    if (
        task.kind.text not in TRANSACTIONAL_KINDS
        or len(commands) != 1
        or config.keys() - commands - _SHARED_FIELDS
        or task != task_without_other_fields
    ):
        return None
    return Sink(task.kind.text, _rename_command(task.config, commands[0]), task.span, task.auth)


def _rename_command(config: Value, command: str) -> Value:
    names = {_STATEMENT if name == command else name: value for name, value in mapping_of(config).items()}
    templates = {
        f"/{_STATEMENT}{path.removeprefix(f'/{command}')}" if path.split("/")[1] == command else path: span
        for path, span in config.templates.items()
    }
    return Value(names, templates)
