"""``noetl test``: run the tests of playbooks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.language.tool_description import Tools
from noetl_temporal.cli.arguments import RUN_ID
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import FAILED, WRONG
from noetl_temporal.cli.output import write_text
from noetl_temporal.cli.printable_stream import echo_document
from noetl_temporal.cli.repeat_on_change import repeat_on_change
from noetl_temporal.cli.show_diagnostics import show_diagnostics

if TYPE_CHECKING:  # it imports the machine and Temporal's SDK
    from noetl_temporal.playbook_tests.suites import LoadedSuite
    from noetl_temporal.playbook_tests.trial import TrialResult

    TestedSuite: TypeAlias = tuple[LoadedSuite, list[TrialResult]]

__all__ = ["test_command"]


@click.command("test")
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path(exists=True, path_type=Path))
@click.option("--coverage", is_flag=True, help="Show the steps, routes and rules that no test reaches.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the results to this file as JUnit XML, for CI.",
)
@click.option(
    "--record",
    type=RUN_ID,
    metavar="ID",
    help="Print the run ID as a test, with its calls as stubs and its outcome as expectation.",
)
@click.option(
    "--temporal",
    "on_temporal",
    is_flag=True,
    help="Run the tests on a Temporal server, started for them, instead of in memory.",
)
@click.option("--watch", is_flag=True, help="Run the tests again when a test file or playbook changes.")
def test_command(
    paths: tuple[Path, ...],
    coverage: bool,
    junit: Path | None,
    record: int | str | None,
    on_temporal: bool,
    watch: bool,
) -> None:
    """Run the tests of playbooks: *.test.yaml files, without servers and without delays.

    A folder means all test files below it; without one, this folder is searched. No tool is called: calls return what
    the stubs of a test say, and delays, retries and timeouts take no time. The exit status is 0 if all tests pass, 1 if
    one fails, 2 if a test file or its playbook has errors.

    With --temporal the same tests run on a Temporal server with a real worker, to find differences. Calls still return
    what the stubs say, and the clock skips all waits.

    \b
    noetl test                                all tests below this folder
    noetl test etl.test.yaml --coverage       and what they do not reach
    noetl test playbooks/ --junit tests.xml   for a CI server
    noetl test --watch                        again whenever a file changes
    noetl test --temporal                     on Temporal instead of in memory
    noetl test --record 754318462739161088 > etl.test.yaml
    """
    if record is not None:
        if paths or coverage or junit or watch or on_temporal:
            raise click.UsageError("--record prints a test and runs none: it takes no files and no other options")
        _record(record)
        return
    if watch and on_temporal:
        raise click.UsageError("--watch runs tests in memory: omit --temporal")
    from noetl_temporal.playbook_tests.suites import suite_files

    tools, test_paths = installed_tools(), paths or (Path(),)
    if not suite_files(test_paths):
        raise click.UsageError("there are no tests: their files are named *.test.yaml")

    def run() -> list[TestedSuite]:
        files = suite_files(test_paths)
        tested_suites = _run_on_temporal(files, tools) if on_temporal else [_run_suite(file, tools) for file in files]
        _report(tested_suites, junit, coverage=coverage)
        return tested_suites

    if watch:
        repeat_on_change(lambda: _watched_files(run()), lambda: suite_files(test_paths))
    sys.exit(_exit_status(run()))


def _run_suite(file: Path, tools: Tools) -> TestedSuite:
    """Run the tests of a file, and print each result as soon as the test has run."""
    from noetl_temporal.playbook_tests.suites import load
    from noetl_temporal.playbook_tests.trial import run_test

    suite = load(file, tools)
    results: list[TrialResult] = []
    if suite.graph is not None:
        for test in suite.suite.tests:
            results.append(run_test(test, suite.graph, tools))
            _print_result(suite.file, results[-1])
    _show_errors(suite)
    return suite, results


def _run_on_temporal(files: Sequence[Path], tools: Tools) -> list[TestedSuite]:
    """Run the tests of all files, and print the results when all have run."""
    from noetl_temporal.cli.logging_setup import discard_log
    from noetl_temporal.cli.test_on_temporal import run_suites_on_temporal
    from noetl_temporal.playbook_tests.suites import load

    discard_log()
    tested_suites = run_suites_on_temporal([load(file, tools) for file in files], tools)
    for suite, results in tested_suites:
        for result in results:
            _print_result(suite.file, result)
        _show_errors(suite)
    return tested_suites


def _watched_files(tested_suites: Sequence[TestedSuite]) -> set[Path]:
    """Return the files of the tests and of their playbooks, as far as these are known."""
    suites = [suite for suite, _ in tested_suites]
    test_files = {suite.file for suite in suites}
    playbooks = {suite.graph.source.file for suite in suites if suite.graph is not None}
    invalid_files = {compilation.source.file for suite in suites for compilation in suite.invalid_files}
    return {Path(file) for file in test_files | playbooks | invalid_files}


def _record(run: int | str) -> None:
    """Print a run as a test, and run that test: differences are reported, with exit status 1."""
    running_deployment()
    from noetl_temporal.cli.logging_setup import discard_log
    from noetl_temporal.cli.record_test import record_test
    from noetl_temporal.playbook_tests.report import problem_lines

    discard_log()
    text, problems = record_test(run)
    echo_document(text)
    for problem in problems:
        click.echo("\n".join(problem_lines("recorded.test.yaml", problem)), err=True)
    if problems:
        click.echo("the test does not pass as it is: edit it where it differs from the run", err=True)
        sys.exit(FAILED)


def _print_result(file: str, result: TrialResult) -> None:
    from noetl_temporal.playbook_tests.report import result_lines

    for line in result_lines(file, result):
        click.echo(line)


def _show_errors(suite: LoadedSuite) -> None:
    for compilation in suite.invalid_files:
        show_diagnostics(compilation, "no test of this file was run")
    for line in suite.unsupported:
        click.echo(line, err=True)


def _report(tested_suites: Sequence[TestedSuite], junit: Path | None, *, coverage: bool) -> None:
    """Print the coverage and the summary, and write the results as JUnit XML if requested."""
    from noetl_temporal.playbook_tests.junit import junit as junit_xml
    from noetl_temporal.playbook_tests.report import summary

    all_results = [result for _, results in tested_suites for result in results]
    invalid_count = sum(suite.graph is None for suite, _ in tested_suites)
    for line in _coverage_lines(tested_suites) if coverage else ():
        click.echo(line)
    click.echo(summary(all_results, invalid_count))
    if junit is not None:
        write_text(junit, junit_xml(tested_suites), junit.parent)


def _exit_status(tested_suites: Sequence[TestedSuite]) -> int:
    if any(suite.graph is None for suite, _ in tested_suites):
        return WRONG
    return FAILED if any(not result.passed for _, results in tested_suites for result in results) else 0


def _coverage_lines(tested_suites: Sequence[TestedSuite]) -> Iterator[str]:
    """Yield the coverage of each playbook over all files that test it."""
    from noetl_temporal.playbook_tests.coverage import Part, reached_parts
    from noetl_temporal.playbook_tests.report import coverage_lines

    graphs = {suite.graph.source.file: suite.graph for suite, _ in tested_suites if suite.graph is not None}
    parts: dict[str, set[Part]] = {file: set() for file in graphs}
    for suite, results in tested_suites:
        if suite.graph is not None:
            parts[suite.graph.source.file] |= reached_parts(suite.graph, (result.run for result in results))
    for file, graph in graphs.items():
        yield from coverage_lines(graph, frozenset(parts[file]))
