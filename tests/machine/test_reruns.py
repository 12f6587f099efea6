"""A rerun goes on from what an earlier run had before a step first started (semantics.md 43)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph, Json
from noetl_compiler.secret_references import references_in
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.facts import RerunSource
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.reruns import region_of, reuse_refusal, state_before
from noetl_temporal.machine.state import PlaybookState, Stop

from .driver import SECRETS_KEY, Driver, Run, error

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: rerun, path: tests/rerun}
workload: {city: Bergen, at: "{{ job.id }}"}
workflow:
"""
CHAIN = """\
  - step: start
    tool: {kind: noop, message: start}
    set: {ctx.total: "{{ start.n }}", ctx.city: "{{ workload.city }}"}
    next: {arcs: [{step: middle}]}
  - step: middle
    tool: {kind: noop, message: "{{ ctx.total }} {{ start.n }}"}
    set: {ctx.total: "{{ ctx.total + middle.n }}"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ ctx.total }} {{ ctx.city }} {{ start.n }} {{ middle.n }} {{ workload.at }}"}
"""
FORK = """\
  - step: start
    tool: {kind: noop, message: start}
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - step: left
    tool: {kind: noop, message: left}
    next: {arcs: [{step: left2}]}
  - step: left2
    tool: {kind: noop, message: left2}
    next: {arcs: [{step: join}]}
  - step: right
    tool: {kind: noop, message: right}
    next: {arcs: [{step: join}]}
  - step: join
    tool: {kind: noop, message: "{{ left2.n }} {{ right.n }}"}
"""
LOOP = """\
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: noop, message: "{{ n }}"}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ start.results | sum }}"}}
"""
HANDLED_STEPS = """\
  - step: start
    tool: {kind: noop, message: start}
    next: {arcs: [{step: after, when: "{{ event.name == 'step.failed' }}"}]}
  - {step: after, tool: {kind: noop, message: after}}
"""
REGION = """\
  - step: each
    loop: {in: [1, 2], iterator: n}
    next: {arcs: [{step: inner}]}
  - {step: inner, tool: {kind: noop, message: "{{ n }}"}, next: {arcs: [{step: done}]}}
  - {step: done, spec: {end_loop: each}, next: {arcs: [{step: report}]}}
  - {step: report, tool: {kind: noop, message: "{{ each.results | length }}"}}
"""
ITEM_ROUTES = """\
  - step: each
    loop: {in: [1, 2], iterator: n, next: {arcs: [{step: inner}]}}
    tool: {kind: noop, message: "{{ n }}"}
    next: {arcs: [{step: report}]}
  - {step: inner, tool: {kind: noop, message: "inner {{ n }}"}}
  - {step: report, tool: {kind: noop, message: "{{ inner.said }}"}}
"""


@dataclass
class Recording:
    """Drives a run, and notes what its steps could be rerun from."""

    graph: Graph
    answer: Callable[[ToolCall], Any]
    states: dict[str, Json] = field(default_factory=dict[str, Json])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    pick: Callable[[int], int] | None = None

    def run(self, payload: dict[str, Json] | None = None, earlier: RerunSource | None = None, id_: int = 7) -> Run:
        machine = PlaybookMachine(self.graph, execution_id=id_, secrets_key=SECRETS_KEY)
        machine.observer = self._note
        driver = Driver(self.answer, self.pick)
        return Run(driver.drive(machine, payload, earlier=earlier), driver.events, driver.calls, driver.delays)

    def _note(self, step: str, state: PlaybookState) -> None:
        if state.run_counts.get(step):
            return
        problem = reuse_refusal(self.graph, state, step)
        if problem is None:
            self.states[step] = state_before(self.graph, state, step)
        else:
            self.problems[step] = problem

    def rerun(self, step: str, payload: dict[str, Json] | None = None) -> Run:
        return self.run(payload, RerunSource(7, step, SECRETS_KEY, self.states[step]), id_=8)


def recording(steps: str, answer: Callable[[ToolCall], Any], pick: Callable[[int], int] | None = None) -> Recording:
    return Recording(compile_or_raise(HEAD + steps), answer, pick=pick)


def messages_of_calls(run: Run) -> list[Any]:
    return [call.config.get("message") for call in run.calls]


def test_a_step_and_those_after_it_run_again_with_exact_state() -> None:
    answers = iter([{"n": 1}, {"n": 2}, error("away")])
    first_run = recording(CHAIN, lambda _: next(answers))
    first = first_run.run({"city": "Oslo"})
    assert first.finish.status == "failed"
    first_run.answer = lambda _: {"n": 5}
    second_run = first_run.rerun("last", {"city": "Oslo"})
    assert messages_of_calls(second_run) == messages_of_calls(first)[2:] == ["3 Oslo 1 2 7"]
    assert (second_run.finish.status, second_run.finish.result) == ("completed", {"n": 5})
    middle = first_run.rerun("middle", {"city": "Oslo"})
    assert messages_of_calls(middle) == ["1 1", "6 Oslo 1 5 7"]


def test_the_log_lists_reused_steps_and_the_report_counts_no_calls_for_them() -> None:
    first_run = recording(CHAIN, lambda _: {"n": 1})
    first_run.run()
    second_run = first_run.rerun("last")
    assert [(event.node, event.status, event.meta["rerun_of"]) for event in second_run.of("step.reused")] == [
        ("start", "COMPLETED", "7"),
        ("middle", "COMPLETED", "7"),
    ]
    [request_event], [started] = second_run.of("playbook.execution.requested"), second_run.of("playbook.started")
    assert request_event.meta == started.meta == {"rerun_of": "7", "rerun_from": "last"}
    [workflow] = second_run.of("workflow.started")
    assert workflow.meta == {"entry": "last"}
    steps = second_run.finish.steps
    assert [(steps[name].get("reused"), steps[name]["attempts"]) for name in ("start", "middle", "last")] == [
        (True, 0),
        (True, 0),
        (None, 1),
    ]
    [finish_event] = second_run.of("workflow.finished")
    assert finish_event.meta["total_steps"] == 1
    assert [event.meta["step_run_id"] for event in second_run.of("step.started")] == ["last#1", "end#1"]


def test_the_log_of_a_rerun_names_no_row_of_the_earlier_run() -> None:
    text = "x" * 100
    recorded = recording(CHAIN, lambda call: {"n": 1, "text": text if call.step != "last" else ""})
    recorded.run()
    again = recorded.rerun("last")
    own = {event.node: event.id for event in again.of("step.reused")}
    assert [event.result for event in again.of("step.reused")] == [{"n": 1, "text": text}] * 2
    left_out = again.of("step.done")[-1].meta["left_out"]["results"]
    assert {name: one["row"] for name, one in left_out.items()} == own


def test_a_rerun_from_the_first_step_is_the_run_with_its_workload() -> None:
    first_run = recording(CHAIN, lambda _: {"n": 1})
    first = first_run.run()
    second_run = first_run.rerun("start")
    assert messages_of_calls(second_run) == messages_of_calls(first)
    assert second_run.of("step.reused") == []


def test_branches_that_had_ended_are_reused() -> None:
    first_run = recording(FORK, lambda call: {"n": call.step})
    first = first_run.run()
    second_run = first_run.rerun("join")
    assert messages_of_calls(second_run) == messages_of_calls(first)[-1:] == ["left2 right"]
    assert [event.node for event in second_run.of("step.reused")] == ["start", "left", "left2", "right"]


def test_results_of_steps_on_the_routes_of_items_are_reused() -> None:
    first_run = recording(ITEM_ROUTES, lambda call: {"said": call.config.get("message")})
    first = first_run.run()
    second_run = first_run.rerun("report")
    assert messages_of_calls(second_run) == messages_of_calls(first)[-1:] == ["inner 2"]
    assert [event.node for event in second_run.of("step.reused")] == ["each", "inner"]


@pytest.mark.parametrize("step", ["left", "right"])
def test_branches_that_started_with_the_step_start_again(step: str) -> None:
    first_run = recording(FORK, lambda call: {"n": call.step})
    first_run.run()
    second_run = first_run.rerun(step)
    assert sorted(messages_of_calls(second_run)) == ["left", "left2", "left2 right", "right"]
    assert [event.node for event in second_run.of("step.reused")] == ["start"]
    assert {event.meta["step_run_id"] for event in second_run.of("step.started")} >= {"left#1", "right#1"}


def test_a_branch_in_progress_cannot_be_reused() -> None:
    first_run = recording(FORK, lambda call: {"n": call.step})
    first_run.run()
    assert first_run.problems == {
        "left2": "step 'right' was still running when 'left2' first started, so it had no result to reuse"
    }


def test_a_branch_that_waits_at_a_join_is_reused() -> None:
    first_run = recording(FORK, lambda call: {"n": call.step}, pick=lambda count: count - 1)
    first = first_run.run()
    assert messages_of_calls(first)[1:] == ["left", "right", "left2", "left2 right"]
    assert first_run.problems == {}
    second_run = first_run.rerun("left2")
    assert messages_of_calls(second_run) == ["left2", "left2 right"]


def test_the_results_of_a_loop_are_reused() -> None:
    first_run = recording(LOOP, lambda call: 10 * int(call.config["message"]))
    first_run.run()
    second_run = first_run.rerun("after")
    assert messages_of_calls(second_run) == [60]
    assert not [event for event in second_run.events if event.type.startswith("loop.")]
    loop = first_run.rerun("start")
    assert len(loop.of("loop.iteration.done")) == 3


def test_a_failure_that_was_handled_before_stays_handled() -> None:
    first_run = recording(HANDLED_STEPS, lambda call: error("no") if call.step == "start" else 1)
    assert first_run.run().finish.status == "completed"
    second_run = first_run.rerun("after")
    assert second_run.finish.status == "completed"
    [reuse_event] = second_run.of("step.reused")
    assert (reuse_event.status, reuse_event.error) == ("FAILED", "no")


def test_the_final_step_can_be_rerun_alone() -> None:
    first_run = recording(CHAIN, lambda _: {"n": 1})
    first = first_run.run()
    second_run = first_run.rerun("end")
    assert (messages_of_calls(second_run), second_run.finish.result) == ([], first.finish.result)


def test_a_rerun_can_be_rerun() -> None:
    first_run = recording(CHAIN, lambda _: {"n": 1})
    first = first_run.run()
    first_run.rerun("middle")
    second_run = first_run.rerun("last")
    assert messages_of_calls(second_run) == messages_of_calls(first)[2:]


def test_a_run_that_was_stopping_is_refused() -> None:
    graph = compile_or_raise(HEAD + CHAIN)
    assert reuse_refusal(graph, PlaybookState(), "end") is None
    state = PlaybookState(stop=Stop("cancel", 0))
    assert reuse_refusal(graph, state, "end") == "the run was already stopping (cancel) when 'end' started"


def test_a_step_of_a_loop_over_steps_belongs_to_it() -> None:
    first_run = recording(REGION, lambda call: call.step)
    first_run.run()
    assert [region_of(first_run.graph, step) for step in ("each", "inner", "done", "report")] == [
        None,
        "each",
        None,
        None,
    ]
    assert first_run.states.keys() == {"each", "done", "report", "end"}
    assert len(messages_of_calls(first_run.rerun("done"))) == 1
    second_run = first_run.rerun("report")
    assert messages_of_calls(second_run) == [2]
    assert second_run.finish.steps["inner"] == {
        "status": "completed",
        "reused": True,
        "attempts": 0,
        "retries": 0,
        "duration_seconds": 0.0,
    }


def test_references_to_secrets_are_valid_in_the_rerun() -> None:
    steps = """\
  - step: start
    tool: {kind: noop, message: start}
    set: {ctx.token: "Bearer {{ keychain.billing.token }}", ctx.text: "noetl-secret~x~eyJ9~AAAA~"}
    next: {arcs: [{step: last}]}
  - {step: last, tool: {kind: noop, message: "{{ ctx.token }} {{ ctx.text }}"}}
"""
    head = HEAD.replace("workflow:", "keychain: [{name: billing, kind: static, token: x}]\nworkflow:")
    first_run = Recording(compile_or_raise(head + steps), lambda _: 1)
    first_run.run()
    machine = PlaybookMachine(first_run.graph, execution_id=8, secrets_key="another")
    driver = Driver(lambda _: 1)
    driver.drive(machine, earlier=RerunSource(7, "last", SECRETS_KEY, first_run.states["last"]))
    [call] = driver.calls
    [reference] = references_in(call.config["message"], "another")
    assert (reference.reference.name, reference.reference.path) == ("billing", ("token",))
    assert list(references_in(call.config["message"], SECRETS_KEY)) == []
    assert call.config["message"].endswith(" noetl-secret~x~eyJ9~AAAA~")
