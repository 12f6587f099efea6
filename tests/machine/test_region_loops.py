"""Loops over several steps: an iteration runs the steps of its region (dev/decisions/0010, 0054)."""

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

from .driver import error, ok, report_of, run_text

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workload: {cities: [Oslo, Rome]}
workflow:
- step: each
  loop: {in: "{{ workload.cities }}", iterator: city, spec: {LOOP}}
  next: {arcs: [{step: measure}]}
"""
END = """\
- step: done
  spec: {end_loop: each}
  next: {arcs: [{step: repair, when: "{{ event.name == 'loop.failed' }}"}, {step: report}]}
- {step: repair, tool: {kind: noop, result: "repaired {{ each.stats.failed }}"}}
- {step: report, tool: {kind: noop, result: "{{ each.results }}"}}
"""
MEASURE = '- {step: measure, tool: {kind: http, url: "http://x/{{ city }}"}, next: {arcs: [{step: done}]}}\n'
BRANCHES = """\
- step: measure
  tool: {kind: http, url: "http://x/{{ city }}"}
  next: {spec: {mode: inclusive}, arcs: [{step: hot, when: "{{ iter.first }}"}, {step: tell}, {step: done}]}
- {step: hot, tool: {kind: http, url: "http://x/hot/{{ city }}"}, next: {arcs: [{step: done}]}}
- {step: tell, tool: {kind: http, url: "http://x/tell/{{ measure.n }}"}, next: {arcs: [{step: done}]}}
"""
NESTED_LOOPS = """\
- step: measure
  loop: {in: [1, 2], iterator: part}
  next: {arcs: [{step: inner}]}
- {step: inner, tool: {kind: http, url: "http://x/{{ city }}/{{ part }}"}, next: {arcs: [{step: measured}]}}
- {step: measured, spec: {end_loop: measure}, next: {arcs: [{step: last}]}}
- {step: last, tool: {kind: http, url: "http://x/last/{{ measure.results | length }}"}, next: {arcs: [{step: done}]}}
"""


def text(region: str, loop: str = "mode: sequential", end: str = END) -> str:
    return HEAD.replace("LOOP", loop) + region + end


def url(call: ToolCall) -> str:
    return str(call.config.get("url", "")).removeprefix("http://x/")


def answer_call(call: ToolCall) -> Any:
    return ok({"n": len(url(call))}) if call.kind == "http" else ok(call.config.get("result"))


def calls_of(run: Any) -> list[str]:
    return [url(call) for call in run.calls if call.kind == "http"]


def test_an_iteration_runs_the_steps_of_its_region() -> None:
    run = run_text(text(MEASURE), answer_call)
    assert calls_of(run) == ["Oslo", "Rome"]
    assert run.finish.status == "completed"
    ended_iterations = [event for event in run.events if event.type == "loop.iteration.done"]
    assert [event.meta["iteration"] for event in ended_iterations] == [0, 1]
    assert [set(event.result) for event in ended_iterations] == [{"measure"}, {"measure"}], (
        "results of steps, and nothing else"
    )
    start_events = [event for event in run.events if event.type == "step.started" and event.node == "measure"]
    assert [event.meta["step_run_id"] for event in start_events] == ["each/1/0/measure#1", "each/1/1/measure#1"]
    assert [event.meta["iteration_id"] for event in start_events] == ["each/1/0", "each/1/1"]


@pytest.mark.parametrize("loop", ["mode: sequential", "mode: parallel, max_in_flight: 2"])
@pytest.mark.parametrize("pick", [0, -1])
def test_several_steps_lead_to_one_end_that_runs_once(loop: str, pick: int) -> None:
    run = run_text(text(BRANCHES, loop), answer_call, pick=lambda count: pick % count)
    assert sorted(calls_of(run)) == ["Oslo", "Rome", "hot/Oslo", "tell/4", "tell/4"]
    started_steps = [event.node for event in run.events if event.type == "step.started"]
    assert (started_steps.count("done"), started_steps.count("done/arrival")) == (1, 5)
    assert started_steps.index("done") > max(n for n, name in enumerate(started_steps) if name == "done/arrival")


def test_steps_see_their_own_iteration() -> None:
    region = """\
- {step: measure, set: {iter.seen: "{{ city }}"}, tool: {kind: noop, result: 1}, next: {arcs: [{step: second}]}}
- step: second
  tool: {kind: http, url: "http://x/{{ iter.seen }}-{{ iter.index }}-{{ city }}-{{ results.measure }}"}
  set: {ctx.last: "{{ city }}"}
  next: {arcs: [{step: done}]}
"""
    run = run_text(text(region, "mode: parallel"), lambda call: ok(1))
    assert sorted(calls_of(run)) == ["Oslo-0-Oslo-1", "Rome-1-Rome-1"]


def test_loops_nest() -> None:
    run = run_text(text(NESTED_LOOPS, "mode: parallel"), answer_call)
    assert sorted(calls_of(run)) == ["Oslo/1", "Oslo/2", "Rome/1", "Rome/2", "last/2", "last/2"]
    keys = [call.key for call in run.calls]
    assert len(set(keys)) == len(keys)
    assert run.finish.status == "completed"


def test_a_loop_in_a_loop_sees_the_iteration_around_it_as_its_parent() -> None:
    region = NESTED_LOOPS.replace(
        "{{ city }}/{{ part }}", "{{ iter.parent.city }}-{{ iter.parent.index }}/{{ iter.part }}"
    )
    run = run_text(text(region), answer_call)
    assert calls_of(run) == ["Oslo-0/1", "Oslo-0/2", "last/2", "Rome-1/1", "Rome-1/2", "last/2"]


def test_the_items_of_a_loop_in_a_loop_are_selected_by_the_iteration_around_it() -> None:
    region = NESTED_LOOPS.replace("iterator: part}", "iterator: part, where: '{{ iter.part > iter.parent.index }}'}")
    assert calls_of(run_text(text(region), answer_call)) == ["Oslo/1", "Oslo/2", "last/2", "Rome/2", "last/1"]


def test_the_innermost_of_three_loops_sees_both_iterations_around_it() -> None:
    region = """\
- {step: measure, loop: {in: [1, 2], iterator: part}, next: {arcs: [{step: inner}]}}
- step: inner
  loop: {in: [x], iterator: name}
  tool: {kind: http, url: "http://x/{{ iter.parent.parent.city }}/{{ iter.parent.part }}/{{ iter.name }}"}
  next: {arcs: [{step: measured}]}
- {step: measured, spec: {end_loop: measure}, next: {arcs: [{step: done}]}}
"""
    assert calls_of(run_text(text(region), answer_call)) == ["Oslo/1/x", "Oslo/2/x", "Rome/1/x", "Rome/2/x"]


def test_the_end_decides_on_failed_iterations() -> None:
    def answer(call: ToolCall) -> Any:
        return error("server_error", "broken") if url(call) == "Rome" else answer_call(call)

    handled_run = run_text(text(MEASURE), answer)
    assert handled_run.finish.status == "completed"
    assert "repair" in [event.node for event in handled_run.events if event.type == "step.started"]
    assert [failure.handled for failure in handled_run.finish.failures.detailed] == [True]
    failed = run_text(text(MEASURE, end="- {step: done, spec: {end_loop: each}}\n"), answer)
    assert failed.finish.status == "failed"
    [cause] = failed.finish.failures.detailed
    assert (cause.step, cause.iteration, cause.handled) == ("measure", 1, False)


def test_the_summary_reports_the_steps_inside() -> None:
    def answer(call: ToolCall) -> Any:
        return error("server_error", "broken") if url(call) == "Rome/1" else answer_call(call)

    steps = run_text(text(NESTED_LOOPS), answer).finish.steps
    states = {name: (entry["status"], entry["attempts"]) for name, entry in steps.items()}
    assert states == {
        "each": ("failed", 0),
        "measure": ("failed", 0),
        "inner": ("failed", 4),
        "measured": ("failed", 0),
        "last": ("completed", 1),
        "done": ("failed", 0),
        "repair": ("completed", 1),
    }


def test_a_failure_that_its_iteration_handles_does_not_count() -> None:
    region = """\
- step: measure
  tool: {kind: http, url: "http://x/{{ city }}"}
  next: {arcs: [{step: cure, when: "{{ event.name == 'step.failed' }}"}, {step: done}]}
- {step: cure, tool: {kind: noop, result: 1}, next: {arcs: [{step: done}]}}
"""
    run = run_text(
        text(region), lambda call: error("server_error", "broken") if call.kind == "http" else answer_call(call)
    )
    assert run.finish.status == "completed"
    assert run.finish.failures.total == 0


def test_sequential_iterations_see_what_the_one_before_set() -> None:
    region = """\
- step: measure
  tool: {kind: http, url: "http://x/{{ ctx.count | default(0) }}"}
  set: {ctx.count: "{{ (ctx.count | default(0)) + 1 }}"}
  next: {arcs: [{step: done}]}
"""
    assert calls_of(run_text(text(region), answer_call)) == ["0", "1"]


def chunk(region: str, loop: str) -> LoopMachine:
    machine = PlaybookMachine(compile_or_raise(text(region, loop)), execution_id=7)
    [chunk_input] = [command.input for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, RunChunk)]
    return LoopMachine(chunk_input)


def test_a_cancel_begins_no_step_of_a_region() -> None:
    machine = chunk(NESTED_LOOPS, "mode: parallel")
    calls = [command.call.id for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, CallTool)]
    assert len(calls) == 2
    commands = machine.feed(CancelRequested(EPOCH_MS + 1))
    assert [command.id for command in commands if isinstance(command, Cancel)] == calls
    for id_ in calls:
        commands = machine.feed(ToolFinished(EPOCH_MS + 2, id_, report_of(ok(1))))
        assert not any(isinstance(command, CallTool) for command in commands)
    assert isinstance(commands[-1], Finish)
    assert machine.report is not None
    assert machine.report.status == "cancelled"
    assert machine.report.stats == {"total": 2, "success": 0, "failed": 0, "skipped": 2}


def test_fail_fast_cancels_the_other_iterations() -> None:
    machine = chunk(BRANCHES, "mode: parallel, on_error: fail_fast")
    first, second = (command.call.id for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, CallTool))
    commands = machine.feed(ToolFinished(EPOCH_MS + 1, first, report_of(error("server_error", "broken"))))
    assert [command.id for command in commands if isinstance(command, Cancel)] == [second]
    machine.feed(ToolFinished(EPOCH_MS + 2, second, report_of(error("cancelled", "cancelled")), cancelled=True))
    assert machine.report is not None
    assert machine.report.stats == {"total": 2, "success": 0, "failed": 1, "skipped": 1}


def test_a_chunk_continues_from_its_snapshot() -> None:
    """Every fact goes to a machine that was restored from the snapshot of the one before."""
    machine = chunk(NESTED_LOOPS, "mode: parallel")
    waiting = [command.call.id for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, CallTool)]
    events: list[str] = []
    while machine.report is None:
        snapshot: Any = machine.snapshot()
        assert all("pending" not in run["region"] for run in snapshot["runs"].values())
        machine = LoopMachine(machine.input, snapshot)
        commands = machine.feed(ToolFinished(EPOCH_MS + 9, waiting.pop(0), report_of(ok({"n": 1}))))
        events += [command.event.type for command in commands if isinstance(command, Emit)]
        waiting += [command.call.id for command in commands if isinstance(command, CallTool)]
    assert machine.report.stats == {"total": 2, "success": 2, "failed": 0, "skipped": 0}
    assert events.count("loop.iteration.done") == 6
