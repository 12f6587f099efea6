"""Tests come to the same on Temporal as in memory, or say why not."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.graph import Graph
from noetl_compiler.playbook_tests import PlaybookTest
from noetl_temporal.cli.commands import cli
from noetl_temporal.playbook_tests.temporal_trial import memory_only_reason, run_on_temporal
from noetl_temporal.playbook_tests.trial import TrialResult, run_test
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import time_skipping_server
from noetl_temporal.stack.program import noetl_command

from .test_requests import HELD, PAID, REVIEW, STEPS, TIMED
from .test_trial import CURSOR, FETCH, LOOP, PAGES
from .trials import HEAD, file_of, loaded

HELD_ITEMS = """
workflow:
  - step: start
    loop: {in: [a, b, c], iterator: x, mode: parallel}
    next: {arcs: [{step: load}]}
  - {step: load, on_failure: hold, tool: {kind: noop, result: "{{ x }}"}, next: {arcs: [{step: met}]}}
  - {step: met, spec: {end_loop: start}}
"""


class Case(NamedTuple):
    playbook: str
    body: str


CASES = {
    "retries": Case(
        FETCH,
        """
        payload: {city: Bergen}
        stubs:
          - {step: start, attempt: 1, http: {status: 503, headers: {Retry-After: "90"}}}
          - {step: start, attempt: 2, error: {kind: timeout, retryable: true}}
          - {step: start, attempt: 3, result: {degrees: 30}}
          - {step: warm}
        expect:
          delays: [90, 120]
          route: [start, warm]
          calls: [{step: start, attempts: 3, config: {url: "http://api.test/Bergen", ...: ...}}]
        """,
    ),
    "a call that is too late and one in time": Case(
        FETCH,
        """
        stubs:
          - {step: start, attempt: 1, takes: 2m}
          - {step: start, attempt: 2, takes: 50s, result: {degrees: 30}}
          - {step: warm}
        expect: {delays: [60], route: [start, warm], failures: []}
        """,
    ),
    "an unexpected route": Case(
        FETCH, "stubs: [{step: start, result: {degrees: 30}}, {step: warm}]\nexpect: {route: [start, cold]}"
    ),
    "items and sinks": Case(
        LOOP,
        """
        stubs:
          - {step: start, iteration: 1, error: {kind: bad, message: twenty}}
          - {step: start, iteration: 0, result: a, takes: 2m}
          - {step: start, result: b}
        expect:
          status: failed
          calls: [{step: start, iteration: 2, input: {n: 30}}]
          stored: {numbers: [{n: 30, got: b}, {n: 10, got: a}]}
          events: [loop.started, loop.iteration.failed, {type: loop.failed, node: start}, playbook.failed]
          failures: [{step: start, iteration: 1, kind: bad, message: twenty}]
        """,
    ),
    "a final step that gives the status": Case(
        """
        workflow:
          - step: start
            tool: {kind: http, url: "http://api.test/"}
          - step: end
            status: "{{ 'partial' if failures else 'completed' }}"
        """,
        "stubs: [{step: start, error: down}]\n"
        "expect: {status: partial, events: [{type: playbook.completed, status: PARTIAL}]}",
    ),
    "frames": Case(
        LOOP.replace("mode: parallel", "mode: parallel, frame: {max_rows: 2}"),
        "stubs: [{step: start, result: a}]\nexpect: {result: {results: [a, a, a], stats: ...}, stored: {numbers: ...}}",
    ),
    "pages": Case(
        PAGES,
        """
        stubs:
          - {step: start, page: 1, result: {items: [1, 2], more: true}}
          - {step: start, page: 2, result: {items: [3], more: false}}
        expect: {result: [1, 2, 3], delays: [3], results: {start: [1, 2, 3]}}
        """,
    ),
    "a step that times out": Case(
        STEPS,
        """
        stubs: [{step: start, takes: 1d}]
        expect: {status: failed, events: [task.cancelled, {type: step.failed, node: start}]}
        """,
    ),
    "a signal": Case(PAID, "requests: [{do: signal, name: paid, data: {amount: 3}}]\nexpect: {result: 3}"),
    "a signal before its wait": Case(
        PAID, "requests: [{do: signal, name: paid, data: {amount: 3}, when: start}]\nexpect: {result: 3}"
    ),
    "a refused signal": Case(PAID, "requests: [{do: signal, name: paid, data: 3}]\nexpect: {}"),
    "a signal that no step takes": Case(
        PAID,
        """
        requests:
          - {do: signal, name: paid, data: {amount: 3}, when: start}
          - {do: signal, name: paid, data: {amount: 4}, when: start}
        expect: {result: 3}
        """,
    ),
    "rows of a cursor": Case(
        CURSOR,
        """
        stubs:
          - {step: drain, task: claim, rows: [{id: 1}, {id: 2}], times: 1}
          - {step: drain, task: claim, rows: []}
          - {step: drain, task: ack, iteration: 0, result: {row_count: 1}}
          - {step: drain, task: ack, iteration: 1, result: {row_count: 0}}
          - {step: drain, task: drain_task, result: 5}
        expect: {status: failed, failures: [{step: drain, kind: lease_lost}]}
        """,
    ),
    "a wait that times out": Case(TIMED, "expect: {route: [start, remind], delays: [3600]}"),
    "a signal in time": Case(
        TIMED, "requests: [{do: signal, name: paid, data: 1, at: 59m}]\nexpect: {route: [start], delays: []}"
    ),
    "a signal too late": Case(
        TIMED, "requests: [{do: signal, name: paid, data: 1, at: 61m}]\nexpect: {route: [start, remind]}"
    ),
    "decisions": Case(
        REVIEW,
        """
        requests:
          - {do: approve, step: start, iteration: 1, by: ann, form: {amount: 3}}
          - {do: reject, step: start, iteration: 0, by: ann, reason: too much, at: 1d}
        expect:
          result:
            results:
              - {approved: false, by: ann, at: ..., reason: too much, form: {amount: null}}
              - {approved: true, by: ann, at: ..., reason: "", form: {amount: 3}}
            stats: ...
        """,
    ),
    "a held step": Case(
        HELD,
        """
        stubs: [{step: start, error: broken}]
        requests: [{do: retry, step: start, by: ann}, {do: skip, step: start, data: {rows: 0}, by: ann}]
        expect: {route: [start, start, after], result: {rows: 0}, calls: [{step: start, times: 2}]}
        """,
    ),
    "held items": Case(
        HELD_ITEMS,
        """
        stubs:
          - {step: load, iteration: 0, error: broken, times: 1}
          - {step: load, iteration: 2, error: broken}
          - {step: load, result: 4}
        requests:
          - {do: skip, step: load, iteration: 2, data: 0, by: bob}
          - {do: retry, step: load, iteration: 0, by: ann, at: 1d}
        expect:
          results: {start: {results: [{load: 4}, {load: 4}, {load: 0}], stats: ...}}
          events: [step.held, step.released]
        """,
    ),
    "a held step that nobody helps": Case(HELD, "stubs: [{step: start, error: broken}]\nexpect: {status: failed}"),
    "a pause while a call runs": Case(
        STEPS,
        """
        stubs: [{step: start, takes: 1d}, {step: after}]
        requests: [{do: pause, at: 5s}, {do: resume}]
        expect: {route: [start, after]}
        """,
    ),
    "a pause of a loop": Case(
        STEPS,
        """
        stubs: [{step: start}, {step: after, takes: 4s}]
        requests: [{do: pause, step: after, by: ann}, {do: resume, at: 1d, by: bob}]
        expect:
          events: [playbook.paused, {type: playbook.resumed, meta: {by: bob, ...: ...}}]
        """,
    ),
    "a cancel while a call runs": Case(
        STEPS,
        """
        stubs: [{step: start, takes: 8s}]
        requests: [{do: cancel, at: 5s, reason: wrong table}]
        expect: {status: cancelled, route: [start]}
        """,
    ),
    "a cancel of a loop": Case(
        STEPS,
        """
        stubs: [{step: start}, {step: after, takes: 4s}]
        requests: [{do: cancel, step: after}]
        expect: {status: cancelled, route: [start, after], events: [playbook.cancelled]}
        """,
    ),
    "a pause that nothing ends": Case(
        STEPS, "stubs: [{step: start}]\nrequests: [{do: pause, when: start}]\nexpect: {}"
    ),
    "a wait that nothing ends": Case(PAID, "expect: {}"),
    "a call without a stub": Case(STEPS, "stubs: [{step: start}]\nexpect: {}"),
    "an unused stub": Case(HELD, "stubs: [{step: start, times: 1}, {step: start}]\nexpect: {}"),
}


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose clocks move on."""
    with time_skipping_server(Home(tmp_path_factory.mktemp("clocks"))) as address:
        yield address


def load_case(folder: Path, case: Case) -> tuple[PlaybookTest, Graph]:
    folder.mkdir()
    suite = loaded(folder, case.playbook, file_of(case.body))
    assert suite.graph is not None, (suite.invalid_files, suite.unsupported)
    return suite.suite.tests[0], suite.graph


def problems_of(verdict: TrialResult) -> set[tuple[object, ...]]:
    return {
        (failure.span.line, failure.message, repr(failure.expected), repr(failure.actual))
        for failure in verdict.problems
    }


def test_a_test_has_the_same_result_as_in_memory(tmp_path: Path, clocks: str) -> None:
    tests = [load_case(tmp_path / str(number), case) for number, case in enumerate(CASES.values())]
    in_memory = [problems_of(run_test(test, graph, installed_tools())) for test, graph in tests]
    report = asyncio.run(run_on_temporal(clocks, tests, installed_tools()))
    problems_on_temporal = [problems_of(verdict) for verdict in report]
    assert dict(zip(CASES, problems_on_temporal, strict=True)) == dict(zip(CASES, in_memory, strict=True))


def test_each_loop_has_a_clock_of_its_own(tmp_path: Path, clocks: str) -> None:
    """The one difference: the timeout of a step does not pass while its loop's clock moves on."""
    case = Case(STEPS, "stubs: [{step: start}, {step: after, takes: 8s}]\nexpect: {status: failed}")
    test, graph = load_case(tmp_path / "one", case)
    assert run_test(test, graph, installed_tools()).passed
    [problems_on_temporal] = asyncio.run(run_on_temporal(clocks, [(test, graph)], installed_tools()))
    assert [problem.message for problem in problems_on_temporal.problems] == ["status differs"]
    assert problems_on_temporal.run.finish.status == "completed"


def test_playbooks_that_call_others_are_tested_in_memory_alone(tmp_path: Path) -> None:
    case = Case("workflow: [{step: start, tool: {kind: playbook, path: tests/q}}]", "stubs: []\nexpect: {}")
    why = memory_only_reason(load_case(tmp_path / "one", case)[1])
    assert why == "it calls playbooks, which stubs replace in memory only"


def test_noetl_test_runs_on_temporal(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(HEAD + PAID.lstrip("\n"))
    (tmp_path / "p.test.yaml").write_text(
        file_of("requests: [{do: signal, name: paid, data: {}}]\nexpect: {result: 3}")
    )
    (tmp_path / "q.yaml").write_text(HEAD + "workflow: [{step: start, tool: {kind: playbook, path: tests/p}}]\n")
    (tmp_path / "q.test.yaml").write_text(file_of("stubs: [{step: start, result: 3}]\nexpect: {result: 3}"))
    done = subprocess.run(
        noetl_command("test", "--temporal"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "skipped  q.test.yaml: 1 test: it calls playbooks, which stubs replace in memory only\n" in done.stdout
    assert "FAILED  p.test.yaml: test" in done.stdout
    assert "1 failed in " in done.stdout
    assert CliRunner().invoke(cli, ["test", "--temporal", "--watch", str(tmp_path)]).exit_code == 2
