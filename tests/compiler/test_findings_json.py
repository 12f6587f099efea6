"""Findings for programs. The essentials of SARIF's schema are told here; the whole of it needs the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, Severity
from noetl_compiler.findings_json import diagnostics_json, sarif
from noetl_compiler.source import SourceFile, Span

ERR = Path(__file__).parent / "corpus" / "err"
FOUND = Diagnostic(
    Code.DUPLICATE_STEP,
    Severity.ERROR,
    Span(7, 11, 7, 16),
    'the name "start" belongs to another step already',
    "choose another name",
    (Related(Span(5, 11, 5, 16), "it is first used here"),),
    "play books/é.yaml",
)
WARNING = Diagnostic(Code.UNREACHABLE_STEP, Severity.WARNING, Span(2, 1, 2, 2), "x", file="a.yaml")


def test_a_finding_as_json_has_all_its_parts() -> None:
    assert json.loads(diagnostics_json([FOUND])) == [
        {
            "code": "NT201",
            "severity": "error",
            "file": "play books/é.yaml",
            "line": 7,
            "col": 11,
            "end_line": 7,
            "end_col": 16,
            "message": 'the name "start" belongs to another step already',
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
            "docs": "dev/codes.md#nt201-duplicate-step",
        }
    ]


def test_findings_come_in_reading_order_and_once() -> None:
    assert [one["file"] for one in json.loads(diagnostics_json([FOUND, WARNING, FOUND]))] == ["a.yaml", FOUND.file]
    assert sarif([FOUND, WARNING, FOUND]) == sarif([WARNING, FOUND])


def test_nothing_found_is_an_empty_list_and_a_run_without_results() -> None:
    assert json.loads(diagnostics_json([])) == []
    (run,) = json.loads(sarif([]))["runs"]
    assert run["results"] == []


def test_a_finding_as_sarif() -> None:
    log = json.loads(sarif([FOUND, WARNING]))
    (run,) = log["runs"]
    warning, error = run["results"]
    assert (warning["level"], error["level"]) == ("warning", "error")
    assert error["message"]["text"] == 'the name "start" belongs to another step already (choose another name)'
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "play%20books/%C3%A9.yaml"},
        "region": {"startLine": 7, "startColumn": 11, "endLine": 7, "endColumn": 16},
    }
    assert error["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 5
    assert "relatedLocations" not in warning


def check_essentials(log: Any) -> None:
    """What the schema of SARIF 2.1.0 requires of the parts that we write."""
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
        for result in run["results"]:
            assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert result["message"]["text"]
            places = [*result["locations"], *result.get("relatedLocations", [])]
            for place in places:
                region = place["physicalLocation"]["region"]
                start, end = (region["startLine"], region["startColumn"]), (region["endLine"], region["endColumn"])
                assert (1, 1) <= start <= end
                assert " " not in place["physicalLocation"]["artifactLocation"]["uri"]


@pytest.mark.parametrize("path", sorted(ERR.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_code_makes_a_valid_log(path: Path) -> None:
    diagnostics = compile_text(path.read_text(encoding="utf-8"), path.name).diagnostics
    log = json.loads(sarif(diagnostics))
    check_essentials(log)
    assert len(log["runs"][0]["results"]) == len(diagnostics) > 0


def test_a_credential_is_in_no_form_of_its_finding() -> None:
    text = (ERR / "nt111_credential_in_text.yaml").read_text(encoding="utf-8")
    result = compile_text(text, "p.yaml")
    shown = [diagnostics_json(result.diagnostics), sarif(result.diagnostics)]
    assert all("hunter2" not in one for one in shown)
    assert SourceFile("", text).slice(result.diagnostics[0].span) == "hunter2"
