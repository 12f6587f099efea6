"""Routes that an item of a loop takes when its call has ended (dev/decisions/0067)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Cancel, Emit, Finish, RunChunk
from noetl_temporal.machine.facts import CancelRequested, Started, ToolFinished
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import Answer, Run, error, ok, report_of, run_text

CASE = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkload: {cities: [Oslo, Rome]}\nworkflow:\n"
LOOP = """\
  - step: each
    loop: {in: "{{ workload.cities }}", iterator: city, MODE}
    tool: {kind: http, url: "http://x/{{ city }}"}
    case:
"""
DONE = """\
      - when: "{{ event.name == 'call.done' }}"
        then: {next: [{step: tell, args: {name: "{{ city }}", size: "{{ response.data.n }}"}}]}
"""
OVER = "      - {when: \"{{ event.name == 'loop.done' }}\", then: {next: report}}\n"
TELL = """\
  - step: tell
    tool: {kind: http, url: "http://x/tell/{{ name }}/{{ size }}/{{ city }}/{{ iter.index }}"}
"""
REPORT = '  - {step: report, tool: {kind: noop, result: "{{ each.results | length }} {{ tell.n }}"}}\n'


def text(rules: str = DONE + OVER, steps: str = TELL + REPORT, mode: str = "mode: sequential") -> str:
    return CASE + LOOP.replace("MODE", mode) + rules + steps


def url(call: ToolCall) -> str:
    return str(call.config.get("url", "")).removeprefix("http://x/")


def answered(call: ToolCall) -> Any:
    if call.kind != "http":
        return ok(call.config.get("result"))
    body = {"n": len(url(call))}
    return ok({"status_code": 200, "headers": {}, "url": "u", "elapsed": 1, "data": body})


def failing(*urls: str) -> Answer:
    def answer(call: ToolCall) -> Any:
        return error("refused", kind="auth") if url(call) in urls else answered(call)

    return answer


def called(run: Run) -> list[str]:
    return [url(call) for call in run.calls if call.kind == "http"]


def ends(run: Run) -> list[str]:
    """What ended, in order."""
    types = ("step.done", "step.failed", "loop.iteration.done", "loop.iteration.failed", "loop.done", "loop.failed")
    return [f"{event.node} {event.type}" for event in run.events if event.type in types]


def test_the_route_of_an_item_starts_at_once_with_the_item() -> None:
    run = run_text(text(), answered)
    assert called(run) == ["Oslo", "tell/Oslo/4/Oslo/0", "Rome", "tell/Rome/4/Rome/1"]
    assert run.finish.status == "completed"


def test_the_loop_is_over_when_the_routes_are() -> None:
    run = run_text(text(), answered)
    assert ends(run) == [
        "tell step.done",
        "each loop.iteration.done",
        "tell step.done",
        "each loop.iteration.done",
        "each loop.done",
        "each step.done",
        "report step.done",
        "end step.done",
    ]
    started_ids = [
        event.meta["step_run_id"] for event in run.events if event.type == "step.started" and event.node == "tell"
    ]
    assert started_ids == ["each/1/0/tell#1", "each/1/1/tell#1"]


def test_steps_after_the_loop_see_what_the_last_item_left() -> None:
    run = run_text(text(), answered)
    assert run.calls[-1].config["result"] == f"2 {len('tell/Rome/4/Rome/1')}"


@pytest.mark.parametrize("pick", [0, -1])
def test_the_last_item_counts_whichever_ended_last(pick: int) -> None:
    steps = TELL.replace("http://x/tell/", "http://x/{{ 'long/' if iter.last else '' }}tell/") + REPORT
    run = run_text(text(steps=steps, mode="mode: parallel, max_in_flight: 2"), answered, pick=lambda _: pick)
    assert run.calls[-1].config["result"] == f"2 {len('long/tell/Rome/4/Rome/1')}"


def test_the_result_of_the_loop_is_that_of_its_own_calls() -> None:
    steps = TELL + '  - {step: report, tool: {kind: noop, result: "{{ each.results }}"}}\n'
    run = run_text(text(steps=steps), answered)
    assert [entry["data"] for entry in run.calls[-1].config["result"]] == [{"n": 4}, {"n": 4}]


def test_a_route_sees_the_result_of_its_item_by_the_name_of_the_loop() -> None:
    steps = '  - {step: tell, tool: {kind: noop, result: "{{ each.data.n }} {{ city }}"}}\n  - {step: report}\n'
    run = run_text(text(steps=steps), answered)
    assert [call.config["result"] for call in run.calls if call.step == "tell"] == ["4 Oslo", "4 Rome"]


def test_an_item_counts_as_in_flight_while_its_route_runs() -> None:
    graph = compile_or_raise(text(mode="mode: parallel, max_in_flight: 1"))
    machine, chunk = start_machines(graph)
    (oslo,) = calls_of(chunk)
    first = answer(chunk, oslo)
    assert [url(call) for call in first] == ["tell/Oslo/4/Oslo/0"]
    assert [url(call) for call in answer(chunk, first[0])] == ["Rome"]
    assert machine.state.phase == "running"


CHOICE = """\
      - when: "{{ event.name == 'call.done' and city == 'Oslo' }}"
        then: {next: tell}
      - when: "{{ event.name == 'call.done' and city == 'Bern' }}"
        then: {set: {seen: "{{ city }}"}}
      - when: "{{ event.name == 'call.done' }}"
        then: {next: [{step: tell}, {step: hot}]}
"""
HOT = """\
  - {step: tell, tool: {kind: http, url: "http://x/tell/{{ city }}"}}
  - {step: hot, tool: {kind: http, url: "http://x/hot/{{ city }}"}, next: warm}
  - {step: warm, tool: {kind: http, url: "http://x/warm/{{ city }}"}, next: end}
"""


def test_the_first_rule_that_matches_chooses_for_each_item() -> None:
    run = run_text(text(CHOICE, HOT), answered, {"cities": ["Oslo", "Rome", "Bern"]})
    assert called(run) == ["Oslo", "tell/Oslo", "Rome", "tell/Rome", "hot/Rome", "warm/Rome", "Bern"]
    routes = [event for event in run.events if event.type == "next.evaluated" and event.node == "each"]
    assert [event.meta["iteration"] for event in routes if "iteration" in event.meta] == [0, 1, 2]


def test_a_failure_on_the_route_is_the_items() -> None:
    over = OVER + "      - {when: \"{{ event.name == 'loop.failed' }}\", then: {next: cure}}\n"
    steps = TELL + REPORT + '  - {step: cure, tool: {kind: noop, result: "{{ each.stats.failed }}"}}\n'
    run = run_text(text(DONE + over, steps), failing("tell/Oslo/4/Oslo/0"))
    assert called(run) == ["Oslo", "tell/Oslo/4/Oslo/0", "Rome", "tell/Rome/4/Rome/1"]
    (failure,) = run.finish.failures.detailed
    assert (failure.step, failure.iteration, failure.kind) == ("tell", 0, "auth")
    assert run.finish.status == "failed"


def test_fail_fast_counts_failures_on_the_routes() -> None:
    run = run_text(text(mode="mode: sequential, on_error: fail_fast"), failing("tell/Oslo/4/Oslo/0"))
    assert called(run) == ["Oslo", "tell/Oslo/4/Oslo/0"]


ERROR = """\
      - when: "{{ event.name == 'call.error' }}"
        then: {next: [{step: log, args: {kind: "{{ error.kind }}"}}]}
"""
LOG = '  - {step: log, tool: {kind: http, url: "http://x/log/{{ kind }}/{{ city }}"}}\n'


def test_a_route_on_failure_handles_the_failure_of_its_item() -> None:
    run = run_text(text(DONE + ERROR + OVER, TELL + LOG + REPORT), failing("Oslo"))
    assert called(run) == ["Oslo", "log/auth/Oslo", "Rome", "tell/Rome/4/Rome/1"]
    assert run.finish.status == "completed"
    (done,) = run.of("loop.done")
    assert done.meta["stats"] == {"total": 2, "success": 2, "failed": 0, "skipped": 0}


def test_an_item_that_no_route_takes_fails_as_its_call_did() -> None:
    run = run_text(text(), failing("Oslo"))
    assert called(run) == ["Oslo", "Rome", "tell/Rome/4/Rome/1"]
    assert [failure.step for failure in run.finish.failures.detailed] == ["each"]
    assert run.finish.status == "failed"


def test_a_route_that_raises_fails_its_item() -> None:
    rules = DONE.replace("call.done' }}", "call.done' and city.none.there > 1 }}")
    run = run_text(text(rules.replace("city.none.there > 1", "1 // (city | length - 4)")), answered)
    assert run.finish.status == "failed"
    assert {failure.step for failure in run.finish.failures.detailed} == {"each"}


SHARED_STEPS = """\
  - {step: tell, tool: {kind: http, url: "http://x/tell/{{ city }}"}, next: report}
  - {step: report, tool: {kind: http, url: "http://x/report/{{ city | default('all') }}"}}
"""


def test_a_step_that_is_reached_from_both_runs_in_both() -> None:
    run = run_text(text(steps=SHARED_STEPS), answered)
    assert called(run) == ["Oslo", "tell/Oslo", "report/Oslo", "Rome", "tell/Rome", "report/Rome", "report/all"]
    assert run.finish.steps["report"]["attempts"] == 3


NESTED_LOOPS = """\
  - step: tell
    loop: {in: [1, 2], iterator: part}
    tool: {kind: http, url: "http://x/{{ city }}/{{ part }}"}
    case:
      - {when: "{{ event.name == 'call.done' }}", then: {next: deep}}
      - {when: "{{ event.name == 'loop.done' }}", then: {next: told}}
  - {step: deep, tool: {kind: http, url: "http://x/deep/{{ city }}/{{ part }}"}}
  - {step: told, tool: {kind: http, url: "http://x/told/{{ tell.results | length }}/{{ deep.data.n }}"}}
"""


def test_loops_on_a_route_have_routes_of_their_own() -> None:
    run = run_text(text(DONE, NESTED_LOOPS), answered, {"cities": ["Oslo"]})
    assert called(run) == ["Oslo", "Oslo/1", "deep/Oslo/1", "Oslo/2", "deep/Oslo/2", "told/2/11"]
    assert run.finish.status == "completed"


def test_an_item_sees_what_the_route_before_it_set() -> None:
    tell = '  - {step: tell, tool: {kind: noop, result: "{{ ctx.seen | default(0) }}"}, '
    steps = tell + 'vars: {seen: "{{ iter.index + 1 }}"}}\n'
    rules = "      - {when: \"{{ event.name == 'call.done' }}\", then: {next: tell}}\n"
    run = run_text(text(rules, steps + REPORT.replace("tell.n", "ctx.seen")), answered)
    assert [call.config["result"] for call in run.calls if call.step == "tell"] == [0, 1]


# ---- by hand ------------------------------------------------------------------------------------------------------


def start_machines(graph: Any) -> tuple[PlaybookMachine, LoopMachine]:
    machine = PlaybookMachine(graph, execution_id=1)
    (chunk,) = [command for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, RunChunk)]
    return machine, LoopMachine(chunk.input)


def calls_of(chunk: LoopMachine) -> list[ToolCall]:
    return [command.call for command in chunk.feed(Started(EPOCH_MS + 1)) if isinstance(command, CallTool)]


def answer(chunk: LoopMachine, call: ToolCall, **facts: Any) -> list[ToolCall]:
    fact = ToolFinished(EPOCH_MS + 2, call.id, report_of(answered(call)), **facts)
    return [command.call for command in chunk.feed(fact) if isinstance(command, CallTool)]


def test_a_route_continues_after_its_machine_is_restored() -> None:
    graph = compile_or_raise(text())
    _, chunk = start_machines(graph)
    (call,) = calls_of(chunk)
    (tell,) = answer(chunk, call)
    restored_loop = LoopMachine(chunk.input, chunk.snapshot())
    assert [url(call) for call in answer(restored_loop, tell)] == ["Rome"]
    assert restored_loop.state.succeeded == 1


def test_a_stop_ends_the_route_and_begins_none() -> None:
    graph = compile_or_raise(text(mode="mode: parallel"))
    _, chunk = start_machines(graph)
    first, second = calls_of(chunk)
    (tell,) = answer(chunk, first)
    cancelled_ids = [command.id for command in chunk.feed(CancelRequested(EPOCH_MS + 3)) if isinstance(command, Cancel)]
    assert sorted(cancelled_ids) == sorted([second.id, tell.id])
    assert not answer(chunk, second)
    last = chunk.feed(ToolFinished(EPOCH_MS + 4, tell.id, report_of(error("gone", kind="cancelled")), cancelled=True))
    assert any(isinstance(command, Finish) for command in last)
    assert chunk.report is not None
    assert (chunk.report.status, chunk.report.stats) == (
        "cancelled",
        {"total": 2, "success": 0, "failed": 0, "skipped": 2},
    )
    assert [command for command in last if isinstance(command, Emit)]
