"""Sinks without the fields that they need to store a result, and data that is not made of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Sink
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.sinks import REQUIRED_FIELDS, TRANSACTIONAL_KINDS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import mapping_of

__all__ = ["check_sinks"]


def check_sinks(playbook: Playbook, report: Report) -> None:
    """Report NT104 for a sink without a destination (table, statement, address or code), and for an upsert without a
    key; NT103 for data that is no row.
    """
    for sink in _all_sinks(playbook):
        _warn_of_scalar_data(sink, report)
        config, alternatives = mapping_of(sink.config).keys(), REQUIRED_FIELDS.get(sink.kind, ())
        if alternatives and config.isdisjoint(alternatives):
            fields = " or ".join(f'"{name}"' for name in alternatives)
            message = f'a sink of kind "{sink.kind}" fails without {fields}'
            report.warning(Code.MISSING_FIELD, sink.span, message, f"write {alternatives[0]}: ...")
        elif sink.mode == "upsert" and sink.config.data and not {"key", "statement"} & config:
            message = "an upsert needs the columns that identify a row"
            report.error(Code.MISSING_FIELD, sink.span, message, "write key: COLUMN, or a list of columns")


def _warn_of_scalar_data(sink: Sink, report: Report) -> None:
    """Warn of literal data that a table stores in a column named "value", because it names no columns."""
    config = mapping_of(sink.config)
    if sink.kind not in TRANSACTIONAL_KINDS or "table" not in config or "mapping" in config:
        return
    data: Json = config.get("data")
    items = list(enumerate(cast("list[Json]", data))) if isinstance(data, list) else [(None, data)]
    for index, item in items:
        place = pointer("", "data") if index is None else pointer(pointer("", "data"), str(index))
        if item is not None and not isinstance(item, dict | list) and place not in sink.config.templates:
            literal = json.dumps(item, ensure_ascii=False)[:40]
            message = f'data has {literal}, which becomes a row with the column "value"'
            hint = "write the columns of each row: data: {COLUMN: ...}, a list of such mappings, or a template of them"
            report.warning(Code.WRONG_TYPE, sink.span, message, hint)
            return


def _all_sinks(playbook: Playbook) -> Iterator[Sink]:
    for step in playbook.steps:
        yield from step.sinks
    for task in all_tasks(playbook):
        yield from task.sinks
