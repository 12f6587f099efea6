"""Check ``script`` as a mapping: code that is stored outside of the playbook.

script: {uri: gs://bucket/job.py, source: {type: gcs, auth: gcs_service_account}}
script: {uri: ./job.sql, source: {type: file}}
"""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.language import keys
from noetl_compiler.language.scripts import ALL_SOURCE_FIELDS, SOURCES, URI_KEYS
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.report import Report

__all__ = ["check_script"]


def check_script(node: Node, report: Report) -> None:
    """Report errors in a ``script`` that is a mapping."""
    if not isinstance(node, MappingNode):
        return
    fields = Fields(node, report, "a script")
    if fields.scalar(*URI_KEYS) is None:
        fields.report_missing("uri")
    source = fields.fields("source", "the source of a script")
    fields.check_keys()
    if source is not None:
        _check_source(source)


def _check_source(source: Fields) -> None:
    kind = source.scalar("type")
    if kind is None:
        source.report_missing("type")
    elif kind.template_span is None and kind.text not in SOURCES:
        _report_unknown_kind(kind, source.report)
        return
    known_fields = (
        ALL_SOURCE_FIELDS if kind is None or kind.template_span else SOURCES[kind.text] | frozenset(keys.AUTH)
    )
    source.take_remaining(known_fields)
    source.check_keys(known_fields)


def _report_unknown_kind(kind: ScalarNode, report: Report) -> None:
    hint = did_you_mean(kind.text, SOURCES) or f"expected one of {', '.join(sorted(SOURCES))}"
    report.error(Code.WRONG_VALUE, kind.span, f'"{kind.text}" is not a source of scripts', hint)
