"""A call of a playbook in the machine: a call like any other, with rules of the machine (dev/decisions/0047)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.playbook import PlaybookMachine
from tests.machine.driver import Driver, Run, error, ok, run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: caller, path: caller}\n"
CALL = """\
workflow:
  - step: start
    tool:
      kind: playbook
      path: child
      version: 2
      input: {city: "{{ workload.city | default('Oslo') }}"}
"""


def without_decision(report: ToolReport) -> ToolReport:
    """As the shell reports the end of a child."""
    return msgspec.structs.replace(report, is_decided=False)


def run(more: str, answer: Callable[[ToolCall], Any]) -> Run:
    return run_text(HEAD + CALL + more, lambda call: without_decision(answer(call)))


def test_a_call_names_the_playbook_and_its_input() -> None:
    finished_run = run("", lambda _call: ok({"temperature": 3}))
    [call] = finished_run.calls
    assert (call.kind, call.config, call.input) == ("playbook", {"path": "child", "version": 2}, {"city": "Oslo"})
    assert finished_run.finish.result == {"temperature": 3}
    assert [type_ for type_ in finished_run.types() if type_.startswith("task.")] == ["task.started", "task.done"]


RULES = """\
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' and attempt < 4 }}"
              then: {do: retry, attempts: 3, delay: 2, backoff: exponential}
            - when: "{{ output.status == 'ok' }}"
              then: {do: continue, set: {ctx.warm: "{{ output.data.temperature > 0 }}", ctx.attempt: "{{ attempt }}"}}
"""


@pytest.mark.parametrize(("failures", "status"), [(0, "completed"), (2, "completed"), (3, "failed")])
def test_the_machine_evaluates_rules_after_a_success_too(failures: int, status: str) -> None:
    paths: list[str] = []

    def answer(call: ToolCall) -> ToolReport:
        paths.append(call.id)
        return error("storm", "http") if len(paths) <= failures else ok({"temperature": 3})

    finished_run = run(RULES, answer)
    assert finished_run.finish.status == status
    assert len(paths) == len(set(paths)) == min(failures + 1, 3), "each attempt is a call with an id of its own"
    assert finished_run.delays == [2.0, 4.0][:failures]
    decision_events = finished_run.of("policy.task.evaluated")
    last = "fail" if status == "failed" else "continue"
    assert [event.meta["do"] for event in decision_events] == [*["retry"] * min(failures, 2), last]


def test_a_rule_sees_which_attempt_it_was() -> None:
    answers = iter([error("storm", "http"), ok({"temperature": 3})])
    more = RULES + "  - step: end\n    tool: {kind: noop, message: '{{ ctx.attempt }} {{ ctx.warm }}'}\n"
    finished_run = run(more, lambda call: ok(call.config["message"]) if call.kind == "noop" else next(answers))
    assert finished_run.finish.result == "2 True"


def test_its_sinks_are_performed_by_a_call_of_their_own() -> None:
    """No activity has the result of the child."""
    sink = "      sink: {tool: {kind: postgres, auth: pg, table: t, data: {t: '{{ output.data.temperature }}'}}}\n"
    finished_run = run(sink, lambda call: ok(None) if call.outcome_to_store else ok({"temperature": 3}))
    call, store = finished_run.calls
    assert (call.kind, call.sinks) == ("playbook", ())
    assert (store.kind, len(store.sinks), store.outcome_to_store) == (
        "postgres",
        1,
        {"status": "ok", "result": {"temperature": 3}},
    )


STEPS = """\
workflow:
  - step: start
    tool: {kind: noop, message: a}
    next: {arcs: [{step: more}]}
  - step: more
    tool: {kind: noop, message: b}
"""


@pytest.mark.parametrize(("step", "result"), [("", "b"), ("start", "a"), ("more", "b"), ("end", "b")])
def test_a_run_returns_the_result_of_the_step_that_its_caller_names(step: str, result: str) -> None:
    machine = PlaybookMachine(compile_or_raise(HEAD + STEPS), execution_id=7)
    driver = Driver(lambda call: ok(call.config["message"]))
    assert driver.drive(machine, return_step=step).result == result
