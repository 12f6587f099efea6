"""``noetl test --temporal``: all tests on one server, which is started for them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from noetl_compiler.language.tool_description import Tools
from noetl_compiler.printable import printable_line
from noetl_temporal.playbook_tests.suites import LoadedSuite
from noetl_temporal.playbook_tests.temporal_trial import memory_only_reason, run_on_temporal
from noetl_temporal.playbook_tests.trial import TrialResult
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import time_skipping_server

__all__ = ["run_suites_on_temporal"]


def run_suites_on_temporal(suites: Sequence[LoadedSuite], tools: Tools) -> list[tuple[LoadedSuite, list[TrialResult]]]:
    """Run the tests of all suites, and return (suite, results) of each. Raises StackError.

    A suite that cannot run on Temporal is reported, and has no results.
    """
    tests = [
        (suite, test, suite.graph)
        for suite in suites
        if suite.graph is not None and not _is_skipped(suite)
        for test in suite.suite.tests
    ]
    results: list[TrialResult] = []
    if tests:
        with (
            tempfile.TemporaryDirectory(prefix="noetl-test-") as folder,
            time_skipping_server(Home(Path(folder))) as address,
        ):
            results = asyncio.run(run_on_temporal(address, [(test, graph) for _, test, graph in tests], tools))
    tested_suites = [suite for suite, _, _ in tests]
    return [
        (suite, [result for tested, result in zip(tested_suites, results, strict=True) if tested is suite])
        for suite in suites
    ]


def _is_skipped(suite: LoadedSuite) -> bool:
    reason = memory_only_reason(suite.graph) if suite.graph is not None else None
    if reason is not None:
        count = len(suite.suite.tests)
        tests = "1 test" if count == 1 else f"{count} tests"
        click.echo(printable_line(f"skipped  {suite.file}: {tests}: {reason}"))
    return reason is not None
