"""Jumps inside of a pipeline: where they lead, what they wait for, and that they come to an end."""

from __future__ import annotations

import pytest

from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.tasks import task_executions

from .activity import Activity
from .driver import error, run_text
from .playbooks import playbook


def tasks_with_jump(to: str, when: str, more: str = "") -> str:
    """Two tasks, the second of which jumps while ``when`` holds."""
    rule = f"{{when: '{{{{ {when} }}}}', then: {{do: jump, to: '{to}'{more}}}}}"
    return playbook(
        f"""
  - step: start
    tool:
      - {{name: first, kind: noop}}
      - {{name: second, kind: noop, spec: {{policy: {{on_unmatched: fail, rules: [{rule}]}}}}}}
"""
    )


class Counting:
    """Answers with how many calls there were."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _call: ToolCall) -> int:
        self.calls += 1
        return self.calls


@pytest.mark.parametrize("to", ["first", "previous", "prev", "_previous", "@previous"])
def test_a_jump_leads_to_a_label_or_to_the_task_before(to: str) -> None:
    run = run_text(tasks_with_jump(to, "output.data < 5"), Activity(Counting()))
    assert [call.task for call in run.calls] == ["first", "second"] * 3
    assert run.finish.result == 6


def test_a_jump_waits_for_its_delay() -> None:
    run = run_text(tasks_with_jump("first", "output.data < 3", ", delay: 2s"), Activity(Counting()))
    assert run.delays == [2.0]


def test_a_call_again_waits_for_its_delay() -> None:
    policy = "{rules: [{when: '{{ output.data < 3 }}', then: {do: again, delay: 500ms, attempts: 9}}]}"
    text = playbook(f"  - step: start\n    tool: {{kind: noop, spec: {{policy: {policy}}}}}\n")
    run = run_text(text, Activity(Counting()))
    assert (run.delays, len(run.calls)) == ([0.5, 0.5], 3)


def test_attempts_are_counted_from_one_after_a_jump() -> None:
    retry = "{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 2}}"
    back = "{when: '{{ output.data < 8 }}', then: {do: jump, to: first}}"
    text = playbook(
        f"""
  - step: start
    tool:
      - {{name: first, kind: noop, spec: {{policy: {{rules: [{retry}], on_unmatched: fail}}}}}}
      - {{name: second, kind: noop, spec: {{policy: {{rules: [{back}], on_unmatched: fail}}}}}}
"""
    )
    counting = Counting()

    def failing_first(call: ToolCall) -> object:
        number = counting(call)
        return error() if call.task == "first" and number % 3 == 1 else number

    activity = Activity(failing_first)
    run = run_text(text, activity)
    assert run.finish.status == "completed"
    assert activity.attempts == ["first", "first", "second"] * 3


def test_a_jump_without_an_end_runs_out_of_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_executions, "MAX_EXECUTIONS", 7)
    run = run_text(tasks_with_jump("first", "output.data > 0"), Activity(Counting()))
    assert (run.finish.status, len(run.calls)) == ("failed", 7)
    assert run.finish.failures.detailed[0].kind == "budget"
