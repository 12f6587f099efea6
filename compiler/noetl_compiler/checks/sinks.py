"""Sinks that cannot store anything as they are written."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.graph import Sink
from noetl_compiler.language.tools import SQL_LANGUAGES
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import all_tasks

__all__ = ["check_sinks"]


def check_sinks(playbook: Playbook, report: Report) -> None:
    """NT104 for a sink into a database without a table or a statement, and for an upsert without a key."""
    for sink in _sinks(playbook):
        config = sink.config.data
        if sink.kind in SQL_LANGUAGES and not (isinstance(config, dict) and {"table", "statement"} & config.keys()):
            message = f'a sink of kind "{sink.kind}" fails without "table" or "statement"'
            report.warning(Code.MISSING_FIELD, sink.span, message, "write table: NAME")
        elif sink.mode == "upsert" and isinstance(config, dict) and not {"key", "statement"} & config.keys():
            message = "an upsert needs the columns that identify a row"
            report.error(Code.MISSING_FIELD, sink.span, message, "write key: COLUMN, or a list of columns")


def _sinks(playbook: Playbook) -> Iterator[Sink]:
    for step in playbook.steps:
        yield from step.sinks
    for task in all_tasks(playbook):
        yield from task.sinks
