"""``noetl test``: what it prints, its exit status, JUnit and coverage."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from click.testing import CliRunner, Result

from noetl_temporal.cli.commands import cli

from .test_trial import FETCH
from .trials import HEAD

GOOD = """
tests:
  - name: it is cold
    stubs: [{step: start, result: {degrees: 3}}, {step: cold}]
    expect: {route: [start, cold]}
"""
BAD = """
  - name: it is warm
    stubs: [{step: start, result: {degrees: 3}}, {step: cold}]
    expect: {route: [start, warm]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.yaml").write_text(HEAD + FETCH.lstrip("\n"))
    (tmp_path / "p.test.yaml").write_text(GOOD.lstrip("\n"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def noetl(*args: str) -> Result:
    return CliRunner().invoke(cli, ["test", *args])


@pytest.mark.usefixtures("folder")
def test_all_tests_below_this_folder_pass() -> None:
    done = noetl()
    assert done.exit_code == 0
    assert done.output.startswith("passed  p.test.yaml: it is cold  (")
    assert "\n1 passed in " in done.output


def test_a_failure_shows_both_values_and_both_places(folder: Path) -> None:
    (folder / "p.test.yaml").write_text((GOOD + BAD).lstrip("\n"))
    done = noetl("p.test.yaml")
    assert done.exit_code == 1
    assert "FAILED  p.test.yaml: it is warm" in done.output
    assert (
        "        p.test.yaml:8:29: route[1] differs\n"
        '          expected  "warm"\n'
        '          got       "cold"\n'
        "          playbook  p.yaml:" in done.output
    )
    assert "\n1 passed, 1 failed in " in done.output


def test_a_file_that_cannot_be_read_has_a_status_of_its_own(folder: Path) -> None:
    (folder / "q.test.yaml").write_text("tests: [{name: a, expct: {}}]")
    done = noetl()
    assert done.exit_code == 2
    assert 'q.test.yaml:1:19: error[NT102]: unknown key "expct" in a test' in done.output
    assert "1 passed, 1 file could not be run in " in done.output


def test_a_folder_without_tests(tmp_path: Path) -> None:
    done = noetl(str(tmp_path))
    assert done.exit_code == 2
    assert "there are no tests" in done.output


@pytest.mark.usefixtures("folder")
def test_coverage_lists_parts_that_no_test_reaches() -> None:
    done = noetl("--coverage")
    assert "coverage of p.yaml: steps 2 of 3, routes 1 of 2, rules 1 of 2\n" in done.output
    assert ": not reached: rule get of start: retry\n" in done.output
    assert ": not reached: route start -> warm when {{ start.degrees > 20 }}\n" in done.output
    assert ": not reached: step warm\n" in done.output


def test_junit_reports_have_every_test(folder: Path) -> None:
    (folder / "p.test.yaml").write_text((GOOD + BAD).lstrip("\n"))
    (folder / "q.test.yaml").write_text("tests: 3")
    assert noetl("--junit", "out.xml").exit_code == 2
    root = Xml.fromstring((folder / "out.xml").read_text())
    case, other = root.findall("testsuite")
    assert (case.get("tests"), case.get("failures"), case.get("errors")) == ("2", "1", "0")
    assert (other.get("tests"), other.get("failures"), other.get("errors")) == ("1", "0", "1")
    failure = case.find("testcase[@name='it is warm']/failure")
    assert failure is not None
    assert failure.get("message") == "route[1] differs"
    assert 'expected  "warm"' in (failure.text or "")


def test_the_schema_is_printed() -> None:
    done = CliRunner().invoke(cli, ["schema", "--dialect", "test"])
    assert '"title": "Tests of a NoETL playbook"' in done.output
