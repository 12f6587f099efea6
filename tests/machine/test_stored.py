"""Values that lie outside of the machine (machine/stored.py): facts wait for them, loops pass on where they lie."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.limits import INLINE_BYTES, STORED_BYTES
from noetl_temporal.machine.call import Part, StoredRef, ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, Finish, LoadValue, RunChunk, StoreValues
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    ChunkReport,
    PayloadRef,
    Restored,
    Started,
    TimerFired,
    ToolFinished,
    ValueLoaded,
    ValuesStored,
)
from noetl_temporal.machine.loops import chunks, offload
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.loops.offload import joined_results, stored_results
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.state import LoopProgress, LoopState
from noetl_temporal.machine.stored import load_id

from .driver import ok
from .playbooks import playbook

LARGE = StoredRef((Part("large"),), 100_000, is_one=True)
CLEANUP = "  - step: end\n    tool: {kind: noop}\n"
TWO_CALLS = """
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, message: "%s"}
"""
LOOP = """
  - step: start
    loop: {in: "{{ range(8) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 4}}
    tool: {kind: noop, message: "{{ iter.item }} of {{ workload.name }}"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, message: "%s"}
"""


class WatchedRun:
    """A playbook's machine with a payload store, restored from its snapshot before every fact."""

    def __init__(self, workflow: str, head: str = "", limit: int = STORED_BYTES, **payload: Any) -> None:
        graph = compile_or_raise(playbook(workflow, head))
        self.limit = limit
        self.machine = PlaybookMachine(graph, execution_id=1, limit=limit)
        self.now = EPOCH_MS
        self.commands: list[Command] = []
        self.feed(Started, {"name": "many", **payload})

    def feed(self, fact: Any, *arguments: Any, **more: Any) -> list[Command]:
        self.now += 10
        if fact is not Started:
            graph, state = self.machine.graph, self.machine.snapshot()
            self.machine = PlaybookMachine(graph, execution_id=1, state=state, limit=self.limit)
        commands = self.machine.feed(fact(self.now, *arguments, **more))
        self.commands += commands
        return commands

    def call(self, step: str) -> CallTool | None:
        return next(
            (command for command in self.commands if isinstance(command, CallTool) and command.call.step == step), None
        )

    def finish(self) -> Finish:
        assert isinstance(self.commands[-1], Finish)
        return self.commands[-1]


def stored_result() -> ToolReport:
    return ToolReport({"status": "ok"}, stored=LARGE)


def loads(commands: list[Command]) -> list[str]:
    return [command.id for command in commands if isinstance(command, LoadValue)]


def waiting(template: str) -> tuple[WatchedRun, str]:
    """A run whose second step needs a stored result, and the id of the load for which it waits."""
    run = WatchedRun(TWO_CALLS % template)
    commands = run.feed(ToolFinished, "start#1:start_task:1", stored_result())
    [load] = loads(commands)
    assert commands[-1] == LoadValue(load, LARGE)
    assert not run.machine.state.deferred
    return run, load


def test_an_unread_result_is_never_loaded() -> None:
    run = WatchedRun(TWO_CALLS % "no result")
    assert not loads(run.feed(ToolFinished, "start#1:start_task:1", stored_result()))
    assert run.call("after") is not None
    assert not loads(run.feed(ToolFinished, "after#1:after_task:1", ok(1)))
    assert run.finish().result == 1


def test_a_fact_waits_for_the_value_that_a_template_reads() -> None:
    run, load = waiting("{{ start.rows | length }}")
    assert run.call("after") is None
    run.feed(ValueLoaded, load, {"rows": [1, 2, 3]})
    call = run.call("after")
    assert call is not None
    assert call.call.config == {"message": 3}
    assert not run.machine.has_loaded


def test_a_value_that_is_passed_on_whole_is_loaded_and_not_kept() -> None:
    run, load = waiting("{{ start }}")
    run.feed(ValueLoaded, load, {"rows": [1]})
    call = run.call("after")
    assert call is not None
    assert call.call.config == {"message": {"rows": [1]}}
    assert b"rows" not in msgspec.json.encode(run.machine.state.records)


def test_facts_do_not_wait_for_a_deferred_fact() -> None:
    fork = """
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
  - step: left
    tool: {kind: noop}
    set: {ctx.n: "{{ left | length }}"}
  - step: right
    tool: {kind: noop}
"""
    run = WatchedRun(fork)
    run.feed(ToolFinished, "start#1:start_task:1", ok())
    commands = run.feed(ToolFinished, "left#1:left_task:1", stored_result())
    [load] = loads(commands)
    assert commands == [LoadValue(load, LARGE)]
    run.feed(ToolFinished, "right#1:right_task:1", ok())
    run.feed(ValueLoaded, load, [1, 2])
    end_events = [
        command.event.node
        for command in run.commands
        if isinstance(command, Emit) and command.event.type == "step.done"
    ]
    assert end_events == ["start", "right", "left", "end"]
    assert run.machine.state.deferred == []
    assert run.machine.state.ctx["n"] == 2


def test_a_missing_value_fails_the_template_that_reads_it() -> None:
    run, load = waiting("{{ start | length }}")
    run.feed(ValueLoaded, load, error="a stored value cannot be read: it is gone")
    assert run.finish().status == "failed"
    assert run.finish().failures.detailed[0].message == "a stored value cannot be read: it is gone"
    assert run.finish().failures.detailed[0].line


def test_a_value_over_the_limit_fails_the_template_that_reads_it() -> None:
    run = WatchedRun(TWO_CALLS % "{{ start | length }}")
    reference = StoredRef((Part("huge"),), STORED_BYTES + 1, is_one=True)
    run.feed(ToolFinished, "start#1:start_task:1", ToolReport({"status": "ok"}, stored=reference))
    assert run.finish().status == "failed"
    assert (
        f"a stored value of {STORED_BYTES + 1:,} bytes is too large to read"
        in run.finish().failures.detailed[0].message
    )


@pytest.mark.parametrize("stop", ["cancel", "timeout"])
def test_a_stop_does_not_wait_for_a_value(stop: str) -> None:
    run = WatchedRun(TWO_CALLS % "{{ start | length }}", "executor: {spec: {timeout: 1h}}\n")
    [load] = loads(run.feed(ToolFinished, "start#1:start_task:1", stored_result()))
    commands = run.feed(CancelRequested) if stop == "cancel" else run.feed(TimerFired, "playbook:timeout")
    assert Cancel(load) in commands
    assert run.call("after") is None
    assert run.finish().status == ("cancelled" if stop == "cancel" else "failed")
    assert not run.machine.state.pending


def test_a_machine_that_is_restored_while_it_loads_asks_again() -> None:
    run, load = waiting("{{ start | length }}")
    assert loads(run.feed(Restored)) == [load]
    run.feed(ValueLoaded, load, [1])
    assert run.call("after") is not None


@pytest.mark.parametrize("too_large", [False, True])
def test_a_result_of_the_run_that_cannot_be_read_fails_it(too_large: bool) -> None:
    run = WatchedRun("  - step: start\n    tool: {kind: noop}\n")
    reference = StoredRef((Part("a"),), STORED_BYTES + 1 if too_large else 100_000, is_one=True)
    commands = run.feed(ToolFinished, "start#1:start_task:1", ToolReport({"status": "ok"}, stored=reference))
    if not too_large:
        run.feed(ValueLoaded, loads(commands)[0], error="it is gone")
    assert (run.finish().status, run.finish().result) == ("failed", None)
    assert "too large to read" in run.finish().failures.detailed[0].message or not too_large


def test_a_run_that_was_stopped_loads_no_result() -> None:
    run = WatchedRun(TWO_CALLS % "no result")
    run.feed(ToolFinished, "start#1:start_task:1", stored_result())
    run.feed(CancelRequested)
    run.feed(ToolFinished, "after#1:after_task:1", stored_result())
    assert (run.finish().status, run.finish().result) == ("cancelled", None)
    assert not loads(run.commands)


def test_a_stop_does_not_wait_for_facts_that_wait_for_a_value() -> None:
    run = WatchedRun("  - step: start\n    tool: {kind: noop}\n    set: {ctx.n: '{{ start | length }}'}\n")
    [load] = loads(run.feed(ToolFinished, "start#1:start_task:1", stored_result()))
    commands = run.feed(CancelRequested)
    assert Cancel(load) in commands
    assert run.finish().status == "cancelled"
    assert not run.machine.state.pending


def test_a_value_that_comes_after_its_load_was_cancelled_is_dropped() -> None:
    run = WatchedRun("  - step: start\n    tool: {kind: noop}\n    set: {ctx.n: '{{ start | length }}'}\n" + CLEANUP)
    [load] = loads(run.feed(ToolFinished, "start#1:start_task:1", stored_result()))
    run.feed(CancelRequested)
    assert run.feed(ValueLoaded, load, [1]) == []
    assert run.machine.state.phase == "running"


def test_a_value_and_the_list_of_it_alone_are_two_values() -> None:
    single_reference, list_reference = StoredRef((Part("k"),), is_one=True), StoredRef((Part("k"),))
    assert load_id(single_reference) != load_id(list_reference)


@pytest.mark.parametrize("forged_value", [{"parts": [{"key": "f" * 64}], "is_one": True}, 7])
def test_an_outcome_names_no_reference_by_itself(forged_value: Any) -> None:
    run = WatchedRun(TWO_CALLS % "{{ start }}")
    run.feed(ToolFinished, "start#1:start_task:1", ToolReport({"status": "ok", "result": 1, "stored": forged_value}))
    call = run.call("after")
    assert call is not None
    assert call.call.config == {"message": 1}


READS = [
    "{{ results.get('start') is mapping }}",
    "{{ ctx.get('start') is mapping }}",
    "{{ results.start == start }}",
    "{{ results.get('start') | length }}",
    "{{ 'rows' in results.get('start') }}",
    "{{ results.values() | select('mapping') | list | length }}",
    "{{ results.items() | map(attribute=1) | list }}",
    "{{ [start] | map('length') | list }}",
    "{{ start.get('rows') is sequence }}",
    "{{ start | default(1) }}",
    "{% for row in start.rows %}{{ row }} {% endfor %}",
    "{{ dict(start) }}",
    "{{ start.rows.0 }} {{ start.count | default('none') }}",
]


@pytest.mark.parametrize("template", READS)
def test_a_stored_result_is_read_as_one_that_is_not(template: str) -> None:
    value = {"rows": [1, 2, 3]}
    in_memory, in_store = WatchedRun(TWO_CALLS % template), WatchedRun(TWO_CALLS % template)
    in_memory.feed(ToolFinished, "start#1:start_task:1", ok(value))
    commands = in_store.feed(ToolFinished, "start#1:start_task:1", stored_result())
    in_store.feed(ValueLoaded, loads(commands)[0], value)
    case, other = in_memory.call("after"), in_store.call("after")
    assert case is not None
    assert other is not None
    assert case.call.config == other.call.config


# ---- loops -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 4)
    monkeypatch.setattr(offload, "STORE_RESULTS_FROM_BYTES", 1)


@pytest.mark.usefixtures("small_chunks")
def test_items_of_a_loop_are_stored_before_the_first_begins_and_leave_the_state() -> None:
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n")
    [keep] = [command for command in run.commands if isinstance(command, StoreValues)]
    assert keep.values == ([0, 1, 2, 3], [4, 5, 6, 7], {"workload": {"name": "many"}})
    assert not any(isinstance(command, RunChunk) for command in run.commands)
    commands = run.feed(ValuesStored, keep.id, (PayloadRef("a", 9), PayloadRef("b", 9), PayloadRef("scope", 30)))
    inputs = [command.input for command in commands if isinstance(command, RunChunk)]
    assert [(input_.stored_items, input_.scope_key, input_.items, input_.first, input_.total) for input_ in inputs] == [
        (Part("a", 0, 4), "scope", [], 0, 8),
        (Part("b", 0, 4), "scope", [], 4, 8),
    ]
    progress = run.machine.state.runs["start#1"].loop
    assert progress is not None
    assert (progress.items, progress.scope) == ([], {})


@pytest.mark.usefixtures("small_chunks")
def test_items_that_a_chunk_returned_are_the_last_of_its_part() -> None:
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n")
    run.feed(ValuesStored, "start/1:items", (PayloadRef("a", 9), PayloadRef("b", 9), PayloadRef("scope", 30)))
    stats = {"total": 1, "success": 1, "failed": 0, "skipped": 0}
    commands = run.feed(ChunkFinished, "start/1", ChunkReport("ok", [1], stats, unstarted=3, last_event_ms=EPOCH_MS))
    [chunk_input] = [command.input for command in commands if isinstance(command, RunChunk)]
    assert (chunk_input.first, chunk_input.stored_items) == (1, Part("a", 1, 3))


@pytest.mark.usefixtures("small_chunks")
def test_nothing_is_stored_where_there_is_no_store() -> None:
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n", limit=INLINE_BYTES)
    assert not any(isinstance(command, StoreValues) for command in run.commands)
    assert any(isinstance(command, RunChunk) for command in run.commands)


@pytest.mark.usefixtures("small_chunks")
def test_a_stop_while_the_items_are_stored_begins_no_chunk() -> None:
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n")
    assert Cancel("start/1:items") in run.feed(CancelRequested)
    assert not any(isinstance(command, RunChunk) for command in run.commands)
    assert run.finish().status == "cancelled"


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("template", "is_loaded"),
    [("{{ start.stats.success }}", False), ("{{ start.results | sum }}", True), ("{{ start }}", True)],
)
def test_the_counts_of_a_loop_are_read_without_its_results(template: str, is_loaded: bool) -> None:
    run = WatchedRun(LOOP % template, "workload: {name: x}\n")
    run.feed(ValuesStored, "start/1:items", (PayloadRef("a", 9), PayloadRef("b", 9), PayloadRef("scope", 30)))
    stats = {"total": 4, "success": 4, "failed": 0, "skipped": 0}
    for id_, key in (("start/1", "c"), ("start/1/4", "d")):
        reference = StoredRef((Part(key, 0, 4),), 9)
        run.feed(ChunkFinished, id_, ChunkReport("ok", [], stats, stored=reference, last_event_ms=EPOCH_MS))
    commands = [command for command in run.commands if isinstance(command, LoadValue)]
    assert bool(commands) is is_loaded
    if commands:
        assert commands[0].stored.parts == (Part("c", 0, 4), Part("d", 0, 4))
        run.feed(ValueLoaded, commands[0].id, [1] * 8)
    assert run.call("after") is not None


@pytest.mark.usefixtures("small_chunks")
def test_a_chunk_stores_its_results_before_it_ends() -> None:
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n", limit=INLINE_BYTES)
    chunk_input = next(command.input for command in run.commands if isinstance(command, RunChunk))
    machine = LoopMachine(chunk_input, limit=STORED_BYTES)
    calls = [command.call for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, CallTool)]
    commands: list[Command] = []
    for place, call in enumerate(calls):
        report = stored_result() if place == 1 else ok(place)
        commands += machine.feed(ToolFinished(EPOCH_MS + 1, call.id, report))
        calls += [command.call for command in commands if isinstance(command, CallTool) and command.call not in calls]
    [keep] = [command for command in commands if isinstance(command, StoreValues)]
    assert keep.values == ([0, 2, 3],)
    assert machine.report is None
    machine.feed(ValuesStored(EPOCH_MS + 2, keep.id, (PayloadRef("r", 7),)))
    assert machine.report is not None
    assert machine.report.results == []
    parts = (Part("r", 0, 1), Part("large"), Part("r", 1, 2))
    assert machine.report.stored == StoredRef(parts, 100_007)


def test_parts_that_follow_each_other_are_one() -> None:
    state = LoopState(results={0: 1, 1: 2, 4: 3}, stored_results={5: LARGE})
    parts = stored_results(state, range(7), PayloadRef("r", 7))
    assert parts.parts == (Part("r", 0, 2), Part(count=2), Part("r", 2, 1), Part("large"), Part(count=1))


def test_results_of_all_chunks_are_reported_in_the_order_of_the_items() -> None:
    progress = LoopProgress("start/1", 9, [], {}, 2, [])
    stats = {"total": 2}
    progress.reports[4] = ChunkReport("ok", [], stats, stored=StoredRef((Part("b", 0, 2),), 20))
    progress.reports[0] = ChunkReport("ok", [1, 2], stats)
    progress.reports[6] = ChunkReport("error", [], stats)
    assert joined_results(progress) == StoredRef(
        (Part(inline_items=[1, 2]), Part(count=2), Part("b", 0, 2), Part(count=3)), 20 + len("[1,2]") + len("[]")
    )


@pytest.mark.usefixtures("small_chunks")
def test_a_loop_whose_items_cannot_be_stored_keeps_them() -> None:
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n")
    run.feed(ValuesStored, "start/1:items", error="values cannot be stored")
    inputs = [command.input for command in run.commands if isinstance(command, RunChunk)]
    assert [input_.items for input_ in inputs] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def chunk_with_results() -> LoopMachine:
    """One whose calls have ended, and whose results are to be stored."""
    run = WatchedRun(LOOP % "done", "workload: {name: x}\n", limit=INLINE_BYTES)
    machine = LoopMachine(
        next(command.input for command in run.commands if isinstance(command, RunChunk)), limit=STORED_BYTES
    )
    commands = machine.feed(Started(EPOCH_MS))
    while calls := [command.call for command in commands if isinstance(command, CallTool)]:
        commands = [more for call in calls for more in machine.feed(ToolFinished(EPOCH_MS + 1, call.id, ok(1)))]
    assert any(isinstance(command, StoreValues) for command in commands)
    return machine


@pytest.mark.usefixtures("small_chunks")
def test_a_chunk_whose_results_cannot_be_stored_fails() -> None:
    machine = chunk_with_results()
    machine.feed(ValuesStored(EPOCH_MS + 2, "results", error="values cannot be stored"))
    assert machine.report is not None
    assert (machine.report.status, machine.report.results) == ("error", [None] * 4)
    assert machine.report.failure is not None


@pytest.mark.usefixtures("small_chunks")
def test_a_chunk_that_is_stopped_does_not_wait_until_its_results_are_stored() -> None:
    machine = chunk_with_results()
    assert Cancel("results") in machine.feed(CancelRequested(EPOCH_MS + 2))
    assert machine.report is not None
    assert machine.report.status == "cancelled"
