"""Test results and coverage as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from noetl_compiler.graph import Graph
from noetl_compiler.printable import printable_line
from noetl_temporal.playbook_tests.coverage import Part, ReachedParts, parts_of
from noetl_temporal.playbook_tests.differences import ABSENT
from noetl_temporal.playbook_tests.expectations import TrialProblem
from noetl_temporal.playbook_tests.trial import TrialResult

__all__ = ["coverage_lines", "problem_lines", "result_lines", "summary"]

_MAX_CHARACTERS = 500
"""Characters of a value that are shown."""


def result_lines(file: str, result: TrialResult) -> Iterator[str]:
    """Yield a line for the test, with its time, and its problems below it."""
    word = "passed" if result.passed else "FAILED"
    yield printable_line(f"{word}  {file}: {result.test.name}  ({_time(result.seconds)})")
    for problem in result.problems:
        yield from (f"        {line}" for line in problem_lines(file, problem))


def problem_lines(file: str, problem: TrialProblem) -> Iterator[str]:
    """Yield the lines about a problem, with its locations in the test and in the playbook."""
    yield printable_line(f"{file}:{problem.span.line}:{problem.span.col}: {problem.message}")
    if problem.is_comparison:
        yield printable_line(f"  expected  {_value_text(problem.expected)}")
        yield printable_line(f"  got       {_value_text(problem.actual)}")
    if problem.location:
        yield printable_line(f"  playbook  {problem.location}")


def summary(results: Sequence[TrialResult], broken: int) -> str:
    """Return how many tests passed, and how long all of them took."""
    failed = sum(not result.passed for result in results)
    seconds = sum(result.seconds for result in results)
    parts = [f"{len(results) - failed} passed"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{broken} {'files' if broken > 1 else 'file'} could not be run"] if broken else []
    return f"{', '.join(parts)} in {_time(seconds)}"


def coverage_lines(graph: Graph, reached: ReachedParts) -> Iterator[str]:
    """Yield how many parts of a playbook are reached, and each part that is not."""
    parts = parts_of(graph)
    counts = (_count(kind, parts, reached) for kind in ("step", "route", "rule"))
    yield printable_line(f"coverage of {graph.source.file}: {', '.join(counts)}")
    for part in parts:
        if part not in reached:
            location = f"{graph.source.file}:{part.span.line}:{part.span.col}"
            yield printable_line(f"        {location}: not reached: {part.kind} {part.text}")


def _count(kind: str, parts: Sequence[Part], reached: ReachedParts) -> str:
    parts_of_kind = [part for part in parts if part.kind == kind]
    return f"{kind}s {sum(part in reached for part in parts_of_kind)} of {len(parts_of_kind)}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _value_text(value: Any) -> str:
    if value is ABSENT:
        return repr(value)
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
