"""A template that reads a step without a result says why there is none, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.facts import CancelRequested

from .driver import Run, error, run_text
from .playbooks import playbook
from .waited import WaitingRun

OTHERWISE = 'Route through it first, or allow for its absence with "check is defined" or default(...)'


def failure_of(steps: str, answer: Any = None) -> str:
    run: Run = run_text(playbook(steps), lambda call: answer if call.task.startswith("check") else {})
    cause = run.finish.failures.cause
    assert cause is not None
    return cause.message


@pytest.mark.parametrize("name", ["check", "results.check"])
def test_a_step_that_has_not_run(name: str) -> None:
    steps = f"""
  - step: start
    tool: {{kind: noop}}
    next: {{arcs: [{{step: check, when: "{{{{ false }}}}"}}, {{step: report}}]}}
  - step: check
    tool: {{kind: noop}}
    next: {{arcs: [{{step: report}}]}}
  - step: report
    tool: {{kind: noop, input: {{ok: "{{{{ {name}.ok }}}}"}}}}
"""
    reason = 'step "check" has not run yet, or its route was not taken'
    assert failure_of(steps) == f'"{name}" is undefined: {reason}. {OTHERWISE}'


def test_a_step_that_was_skipped() -> None:
    steps = """
  - step: check
    spec: {policy: {admit: {rules: [{when: "{{ false }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
    next: {arcs: [{step: report}]}
  - step: report
    tool: {kind: noop, input: {ok: "{{ check.ok }}"}}
"""
    reason = 'step "check" was skipped, so it has no result. Allow for this with default(...)'
    assert failure_of(steps) == f'"check.ok" is undefined: {reason}'


def test_a_step_that_failed() -> None:
    steps = """
  - step: check
    tool: {kind: noop}
    next: {arcs: [{step: report, when: "{{ error is defined }}"}]}
  - step: report
    tool: {kind: noop, input: {ok: "{{ check.rows }}"}}
"""
    reason = 'step "check" failed, so it has no result. Its error is check.error'
    assert failure_of(steps, error()) == f'"check.rows" is undefined: {reason}'


def test_a_step_that_is_still_running() -> None:
    steps = """
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: check}, {step: report}]}
  - step: check
    tool: {kind: wait, duration: 1h}
  - step: report
    tool: {kind: noop, input: {ok: "{{ check.ok }}"}}
"""
    reason = 'step "check" is still running, so it has no result yet'
    assert failure_of(steps) == f'"check" is undefined: {reason}'


def test_a_step_that_was_cancelled() -> None:
    run = WaitingRun("""
  - step: check
    tool: {kind: wait, duration: 1h}
  - step: end
    tool: {kind: noop, input: {ok: "{{ check.ok }}"}}
""")
    run.feed(CancelRequested)
    [failure] = run.finish.failures.detailed
    assert failure.message == '"check.ok" is undefined: step "check" was cancelled, so it has no result'


@pytest.mark.parametrize("template", ["{{ check.ok | default(0) }}", "{{ check.ok if check is defined else 0 }}"])
def test_the_advice_helps(template: str) -> None:
    steps = f"""
  - step: start
    tool: {{kind: noop}}
    next: {{arcs: [{{step: check, when: "{{{{ false }}}}"}}, {{step: report}}]}}
  - step: check
    tool: {{kind: noop}}
    next: {{arcs: [{{step: report}}]}}
  - step: report
    tool: {{kind: noop, input: {{ok: "{template}"}}}}
"""
    run = run_text(playbook(steps), lambda _call: {})
    assert run.finish.status == "completed"
