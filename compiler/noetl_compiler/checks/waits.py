"""Signals with two different schemas."""

from __future__ import annotations

from typing import Any

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.graph import Json
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import mapping_of

__all__ = ["forbid_two_schemas"]


def forbid_two_schemas(playbook: Playbook, report: Report) -> None:
    """Report NT109 for a signal with two schemas: it is checked when it arrives, possibly before any step waits."""
    first_waits: dict[str, tuple[Json, Task]] = {}
    for task in all_tasks(playbook):
        config: dict[str, Any] = mapping_of(task.config)
        name = config.get("signal")
        if task.kind.text != "wait" or not isinstance(name, str):
            continue
        schema, other_wait = first_waits.setdefault(name, (config.get("schema"), task))
        if schema != config.get("schema"):
            related = (Related(other_wait.span, "the other one is here"),)
            message = f'two waits for the signal "{name}" have different schemas'
            report.error(Code.CONFLICTING_FIELDS, task.span, message, "give both the same schema", related)
