"""``auth`` that names a credential and overrides some of its fields: the worker would refuse the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from noetl_compiler.codes import Code
from noetl_compiler.graph import Span, Value
from noetl_compiler.language.credentials import KEYS_BESIDE_NAME, NAME_KEYS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["forbid_changed_credentials"]

_CHECKED_KINDS = frozenset({"http", "postgres"})
"""The tools and sinks whose ``auth`` is checked."""


def forbid_changed_credentials(playbook: Playbook, report: Report) -> None:
    """Report NT109 for literal names. The worker checks those that templates yield."""
    for span, kind, auth in _auth_fields(playbook):
        data: Any = auth.data if auth is not None and kind in _CHECKED_KINDS else None
        if not isinstance(data, dict):
            continue
        fields = cast("dict[str, Any]", data)
        overrides = sorted(fields.keys() - KEYS_BESIDE_NAME - set(NAME_KEYS))
        if overrides and any(isinstance(fields.get(name), str) for name in NAME_KEYS):
            message = f"auth names a credential, so it cannot also set {', '.join(overrides)}"
            report.error(Code.CONFLICTING_FIELDS, span, message, "remove them, or register another credential")


def _auth_fields(playbook: Playbook) -> Iterator[tuple[Span, str, Value | None]]:
    """Yield (span, kind, auth) of each task and sink."""
    steps = playbook.steps
    tasks = [*(task for step in steps for task in step.tasks), *playbook.workbook]
    yield from ((task.span, task.kind.text, task.auth) for task in tasks)
    sinks = [*(sink for step in steps for sink in step.sinks), *(sink for task in tasks for sink in task.sinks)]
    yield from ((sink.span, sink.kind, sink.auth) for sink in sinks)
