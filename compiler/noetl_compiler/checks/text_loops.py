"""Loops over a value of the workload that is a text. A literal text is found where the loop is read."""

from __future__ import annotations

from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.templating.paths import lone_path

__all__ = ["warn_of_loops_over_text"]

_WORKLOAD = frozenset({"workload", "work"})


def warn_of_loops_over_text(playbook: Playbook, report: Report) -> None:
    """NT406. An empty text stands for what the request brings."""
    for step in playbook.steps:
        collection = step.loop.body.collection if step.loop is not None else None
        path = lone_path(str(collection.data)) if collection is not None and "" in collection.templates else None
        if collection is not None and path is not None and _is_text(path, playbook.workload):
            message = f'the loop runs once: "{path}" is text, not a list'
            hint = "make it a list in the workload"
            report.warning(Code.LOOP_OVER_TEXT, collection.templates[""], message, hint)


def _is_text(path: str, workload: Value) -> bool:
    root, *names = path.split(".")
    if root not in _WORKLOAD or "".join(pointer("", name) for name in names) in workload.templates:
        return False
    found: Json = workload.data
    for name in names:
        found = cast("dict[str, Json]", found).get(name) if isinstance(found, dict) else None
    return isinstance(found, str) and bool(found.strip())
