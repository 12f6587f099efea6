"""Findings as SARIF 2.1.0. What its schema says of the parts that we write is told here in short: the names that each
part may have, and those that it must have. GitHub's code scanning asks for some more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from noetl_compiler import compile_text
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.diagnostics_json import diagnostics_json
from noetl_compiler.sarif import sarif
from noetl_compiler.source import Span
from tests.compiler.marked import findings_in
from tests.compiler.test_diagnostics_json import DIAGNOSTIC, ERR, WARNING

PARTS = {
    "log": ({"$schema", "version", "runs"}, {"version", "runs"}),
    "run": ({"tool", "columnKind", "originalUriBaseIds", "results"}, {"tool", "results"}),
    "driver": ({"name", "rules"}, {"name"}),
    "rule": (
        {"id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"},
        {"id", "shortDescription", "fullDescription", "help"},
    ),
    "result": (
        {"ruleId", "ruleIndex", "level", "message", "locations", "relatedLocations", "partialFingerprints"},
        {"ruleId", "message", "locations", "partialFingerprints"},
    ),
    "location": ({"id", "message", "physicalLocation"}, {"physicalLocation"}),
    "physicalLocation": ({"artifactLocation", "region"}, {"artifactLocation", "region"}),
    "artifactLocation": ({"uri", "uriBaseId"}, {"uri"}),
    "region": ({"startLine", "startColumn", "endLine", "endColumn"}, {"startLine"}),
}
"""Part -> the names of the schema that we use, and those without which a CI shows nothing."""


def check_part(name: str, part: Any) -> Any:
    may, must = PARTS[name]
    assert must <= part.keys() <= may
    return part


def run_of(log: Any) -> Any:
    (run,) = check_part("log", log)["runs"]
    assert log["version"] == "2.1.0"
    return check_part("run", run)


def results_of(*diagnostic: Diagnostic, folder: str = "") -> Any:
    return run_of(json.loads(sarif(diagnostic, folder)))["results"]


def places_in(result: Any) -> Iterator[Any]:
    for place in (*result["locations"], *result.get("relatedLocations", [])):
        yield check_part("physicalLocation", check_part("location", place)["physicalLocation"])


def check_log(log: Any) -> None:
    run = run_of(log)
    rules = [check_part("rule", rule) for rule in check_part("driver", run["tool"]["driver"])["rules"]]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["help"]["text"] and rule["help"]["markdown"] for rule in rules)
    for result in run["results"]:
        check_part("result", result)
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("warning", "error")
        assert result["message"]["text"]
        for place in places_in(result):
            region = check_part("region", place["region"])
            artifact = check_part("artifactLocation", place["artifactLocation"])
            start, end = (region["startLine"], region["startColumn"]), (region["endLine"], region["endColumn"])
            assert (1, 1) <= start <= end
            assert " " not in artifact["uri"]
            assert artifact.get("uriBaseId", "%SRCROOT%") in run["originalUriBaseIds"]
    prints = [result["partialFingerprints"]["diagnostic/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize(
    "path",
    sorted(ERR.glob("*.yaml")) + [path for path in sorted(ERR.iterdir()) if path.is_dir()],
    ids=lambda path: path.stem,
)
def test_every_code_makes_a_valid_log(path: Path) -> None:
    diagnostics = findings_in(path)
    log = json.loads(sarif(diagnostics))
    check_log(log)
    assert len(log["runs"][0]["results"]) == len(diagnostics) == len(json.loads(diagnostics_json(diagnostics))) > 0


def test_nothing_found_is_a_run_without_results() -> None:
    assert results_of() == []


def test_findings_come_in_reading_order_and_once() -> None:
    assert sarif([DIAGNOSTIC, WARNING, DIAGNOSTIC]) == sarif([WARNING, DIAGNOSTIC])


def test_a_finding_has_its_place_its_words_and_what_it_is_related_to() -> None:
    warning, error = results_of(DIAGNOSTIC, WARNING)
    assert (warning["level"], error["level"]) == ("warning", "error")
    assert error["message"]["text"] == 'duplicate step name "start" (choose another name)'
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "play%20books/%C3%A9.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7, "startColumn": 11, "endLine": 7, "endColumn": 16},
    }
    assert error["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 5
    assert "relatedLocations" not in warning


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a/b.yaml", "a/b.yaml"),
        ("./b.yaml", "b.yaml"),
        ("/home/me/a/b.yaml", "a/b.yaml"),
        ("/home/you/b.yaml", "file:///home/you/b.yaml"),
    ],
)
def test_a_file_is_named_from_where_the_compiler_was_called(file: str, uri: str) -> None:
    (result,) = results_of(replace(WARNING, file=file), folder="/home/me")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_finding_keeps_its_fingerprint_when_its_line_moves() -> None:
    moved_warning = replace(WARNING, span=Span(9, 1, 9, 2))
    (before,), (after,), both = results_of(WARNING), results_of(moved_warning), results_of(WARNING, moved_warning)
    assert before["partialFingerprints"] == after["partialFingerprints"] == both[0]["partialFingerprints"]
    assert both[1]["partialFingerprints"] != both[0]["partialFingerprints"]
    assert before["partialFingerprints"] != results_of(replace(WARNING, message="y"))[0]["partialFingerprints"]


def test_a_credential_is_not_in_its_finding() -> None:
    text = (ERR / "nt111_credential_in_text.yaml").read_text(encoding="utf-8")
    assert "hunter2" not in sarif(compile_text(text, "p.yaml").diagnostics)
