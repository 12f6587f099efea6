"""Diagnostics as JSON for programs, such as editors and scripts. For a CI there is SARIF (sarif.py).

The format is stable: a field is never renamed or removed, and new ones may be added. Lines and columns are 1-based, a
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
    """Return a JSON list with one object per diagnostic, in reading order: ``code, severity, file, line, col, end_line,
    end_col, message, hint, related, docs``. Each entry of ``related`` has ``file, line, col, end_line, end_col,
    message``.
    """
    return json.dumps(
        [_to_json(diagnostic) for diagnostic in sort_and_dedupe(diagnostics)], indent=2, ensure_ascii=False
    )


def _to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code.value,
        "severity": diagnostic.severity.value,
        "file": diagnostic.file,
        **_region(diagnostic.span),
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "related": [
            {"file": other.file or diagnostic.file, **_region(other.span), "message": other.message}
            for other in diagnostic.related
        ],
        "docs": diagnostic.code.docs,
    }


def _region(span: Span) -> dict[str, int]:
    return {"line": span.line, "col": span.col, "end_line": span.end_line, "end_col": span.end_col}
