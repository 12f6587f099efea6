"""Tests of playbooks pass, and fail for what is not as they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trials import problems, verdicts

COLD = "stubs: [{step: start, result: {degrees: 3}}, {step: cold}]\nexpect: "
FETCH = """
workflow:
  - step: start
    tool:
      name: get
      kind: http
      url: "http://api.test/{{ workload.city }}"
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' and output.error.retryable }}"
              then: {do: retry, attempts: 3, delay: 60, backoff: exponential}
            - else: {then: {do: continue}}
    next:
      arcs:
        - {step: warm, when: "{{ start.degrees > 20 }}"}
        - {step: cold}
  - step: warm
    tool: {kind: python, code: "result = 'warm'"}
  - step: cold
    tool: {kind: python, code: "result = 'cold'"}
workload: {city: Oslo}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "stubs: [{step: start, result: {degrees: 3}}, {step: cold, result: cold}]\nexpect: {route: [start, cold]}",
            [],
        ),
        (
            "stubs: [{step: start, result: {degrees: 30}}, {step: warm}]\nexpect: {route: [start, cold]}",
            ["4: route[1] differs"],
        ),
        (
            "stubs: [{step: start, result: {degrees: 3}}]\nexpect: {}",
            ["2: a call has no stub (steps so far: start, cold); add one, such as {step: cold, "],
        ),
        (
            "stubs: [{step: start, result: {degrees: 3}}, {step: cold}, {step: warm}]\nexpect: {}",
            ["3: nothing used the stub for warm"],
        ),
        (
            "stubs: [{step: start, result: {degrees: 3}}, {step: cold, error: frozen}]\nexpect: {}",
            ["2: status differs: cold failed with exception: frozen"],
        ),
        (COLD + "{status: failed}", ["4: status differs"]),
        (COLD + "{result: warm}", ["4: result differs"]),
        (
            COLD + "{results: {cold: 1}}",
            ["4: results.cold"],
        ),
        (COLD + "{steps: [cold]}", ["4: start started"]),
        (COLD + "{steps: [cold, ...]}", []),
        (
            COLD + "{steps: [start, cold, warm]}",
            ["4: warm did not start"],
        ),
        (COLD + "{delays: [1]}", ["4: delays[0] differs"]),
        (
            COLD + "{events: [playbook.completed, step.done]}",
            ["4: there is no such event here"],
        ),
        (
            COLD.replace("cold}", "cold, error: a}") + "{status: failed, failures: [{step: cold, message: b}]}",
            ["4: failures[0].message differs"],
        ),
        (
            COLD + "{calls: [{step: start, config: {url: 'http://api.test/Rome', ...: ...}}]}",
            ["4: start, task get: config.url differs"],
        ),
        (
            COLD + "{calls: [{step: cold, times: 2}]}",
            ["4: number of calls of cold differs"],
        ),
        (
            COLD + "{calls: [{step: warm}]}",
            ["4: there is no such call"],
        ),
        (
            COLD + "{calls: [{step: warm, times: 0}, {step: start, attempts: 2}]}",
            ["4: start, task get: attempts differs"],
        ),
    ],
)
def test_differences_from_the_expectation_are_reported(tmp_path: Path, body: str, expected: list[str]) -> None:
    problems_found = problems(tmp_path, FETCH, body)
    assert len(problems_found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(problems_found, expected, strict=True)), problems_found


def test_a_problem_has_a_place_in_the_playbook_and_both_values(tmp_path: Path) -> None:
    tests = """
    tests:
      - name: calls
        stubs: [{step: start, result: {degrees: 3}}, {step: cold}]
        expect:
          calls:
            - step: start
              config:
                url: http://api.test/Rome
                "...": "..."
    """
    [verdict] = verdicts(tmp_path, FETCH, tests)
    [problem] = verdict.problems
    assert (problem.span.line, problem.span.col) == (8, 18)
    assert (problem.expected, problem.actual) == ("http://api.test/Rome", "http://api.test/Oslo")
    assert problem.location == f"{tmp_path / 'p.yaml'}:5:5"


def test_attempts_delays_and_responses_are_those_of_a_worker(tmp_path: Path) -> None:
    body = """
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
    """
    assert problems(tmp_path, FETCH, body) == []


def test_an_error_response_has_the_message_of_the_http_tool(tmp_path: Path) -> None:
    body = """
    stubs: [{step: start, http: {status: 404, body: {reason: nowhere}}}]
    expect: {status: failed, failures: [{step: start, message: "GET http://api.test/Oslo returned 404 Not Found"}]}
    """
    assert problems(tmp_path, FETCH.replace("continue", "fail"), body) == []


def test_a_call_that_takes_longer_than_its_timeout_fails_at_once(tmp_path: Path) -> None:
    playbook = """
    workflow:
      - step: start
        tool: {kind: python, timeout: 10m, code: result = 1}
    """
    tests = """
    tests:
      - name: it takes an hour
        stubs: [{step: start, takes: 1h}]
        expect: {status: failed, failures: [{step: start, kind: timeout, message: timed out after 600 s}]}
    """
    [verdict] = verdicts(tmp_path, playbook, tests)
    assert verdict.problems == ()
    assert verdict.seconds < 1
    ends = [event.at for event in verdict.run.events if event.type in ("playbook.started", "playbook.failed")]
    assert ends[1] - ends[0] == 600_000


def test_a_timeout_of_a_step_cancels_its_call(tmp_path: Path) -> None:
    playbook = """
    workflow:
      - step: start
        spec: {timeout: 5s}
        tool: {kind: python, code: result = 1}
    """
    body = """
    stubs: [{step: start, takes: 1d}]
    expect: {status: failed, events: [task.cancelled, {type: step.failed, node: start}], failures: [{step: start}]}
    """
    assert problems(tmp_path, playbook, body) == []


LOOP = """
workflow:
  - step: start
    loop: {in: "{{ [10, 20, 30] }}", iterator: n, spec: {mode: parallel}}
    tool:
      name: work
      kind: python
      input: {n: "{{ iter.n }}"}
      code: result = n
      sink: {kind: postgres, auth: db, table: numbers, data: {n: "{{ iter.n }}", got: "{{ output.data }}"}}
"""


def test_items_have_stubs_and_rows_of_their_own(tmp_path: Path) -> None:
    body = """
    stubs:
      - {step: start, iteration: 1, error: {kind: bad, message: twenty}}
      - {step: start, iteration: 0, result: a, takes: 2s}
      - {step: start, result: b}
    expect:
      status: failed
      calls: [{step: start, iteration: 2, input: {n: 30}}]
      stored: {numbers: [{n: 30, got: b}, {n: 10, got: a}]}
      failures: [{step: start, iteration: 1, kind: bad, message: twenty}]
    """
    assert problems(tmp_path, LOOP, body) == []


def test_a_sink_that_fails_fails_its_call(tmp_path: Path) -> None:
    body = """
    stubs:
      - {step: start, iteration: 1, result: a, sink_error: {kind: sql_integrity, message: no such table}}
      - {step: start, result: b}
    expect:
      status: failed
      stored: {numbers: [{n: 10, ...: ...}, {n: 30, ...: ...}]}
      failures: [{step: start, iteration: 1, kind: sql_integrity, message: "sink postgres: no such table"}]
    """
    assert problems(tmp_path, LOOP, body) == []


def test_a_missing_stub_within_a_loop_names_the_item(tmp_path: Path) -> None:
    [problems_found] = problems(tmp_path, LOOP, "stubs: [{step: start, iteration: 0}]\nexpect: {}")
    assert "{step: start, task: work, iteration: 1, result: ...}" in problems_found


PAGES = """
workflow:
  - step: start
    tool:
      name: get
      kind: http
      url: http://api.test/items
      params: {page: 1}
      spec:
        policy:
          rules:
            - when: "{{ output.data.more }}"
              then:
                do: again
                delay: 3
                patch: {params: {page: "{{ page + 1 }}"}}
                collect: {strategy: append, path: items}
"""


def test_pages_have_stubs_of_their_own(tmp_path: Path) -> None:
    body = """
    stubs:
      - {step: start, page: 1, result: {items: [1, 2], more: true}}
      - {step: start, page: 2, result: {items: [3], more: false}}
    expect:
      result: [1, 2, 3]
      delays: [3]
      calls: [{step: start, times: 2}, {step: start, page: 2, config: {params: {page: 2}, ...: ...}}]
    """
    assert problems(tmp_path, PAGES, body) == []


def test_runs_are_the_same_each_time(tmp_path: Path) -> None:
    tests = """
    tests:
      - &one
        name: first
        stubs: [{step: start, iteration: 0, takes: 2s}, {step: start, result: "x"}]
        expect: {stored: {numbers: ...}}
      - *one
    """
    case, other = verdicts(tmp_path, LOOP, tests)
    assert case.problems == other.problems == ()
    assert case.run.events == other.run.events


CURSOR = """
workflow:
  - step: drain
    loop:
      cursor:
        kind: postgres
        claim: "UPDATE jobs SET token = {{ lease.token }} RETURNING id"
        renew: "UPDATE jobs SET until = now() WHERE id = {{ row.id }}"
        ack: "UPDATE jobs SET status = {{ output.status }} WHERE id = {{ row.id }}"
      iterator: job
    tool: {kind: python, input: {n: "{{ iter.job.id }}"}, code: "result = n"}
"""


def test_statements_of_a_cursor_are_stubbed_by_their_names(tmp_path: Path) -> None:
    body = """
    stubs:
      - {step: drain, task: claim, rows: [{id: 1}, {id: 2}], times: 1}
      - {step: drain, task: claim, rows: []}
      - {step: drain, task: ack, iteration: 0, result: {row_count: 1}}
      - {step: drain, task: ack, iteration: 1, result: {row_count: 0}}
      - {step: drain, task: drain_task, result: 5}
    expect:
      status: failed
      failures: [{step: drain, kind: lease_lost}]
    """
    assert problems(tmp_path, CURSOR, body) == []


PARTIAL = """
workflow:
  - {step: start, tool: {kind: python, code: "result = 1"}}
  - {step: end, status: "{{ 'partial' if failures else 'completed' }}"}
"""


@pytest.mark.parametrize(
    ("status", "expected"),
    [("partial", []), ("completed", ["4: status differs: start failed with exception: no"])],
)
def test_a_partial_run_is_expected_as_such(tmp_path: Path, status: str, expected: list[str]) -> None:
    problems_found = problems(tmp_path, PARTIAL, f"stubs: [{{step: start, error: 'no'}}]\nexpect: {{status: {status}}}")
    assert problems_found == expected
