"""Runs tests that stand in a test, with the playbook that they test."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from noetl_activities.installed_tools import installed_tools
from noetl_temporal.playbook_tests.suites import LoadedSuite, load
from noetl_temporal.playbook_tests.trial import TrialResult, run_test

__all__ = ["file_of", "loaded", "problems", "verdicts"]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: tests/p}\n"


def loaded(folder: Path, playbook: str, tests: str) -> LoadedSuite:
    """The suite of ``p.test.yaml``, which tests ``p.yaml``; the head of the playbook is added."""
    (folder / "p.yaml").write_text(HEAD + dedent(playbook).lstrip("\n"))
    (folder / "p.test.yaml").write_text(dedent(tests).lstrip("\n"))
    return load(folder / "p.test.yaml", installed_tools())


def verdicts(folder: Path, playbook: str, tests: str) -> list[TrialResult]:
    """What each test came to."""
    suite = loaded(folder, playbook, tests)
    assert suite.graph is not None, (suite.invalid_files, suite.unsupported)
    return [run_test(test, suite.graph, installed_tools()) for test in suite.suite.tests]


def file_of(body: str) -> str:
    """A file of one test, with its ``stubs``, ``requests`` and ``expect`` given."""
    indented_body = "".join(f"    {line}\n" for line in dedent(body).strip("\n").splitlines())
    return "tests:\n  - name: test\n" + indented_body


def problems(folder: Path, playbook: str, body: str) -> list[str]:
    """The problems of one test, with its ``stubs`` and ``expect`` given: the line in the file and the message."""
    [verdict] = verdicts(folder, playbook, file_of(body))
    return [f"{problem.span.line}: {problem.message}" for problem in verdict.problems]
