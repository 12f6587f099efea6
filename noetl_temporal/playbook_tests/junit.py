"""Test results as JUnit XML, which CI servers read."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from noetl_temporal.playbook_tests.report import problem_lines
from noetl_temporal.playbook_tests.suites import LoadedSuite
from noetl_temporal.playbook_tests.trial import TrialResult

__all__ = ["junit"]


def junit(suites: Sequence[tuple[LoadedSuite, Sequence[TrialResult]]]) -> str:
    """Return a suite for each file. One that could not be run has an error instead of tests."""
    root = Xml.Element("testsuites", name="noetl test")
    for loaded, results in suites:
        root.append(_suite(loaded, results))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(loaded: LoadedSuite, results: Sequence[TrialResult]) -> Xml.Element:
    failed = sum(not result.passed for result in results)
    is_broken = loaded.graph is None
    suite = Xml.Element(
        "testsuite",
        name=_clean(loaded.file),
        tests=str(len(results) + is_broken),
        failures=str(failed),
        errors=str(int(is_broken)),
        time=_seconds(sum(result.seconds for result in results)),
    )
    for result in results:
        suite.append(_case(loaded, result))
    if is_broken:
        case = Xml.SubElement(suite, "testcase", name="the tests can be run", classname=_clean(loaded.file))
        lines = [str(diagnostic) for result in loaded.invalid_files for diagnostic in result.diagnostics]
        Xml.SubElement(case, "error", message="no test was run").text = _clean("\n".join((*lines, *loaded.unsupported)))
    return suite


def _case(loaded: LoadedSuite, result: TrialResult) -> Xml.Element:
    test = result.test
    case = Xml.Element(
        "testcase",
        name=_clean(test.name),
        classname=_clean(loaded.file),
        file=_clean(loaded.file),
        line=str(test.span.line),
        time=_seconds(result.seconds),
    )
    if result.problems:
        first = result.problems[0]
        text = "\n".join(line for problem in result.problems for line in problem_lines(loaded.file, problem))
        Xml.SubElement(case, "failure", message=_clean(first.message)).text = _clean(text)
    return case


def _seconds(seconds: float) -> str:
    return f"{seconds:.4f}"


def _clean(text: str) -> str:
    """Remove the characters that XML cannot represent."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())
