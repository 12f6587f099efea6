"""Where a task failed: at the line of its Python code that raised, where that is a line of the YAML."""

from __future__ import annotations

from noetl_compiler.graph import Json, Span, Task
from noetl_compiler.value_merge import names_in
from noetl_temporal.machine.call import PlainOutcome

__all__ = ["failed_at"]

_FIELDS = ("code", "script")


def failed_at(task: Task, outcome: PlainOutcome) -> Span:
    """The line, else the task."""
    raised: dict[str, Json] = outcome.get("py") or {}
    line, lines = raised.get("line"), _lines_of(task)
    if task.code is None or not isinstance(line, int) or not 1 <= line <= len(lines):
        return task.span
    if task.code.end_line - task.code.line + 1 != len(lines):
        return task.span
    number, text = task.code.line + line - 1, lines[line - 1]
    col = task.code.col + len(text) - len(text.lstrip())
    return Span(number, col, number, col + len(text.strip()))


def _lines_of(task: Task) -> list[str]:
    config = names_in(task.config)
    code = next((config[name] for name in _FIELDS if isinstance(config.get(name), str)), "")
    return code.rstrip("\n").split("\n")
