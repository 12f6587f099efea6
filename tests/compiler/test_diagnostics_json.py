"""Findings as JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, Severity
from noetl_compiler.diagnostics_json import diagnostics_json
from noetl_compiler.source import SourceFile, Span

ERR = Path(__file__).parent / "corpus" / "err"
DIAGNOSTIC = Diagnostic(
    Code.DUPLICATE_STEP,
    Severity.ERROR,
    Span(7, 11, 7, 16),
    'duplicate step name "start"',
    "choose another name",
    (Related(Span(5, 11, 5, 16), "it is first used here"),),
    "play books/é.yaml",
)
WARNING = Diagnostic(Code.UNREACHABLE_STEP, Severity.WARNING, Span(2, 1, 2, 2), "x", file="a.yaml")


def test_a_finding_as_json_has_all_its_parts() -> None:
    assert json.loads(diagnostics_json([DIAGNOSTIC])) == [
        {
            "code": "NT201",
            "severity": "error",
            "file": "play books/é.yaml",
            "line": 7,
            "col": 11,
            "end_line": 7,
            "end_col": 16,
            "message": 'duplicate step name "start"',
            "hint": "choose another name",
            "related": [
                {
                    "file": "play books/é.yaml",
                    "line": 5,
                    "col": 11,
                    "end_line": 5,
                    "end_col": 16,
                    "message": "it is first used here",
                }
            ],
            "docs": "compiler/noetl_compiler/codes.md#nt201-duplicate-step",
        }
    ]


def test_findings_come_in_reading_order_and_once() -> None:
    assert [diagnostic["file"] for diagnostic in json.loads(diagnostics_json([DIAGNOSTIC, WARNING, DIAGNOSTIC]))] == [
        "a.yaml",
        DIAGNOSTIC.file,
    ]


def test_no_findings_are_an_empty_list() -> None:
    assert json.loads(diagnostics_json([])) == []


def test_a_credential_is_not_in_its_finding() -> None:
    text = (ERR / "nt111_credential_in_text.yaml").read_text(encoding="utf-8")
    result = compile_text(text, "p.yaml")
    assert "hunter2" not in diagnostics_json(result.diagnostics)
    assert SourceFile("", text).slice(result.diagnostics[0].span) == "hunter2"
