"""Diagnostics as JSON for programs: for editors and scripts, and as SARIF 2.1.0 for the annotations of a CI.

Lines and columns are 1-based, a column counts characters and the end is exclusive, in both forms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, sort_and_dedupe
from noetl_compiler.source import Span

__all__ = ["diagnostics_json", "sarif"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> str:
    """A JSON list with one object a finding, in reading order: ``code, severity, file, line, col, end_line, end_col,
    message, hint, related, docs``. A related place has ``file, line, col, end_line, end_col, message``.
    """
    return _text([_finding(found) for found in sort_and_dedupe(diagnostics)])


def _finding(found: Diagnostic) -> dict[str, Any]:
    return {
        "code": found.code.value,
        "severity": found.severity.value,
        "file": found.file,
        **_place(found.span),
        "message": found.message,
        "hint": found.hint,
        "related": [
            {"file": other.file or found.file, **_place(other.span), "message": other.message}
            for other in found.related
        ],
        "docs": found.code.docs,
    }


def _place(span: Span) -> dict[str, int]:
    return {"line": span.line, "col": span.col, "end_line": span.end_line, "end_col": span.end_col}


def sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """A SARIF 2.1.0 log with one run; every code that occurs is one of its rules."""
    results = sort_and_dedupe(diagnostics)
    codes = sorted({found.code for found in results}, key=lambda code: code.value)
    run = {
        "tool": {"driver": {"name": "noetl", "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(found, codes.index(found.code)) for found in results],
    }
    return _text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.value,
        "name": code.name.title().replace("_", ""),
        "shortDescription": {"text": code.meaning},
        "help": {"text": f"See {code.docs}"},
    }


def _result(found: Diagnostic, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.code.value,
        "ruleIndex": rule,
        "level": found.severity.value,
        "message": {"text": f"{found.message} ({found.hint})" if found.hint else found.message},
        "locations": [{"physicalLocation": _location(found.file, found.span)}],
    }
    if found.related:
        result["relatedLocations"] = [_related(found.file, number, one) for number, one in enumerate(found.related, 1)]
    return result


def _related(file: str, number: int, other: Related) -> dict[str, Any]:
    return {
        "id": number,
        "message": {"text": other.message},
        "physicalLocation": _location(other.file or file, other.span),
    }


def _location(file: str, span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line,
        "startColumn": span.col,
        "endLine": span.end_line,
        "endColumn": span.end_col,
    }
    return {"artifactLocation": {"uri": quote(file)}, "region": region}


def _text(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
