"""Effects of the final step, which also runs after failures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.language.sinks import KINDS
from noetl_compiler.language.tools import PLAYBOOK, SAFE_METHODS, SQL_KINDS
from noetl_compiler.report import Report
from noetl_compiler.sql_effects import statements
from noetl_compiler.syntax import Playbook, Step, Task
from noetl_compiler.syntax_queries import calls_of, entry_name_of, final_name_of, workbook_of
from noetl_compiler.value_merge import mapping_of

__all__ = ["warn_of_effects_after_failures"]

_READ_ONLY = re.compile(
    r"(?:SELECT|SHOW|EXPLAIN|VALUES)\b|WITH\b(?!.*\b(?:INSERT|UPDATE|DELETE|MERGE)\b)", re.IGNORECASE
)
_FAILURE_NAMES = re.compile(r"\b(?:failures|steps)\b")


def warn_of_effects_after_failures(playbook: Playbook, report: Report) -> None:
    """Report NT213 once, at the first effect, unless the step reads what failed (semantics.md 4)."""
    final = final_name_of(playbook)
    step = next((other for other in playbook.steps if other.name.text == final), None)
    if step is None or final == entry_name_of(playbook) or _reads_failures(step, report):
        return
    if all(not other.tasks for other in playbook.steps if other is not step):
        return
    for task, effect in _effects(step, playbook):
        message = f'task "{task.label.text}" {effect}, also after a failure: every failed run ends in step "{final}"'
        hint = f'to do this only after a success, move it to a step before "{final}"'
        report.warning(Code.EFFECT_AFTER_FAILURE, task.span, message, hint)
        return


def _reads_failures(step: Step, report: Report) -> bool:
    lines = (report.source.line(number) for number in range(step.span.line, step.span.end_line + 1))
    return any(_FAILURE_NAMES.search(line) for line in lines)


def _effects(step: Step, playbook: Playbook) -> Iterator[tuple[Task, str]]:
    """Yield each task that changes something, with its effect. The effects of Python code are unknown."""
    workbook = workbook_of(playbook)
    for task in step.tasks:
        for called_task in calls_of(task, workbook):
            if effect := _effect_of(called_task):
                yield task, effect


def _effect_of(task: Task) -> str:
    """Return what the task changes, as the predicate of a sentence; "" if nothing or unknown."""
    kind = task.kind.text
    if kind in SQL_KINDS:
        sql_statements = [statement for text in task.texts for statement in statements(text.node.text)]
        if any(not _READ_ONLY.match(statement) for statement in sql_statements):
            return "changes data"
    elif kind == "http":
        method = str(mapping_of(task.config).get("method") or "GET").upper()
        if method not in SAFE_METHODS:
            return f"sends a {method} request" if method.isalpha() else "may send data"
    elif kind == "shell":
        return "runs commands"
    elif kind == PLAYBOOK:
        return "runs a playbook"
    return "stores its result" if any(sink.kind in KINDS for sink in task.sinks) else ""
