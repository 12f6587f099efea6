"""Diagnostics as JSON for programs, such as editors and scripts. For a CI there is SARIF (sarif.py).

The form is stable: a field is never renamed or removed, and new ones may be added. Lines and columns are 1-based, a
column counts characters (Unicode code points, a tab is one) and the end is exclusive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from noetl_compiler.diagnostics import Diagnostic, sort_and_dedupe
from noetl_compiler.source import Span

__all__ = ["diagnostics_json"]


def diagnostics_json(diagnostics: Iterable[Diagnostic]) -> str:
    """Return a JSON list with one object a finding, in reading order: ``code, severity, file, line, col, end_line,
    end_col, message, hint, related, docs``. A related place has ``file, line, col, end_line, end_col, message``.
    """
    return json.dumps([_finding(one) for one in sort_and_dedupe(diagnostics)], indent=2, ensure_ascii=False)


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
