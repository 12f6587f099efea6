"""Patches that name no field of the tool. They change nothing, so every call would fetch the first page again."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.graph import Span
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import mapping_of

__all__ = ["warn_of_unknown_patches"]

_INPUTS = frozenset({"input", "args"})


def warn_of_unknown_patches(playbook: Playbook, report: Report) -> None:
    """Report NT102 as a warning: such a playbook runs. A tool without a description may have any field."""
    for task in all_tasks(playbook):
        tool = report.tools.get(task.kind.text)
        if tool is None or tool.fields is None or task.workbook is not None:
            continue
        for span, name in _patched_fields(task):
            if name not in tool.field_names:
                message = f'patch names "{name}", which the tool {task.kind.text} does not have'
                report.warning(Code.UNKNOWN_KEY, span, message, _hint(name, tool))


def _patched_fields(task: Task) -> Iterator[tuple[Span, str]]:
    for rule in task.policy.rules if task.policy else ():
        if rule.body.patch is not None:
            yield from ((rule.body.span, name) for name in mapping_of(rule.body.patch))


def _hint(name: str, tool: ToolDescription) -> str:
    first, _, tail = name.partition(".")
    if first in _INPUTS:
        return f"write rebind: {{{tail or 'name'}: ...}}"
    if tail and first in tool.field_names:
        return f"write {first}: {{{tail.replace('.', ': {')}: ...{'}' * name.count('.')}"
    return f"write {tool.renamed_fields[name]}" if name in tool.renamed_fields else did_you_mean(name, tool.field_names)
