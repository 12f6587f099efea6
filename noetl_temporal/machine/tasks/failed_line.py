"""Locates the failure of a task: a template that failed in the activity, the sink that failed, or the line of its code
or SQL in the YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from noetl_compiler.graph import Json, Span, Task
from noetl_compiler.language.tools import SQL_COMMANDS, SQL_KINDS
from noetl_compiler.value_merge import mapping_of
from noetl_temporal.machine.call import PlainOutcome, sink_suffix

__all__ = ["failure_span"]

_CODE, _SQL = ("code", "script"), (*SQL_COMMANDS, "script")


def failure_span(task: Task, outcome: PlainOutcome, config: Mapping[str, Json] | None) -> Span:
    """Return the span of the template that failed in the activity, else that of the sink that failed, else that of the
    line. If the lines of the code are not those of the YAML (folded, escaped, or changed by templates in ``config``,
    the configuration of the call), return its start, else the span of the task.
    """
    if "span" in outcome:
        return Span(*outcome["span"])
    failed_sink: Json = outcome.get("meta", {}).get("sink")
    if isinstance(failed_sink, str):
        return next(
            (sink.span for index, sink in enumerate(task.sinks) if failed_sink.endswith(sink_suffix(index))), task.span
        )
    line, lines, run = _reported_line(outcome), _lines_of(task, mapping_of(task.config)), _lines_of(task, config or {})
    if task.code is None or line is None or not 1 <= line <= max(len(lines), len(run)):
        return task.span
    if task.code.end_line - task.code.line + 1 != len(lines) or len(lines) != len(run):
        return Span(task.code.line, task.code.col, task.code.line, task.code.col + 1)
    number, text = task.code.line + line - 1, lines[line - 1]
    col = task.code.col + len(text) - len(text.lstrip())
    return Span(number, col, number, col + len(text.strip()))


def _reported_line(outcome: PlainOutcome) -> int | None:
    """Return the line in the traceback of Python code, or that of the error position in SQL."""
    details_by_tool = cast("dict[str, dict[str, Json] | None]", outcome)
    line = next(
        (details["line"] for name in ("py", "pg") if (details := details_by_tool.get(name)) and "line" in details), None
    )
    return line if isinstance(line, int) else None


def _lines_of(task: Task, config: Mapping[str, Json]) -> list[str]:
    fields = _SQL if task.kind in SQL_KINDS else _CODE
    text = next((config[name] for name in fields if isinstance(config.get(name), str)), "")
    return text.rstrip("\n").split("\n")
