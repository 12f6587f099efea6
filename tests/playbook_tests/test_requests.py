"""Signals, decisions and what operators do in tests of playbooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trials import loaded, problems, verdicts

PAID = """
workflow:
  - step: start
    tool: {kind: wait, signal: paid, schema: {type: object}}
    next: {arcs: [{step: ship}]}
  - step: ship
    tool: {kind: noop, result: "{{ start.amount }}"}
"""
SIGNAL = "{do: signal, name: paid, data: {amount: 3}}"


@pytest.mark.parametrize("moment", ["", "when: start", "when: waiting", "at: 2h"])
def test_a_signal_ends_a_wait(tmp_path: Path, moment: str) -> None:
    body = f"requests: [{{do: signal, name: paid, data: {{amount: 3}}, {moment}}}]\nexpect: {{result: 3}}"
    assert problems(tmp_path, PAID, body) == []


def test_the_moment_of_a_signal_is_that_of_the_virtual_clock(tmp_path: Path) -> None:
    tests = """
    tests:
      - name: late
        requests: [{do: signal, name: paid, data: {amount: 1}, at: 2h}]
        expect: {delays: []}
    """
    [verdict] = verdicts(tmp_path, PAID, tests)
    assert verdict.problems == ()
    at = {event.type: event.at for event in verdict.run.events}
    assert at["signal.received"] - at["playbook.started"] == 7_200_000


def test_a_wait_that_nothing_ends_is_reported(tmp_path: Path) -> None:
    [problems_found] = problems(tmp_path, PAID, "expect: {}")
    assert problems_found == (
        "2: start waits for the signal paid without a timeout, and nothing sends it; add it to requests, such as "
        "{do: signal, name: paid, data: ...}"
    )


def test_a_signal_that_no_step_takes_fails_the_test(tmp_path: Path) -> None:
    body = f"requests:\n  - {SIGNAL}\n  - {SIGNAL.replace('}}', '}, at: 0}')}\nexpect: {{result: 3}}"
    assert problems(tmp_path, PAID, body) == ["5: the run ended before this: signal paid"]
    body = (
        f"requests:\n  - {SIGNAL.replace('3}}', '3}, when: start}')}\n  - {SIGNAL.replace('3}}', '4}, when: start}')}\n"
    )
    assert problems(tmp_path, PAID, body + "expect: {result: 3}") == ["5: no step took the signal paid"]


def test_a_signal_that_the_run_refuses_fails_the_test(tmp_path: Path) -> None:
    problems_found = problems(tmp_path, PAID, "requests: [{do: signal, name: paid, data: 3}]\nexpect: {}")
    assert "3: the run refused to take signal paid: data must be a mapping" in problems_found[1]
    assert problems_found[0].startswith("2: start waits for the signal paid")


TIMED = """
workflow:
  - step: start
    tool: {kind: wait, signal: paid, timeout: 1h, on_timeout: remind}
    next: {arcs: [{step: end}]}
  - step: remind
    tool: {kind: noop, result: reminded}
"""


def test_a_wait_times_out_in_virtual_time(tmp_path: Path) -> None:
    tests = """
    tests:
      - name: nothing comes
        expect: {route: [start, remind], result: reminded, delays: [3600]}
      - name: it comes in time
        requests: [{do: signal, name: paid, data: 1, at: 59m}]
        expect: {route: [start], result: 1}
      - name: it comes too late
        requests: [{do: signal, name: paid, data: 1, at: 61m}]
        expect: {route: [start, remind]}
    """
    missed_verdict, in_time_verdict, late_verdict = verdicts(tmp_path, TIMED, tests)
    assert missed_verdict.problems == in_time_verdict.problems == ()
    [problem] = late_verdict.problems
    assert problem.message == "the run ended before this: signal paid"
    assert missed_verdict.seconds < 1


REVIEW = """
workflow:
  - step: start
    loop: {in: [a, b], iterator: name, spec: {mode: parallel}}
    tool: {kind: approval, approvers: [ann], form: {amount: {type: number, required: true}}}
"""


def test_decisions_name_the_item_and_who_decides(tmp_path: Path) -> None:
    body = """
    requests:
      - {do: approve, step: start, iteration: 1, by: ann, form: {amount: 3}}
      - {do: reject, step: start, iteration: 0, by: ann, reason: too much, at: 1d}
    expect:
      result:
        results:
          - {approved: false, by: ann, at: "2025-01-02...", reason: too much, form: {amount: null}}
          - {approved: true, by: ann, at: "2025-01-01...", reason: "", form: {amount: 3}}
        stats: ...
    """
    assert problems(tmp_path, REVIEW, body) == []


def test_a_decision_by_somebody_else_than_an_approver_is_refused(tmp_path: Path) -> None:
    body = "requests: [{do: approve, step: start, iteration: 1, by: bob, form: {amount: 3}}]\nexpect: {}"
    problems_found = problems(tmp_path, REVIEW, body)
    assert (
        "3: the run refused to approve start[1]: 'bob' may not decide start[1]: its approvers are ann" in problems_found
    )
    example = "{do: approve, step: start, iteration: 0}"
    waits = "waits for an approval without a timeout, and nobody decides; add it to requests, such as"
    assert f"2: start[0] {waits} {example}" in problems_found


def test_a_retry_waits_for_its_signal(tmp_path: Path) -> None:
    playbook = """
    workflow:
      - step: start
        tool:
          kind: python
          code: result = 1
          spec:
            policy:
              rules:
                - when: "{{ output.status == 'error' }}"
                  then: {do: retry, wait_for: fixed, timeout: 10m}
    """
    body = """
    stubs: [{step: start, error: broken, times: 1}, {step: start, result: mended}]
    requests: [{do: signal, name: fixed, at: 9m}]
    expect: {result: mended}
    """
    assert problems(tmp_path, playbook, body) == []
    late_test = "stubs: [{step: start, error: broken}]\nexpect: {status: failed, calls: [{step: start, times: 1}]}"
    assert problems(tmp_path, playbook, late_test) == []


HELD = """
workflow:
  - step: start
    on_failure: {do: hold, for: 2h}
    tool: {kind: python, code: result = 1}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, result: "{{ start }}"}
"""


def test_a_held_step_is_retried_and_then_skipped(tmp_path: Path) -> None:
    body = """
    stubs: [{step: start, error: broken}]
    requests:
      - {do: retry, step: start, by: ann, reason: again, at: 1h}
      - {do: skip, step: start, data: {rows: 0}, by: ann}
    expect:
      route: [start, start, after]
      result: {rows: 0}
      calls: [{step: start, times: 2}]
      events:
        - step.held
        - {type: step.released, node: start, meta: {action: retry, by: ann, reason: again, ...: ...}}
        - {type: step.released, node: start, meta: {action: skip, ...: ...}}
    """
    assert problems(tmp_path, HELD, body.replace("at: 1h}", "when: waiting}")) == []
    assert problems(tmp_path, HELD, body) != []


def test_a_held_step_fails_when_its_time_is_over(tmp_path: Path) -> None:
    body = "stubs: [{step: start, error: broken}]\nexpect: {status: failed, route: [start], delays: []}"
    assert problems(tmp_path, HELD, body) == []


STEPS = """
workflow:
  - step: start
    timeout: 10s
    tool: {kind: python, code: result = 1}
    next: {arcs: [{step: after}]}
  - step: after
    timeout: 10s
    loop: {in: [a, b], iterator: name}
    tool: {kind: python, code: result = 2}
"""


@pytest.mark.parametrize("step", ["start", "after"])
def test_a_pause_follows_the_start_of_a_step(tmp_path: Path, step: str) -> None:
    body = f"""
    stubs: [{{step: start}}, {{step: after, takes: 8s}}]
    requests:
      - {{do: pause, step: {step}, by: ann}}
      - {{do: resume, at: 1d, by: bob}}
    expect:
      status: {"completed" if step == "after" else "failed"}
      route: [start, after]
      events: [playbook.paused, {{type: playbook.resumed, meta: {{by: bob, ...: ...}}}}]
    """
    assert problems(tmp_path, STEPS, body) == []


def test_deadlines_are_suspended_while_a_run_is_paused(tmp_path: Path) -> None:
    body = """
    stubs: [{step: start, takes: 1d}, {step: after}]
    requests: [{do: pause, at: 5s}, {do: resume}]
    expect: {route: [start, after]}
    """
    assert problems(tmp_path, STEPS, body) == []


def test_a_pause_that_nothing_ends_is_reported(tmp_path: Path) -> None:
    body = "stubs: [{step: start}]\nrequests: [{do: pause, when: start}]\nexpect: {}"
    assert problems(tmp_path, STEPS, body) == [
        "2: the run is paused, and nothing resumes it: add {do: resume} to requests"
    ]


CLEANED_STEPS = STEPS + "  - step: end\n    tool: {kind: python, code: result = 3}\n"


@pytest.mark.parametrize(
    ("requests", "called_steps", "route"),
    [
        ("[{do: cancel, step: start, reason: wrong table}]", ["start", "end"], "[start, end]"),
        ("[{do: cancel, step: after, reason: wrong table}]", ["start", "after", "end"], "[start, after, end]"),
        ("[{do: cancel, at: 3s, reason: wrong table}]", ["start", "after", "end"], "[start, after, end]"),
        ("[{do: cancel, when: start, reason: wrong table}]", ["end"], "[start, end]"),
        (
            "[{do: cancel, step: start, reason: wrong table}, {do: cancel, step: end}]",
            ["start", "end"],
            "[start, end]",
        ),
    ],
)
def test_a_cancel_stops_the_run_and_its_cleanup_runs(
    tmp_path: Path, requests: str, called_steps: list[str], route: str
) -> None:
    stubs = ", ".join(f"{{step: {step}, takes: 2s}}" for step in called_steps)
    body = f"""
    stubs: [{stubs}]
    requests: {requests}
    expect:
      status: cancelled
      route: {route}
      events: [{{type: playbook.cancelled, meta: {{reason: wrong table, ...: ...}}}}]
    """
    assert problems(tmp_path, CLEANED_STEPS, body) == []


def test_a_pause_answers_no_approval(tmp_path: Path) -> None:
    body = """
    requests: [{do: pause, at: 5s}, {do: resume, at: 6s}, {do: approve, step: start, at: 9s}]
    expect: {result: {approved: true, ...: ...}}
    """
    assert problems(tmp_path, "workflow: [{step: start, tool: {kind: approval}}]", body) == []


def test_a_cancel_that_comes_too_late_is_reported(tmp_path: Path) -> None:
    body = "stubs: [{step: start}, {step: after}]\nrequests: [{do: cancel, at: 1h}]\nexpect: {}"
    assert problems(tmp_path, STEPS, body) == ["4: the run ended before this: cancel"]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("{do: signal}", '1:30: error[NT104]: "do: signal" needs "name"'),
        ("{do: sign, name: paid}", '1:35: error[NT106]: invalid value "sign" for "do"'),
        ("{name: paid}", '1:30: error[NT104]: a request needs "do"'),
        ("{do: signal, name: pade}", '1:49: error[NT106]: no step waits for the signal "pade"'),
        ("{do: signal, name: paid, form: {}}", '1:61: error[NT109]: "form" beside "do: signal"'),
        ("{do: signal, name: paid, at: 1s, when: start}", '1:59: error[NT109]: "at" beside "when"'),
        ('{do: signal, name: paid, at: "{{ 1 }}"}', '1:59: error[NT106]: "at" is a template'),
        ("{do: approve, step: strat}", '1:50: error[NT203]: the playbook has no step "strat"'),
        ("{do: approve, step: start}", '1:50: error[NT106]: the step "start" has no approval to approve'),
        ("{do: skip, step: start}", '1:47: error[NT106]: the step "start" is never held, so there is nothing to skip'),
        ("{do: pause}", '1:30: error[NT104]: "do: pause" needs a time'),
        ("{do: cancel}", '1:30: error[NT104]: "do: cancel" needs a time'),
        ("{do: cancel, at: 1s, by: ann}", '1:55: error[NT109]: "by" beside "do: cancel"'),
        ("{do: pause, when: soon}", '1:48: error[NT106]: invalid value "soon" for "when"'),
    ],
)
def test_invalid_requests_are_reported(tmp_path: Path, request_: str, expected: str) -> None:
    suite = loaded(tmp_path, PAID, f"tests: [{{name: a, requests: [{request_}], expect: {{}}}}]")
    [line] = [
        str(diagnostic).removeprefix(f"{suite.file}:")
        for result in suite.invalid_files
        for diagnostic in result.diagnostics
    ]
    assert line.startswith(expected), line
