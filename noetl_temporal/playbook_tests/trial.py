"""Runs one test, and returns its problems."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from noetl_compiler.graph import Graph, Span
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.playbook_tests import PlaybookTest
from noetl_temporal.playbook_tests.expectations import TrialProblem, failed_expectations, location_of, route_of
from noetl_temporal.playbook_tests.host import TrialRun, run_graph
from noetl_temporal.playbook_tests.request_problems import request_problems, stuck_problems
from noetl_temporal.playbook_tests.requests import Requests, Situation
from noetl_temporal.playbook_tests.stubs import NoStubError, StubbedWorld
from noetl_temporal.playbook_tests.virtual_time import StuckError, VirtualTimeLoop

__all__ = ["TrialResult", "missing_stub_problem", "problems_of", "run_test", "stuck_run_problems"]

EXECUTION_ID = 1
"""The execution id of all tests, so that ids are the same in each run of a test."""


@dataclass(frozen=True)
class TrialResult:
    """The result of a test: its ``problems``, which are empty if it passed, its duration in ``seconds`` of real time,
    and the ``run``.
    """

    test: PlaybookTest
    seconds: float
    problems: tuple[TrialProblem, ...]
    run: TrialRun

    @property
    def passed(self) -> bool:
        """Whether the test has no problems."""
        return not self.problems


def run_test(test: PlaybookTest, graph: Graph, tools: Tools) -> TrialResult:
    """Run the playbook with the stubs of the test, in virtual time."""
    start_time = time.perf_counter()
    world, run = StubbedWorld(test.stubs, tools, Requests(list(test.requests))), TrialRun()
    problems = _run(test, graph, world, run) or problems_of(test, graph, world, run)
    return TrialResult(
        test, time.perf_counter() - start_time, tuple(sorted(problems, key=lambda problem: problem.span)), run
    )


def problems_of(test: PlaybookTest, graph: Graph, world: StubbedWorld, run: TrialRun) -> list[TrialProblem]:
    """Return the problems of a run that has ended."""
    return [
        *_unused_stub_problems(test, graph, world),
        *request_problems(graph, world.requests, run.unused_signals),
        *failed_expectations(test, graph, run, world),
    ]


def _run(test: PlaybookTest, graph: Graph, world: StubbedWorld, run: TrialRun) -> list[TrialProblem]:
    """Run the playbook to its end; return the problems that prevented that."""
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(run_graph(graph, world, EXECUTION_ID, test.payload, run))
    except NoStubError as missing:
        return [missing_stub_problem(test.span, graph, missing, run)]
    except StuckError:
        return stuck_run_problems(test, graph, world, world.last_situation)
    return []


def stuck_run_problems(
    test: PlaybookTest, graph: Graph, world: StubbedWorld, situation: Situation | None
) -> list[TrialProblem]:
    """Return why a run cannot continue in its current situation."""
    return [*stuck_problems(test, graph, situation), *request_problems(graph, world.requests, [])]


def missing_stub_problem(span: Span, graph: Graph, missing: NoStubError, run: TrialRun) -> TrialProblem:
    """Return the problem of a call without a stub, with the stub to write."""
    call = missing.call
    parts = {
        "iteration": call.iteration,
        "page": call.page,
        "attempt": missing.attempt if missing.attempt > 1 else None,
    }
    keys = {"step": call.step, "task": call.task, **parts}
    stub = ", ".join(f"{key}: {value}" for key, value in keys.items() if value is not None)
    location = location_of(graph, call.step, call.task)
    so_far = ", ".join(route_of(run))
    message = f"a call has no stub (steps so far: {so_far}); add one, such as {{{stub}, result: ...}}"
    return TrialProblem(span, message, location=location)


def _unused_stub_problems(test: PlaybookTest, graph: Graph, world: StubbedWorld) -> list[TrialProblem]:
    return [
        TrialProblem(
            stub.span, f"nothing used the stub for {stub.calls}", location=location_of(graph, stub.calls.step.text)
        )
        for stub, use_count in zip(test.stubs, world.use_counts, strict=True)
        if not use_count
    ]
