"""Sinks without the fields that they need to store a result."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.graph import Sink
from noetl_compiler.language.sinks import NEEDS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import mapping_of

__all__ = ["check_sinks"]


def check_sinks(playbook: Playbook, report: Report) -> None:
    """Report NT104 for a sink without a destination (table, statement, address or code), and for an upsert without a
    key.
    """
    for sink in _all_sinks(playbook):
        config, alternatives = mapping_of(sink.config).keys(), NEEDS.get(sink.kind, ())
        if alternatives and config.isdisjoint(alternatives):
            fields = " or ".join(f'"{name}"' for name in alternatives)
            message = f'a sink of kind "{sink.kind}" fails without {fields}'
            report.warning(Code.MISSING_FIELD, sink.span, message, f"write {alternatives[0]}: ...")
        elif sink.mode == "upsert" and sink.config.data and not {"key", "statement"} & config:
            message = "an upsert needs the columns that identify a row"
            report.error(Code.MISSING_FIELD, sink.span, message, "write key: COLUMN, or a list of columns")


def _all_sinks(playbook: Playbook) -> Iterator[Sink]:
    for step in playbook.steps:
        yield from step.sinks
    for task in all_tasks(playbook):
        yield from task.sinks
