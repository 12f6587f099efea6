"""Loads of stored values overlap (machine/loads.py): only what needs a value waits, within a bound of bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.limits import STORED_BYTES
from noetl_temporal.machine import budget
from noetl_temporal.machine.call import Part, StoredRef, ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, Finish, LoadValue, RunChunk
from noetl_temporal.machine.facts import (
    CancelRequested,
    Continued,
    Fact,
    IdleRequested,
    Restored,
    Started,
    TimerFired,
    ToolFinished,
    ValueLoaded,
)
from noetl_temporal.machine.loads import LOADS_BYTES
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.state import LoopState
from noetl_temporal.machine.stored import load_id

from .driver import error, ok
from .playbooks import playbook, step

SECOND_READS = """
      - first: {kind: noop}
      - second: {kind: noop, input: {n: "{{ first | length }}"}}
"""
END_READS = """
      - first: {kind: noop, set: {iter.n: "{{ first | length }}"}}
      - second: {kind: noop, input: {n: "{{ iter.n }}"}}
"""
READS = pytest.mark.parametrize("tasks", [SECOND_READS, END_READS], ids=["a call", "a fact"])


class Items:
    """The machine of a loop of which every item's first task ends with a stored result."""

    def __init__(self, tasks: str, items: int = 4, spec: str = "max_in_flight: 50", bytes_each: int = 100_000) -> None:
        loop = f"loop: {{in: '{{{{ range({items}) | list }}}}', iterator: item, spec: {{mode: parallel, {spec}}}}}"
        graph = compile_or_raise(playbook(f"  - step: start\n    {loop}\n    tool: {tasks}"))
        commands = PlaybookMachine(graph, execution_id=1).feed(Started(EPOCH_MS))
        self.chunk_input = next(command.input for command in commands if isinstance(command, RunChunk))
        self.machine = LoopMachine(self.chunk_input, limit=STORED_BYTES)
        self.refs = [StoredRef((Part(f"key {n}"),), bytes_each, is_one=True) for n in range(items)]
        self.loads = [load_id(ref) for ref in self.refs]
        self.now = EPOCH_MS
        self.commands: list[Command] = []
        self.feed(Started)

    def feed(self, fact: Any, *arguments: Any, **more: Any) -> list[Command]:
        self.now += 10
        commands = self.machine.feed(fact(self.now, *arguments, **more))
        self.commands += commands
        return commands

    def first_ended(self, item: int) -> list[Command]:
        report = ToolReport({"status": "ok"}, stored=self.refs[item])
        return self.feed(ToolFinished, self.call("first", item), report)

    def all_first_ended(self) -> list[str]:
        return [load for item in range(len(self.refs)) for load in requested_loads(self.first_ended(item))]

    def load_item(self, item: int) -> list[Command]:
        return self.feed(ValueLoaded, self.loads[item], [item] * 7)

    def call(self, task: str, item: int) -> str:
        calls = [command.call for command in self.commands if isinstance(command, CallTool)]
        return next(call.id for call in calls if call.iteration == item and call.task == task)

    def resume(self) -> list[Command]:
        """In a new run, from the snapshot."""
        self.machine = LoopMachine(self.chunk_input, self.machine.snapshot(), limit=STORED_BYTES)
        return self.feed(Restored)


def requested_loads(commands: list[Command]) -> list[str]:
    return [command.id for command in commands if isinstance(command, LoadValue)]


def cancelled_loads(commands: list[Command]) -> list[str]:
    return [command.id for command in commands if isinstance(command, Cancel) and command.id.startswith("load:")]


def second_calls(commands: list[Command]) -> list[tuple[int | None, Any]]:
    calls = [command.call for command in commands if isinstance(command, CallTool) and command.call.task == "second"]
    return [(call.iteration, call.input["n"]) for call in calls]


@READS
def test_loads_of_items_overlap_and_each_continues_with_its_own(tasks: str) -> None:
    run = Items(tasks)
    assert run.all_first_ended() == run.loads
    assert second_calls(run.commands) == []
    for item in (2, 0, 3, 1):
        assert second_calls(run.load_item(item)) == [(item, 7)]
        assert not run.machine.has_loaded
    for item in range(4):
        run.feed(ToolFinished, run.call("second", item), ok(item))
    assert run.machine.report is not None
    assert run.machine.report.results == [0, 1, 2, 3]
    assert requested_loads(run.commands) == run.loads


@READS
def test_items_that_need_no_value_do_not_wait_for_those_that_do(tasks: str) -> None:
    run = Items(tasks)
    run.first_ended(0)
    commands = run.feed(ToolFinished, run.call("first", 1), ok([1]))
    assert second_calls(commands) == [(1, 1)]


@READS
def test_the_bytes_of_loads_are_bounded_and_the_next_follow(tasks: str) -> None:
    run = Items(tasks, bytes_each=LOADS_BYTES // 2)
    assert run.all_first_ended() == run.loads[:2]
    assert requested_loads(run.load_item(1)) == [run.loads[2]]
    assert requested_loads(run.load_item(0)) == [run.loads[3]]
    run.load_item(3)
    run.load_item(2)
    assert [item for item, _ in second_calls(run.commands)] == [1, 0, 3, 2]


@READS
def test_a_value_larger_than_the_bound_is_loaded_alone(tasks: str) -> None:
    run = Items(tasks, items=2, bytes_each=LOADS_BYTES + 1)
    assert run.all_first_ended() == run.loads[:1]
    assert requested_loads(run.load_item(0)) == run.loads[1:]
    assert second_calls(run.load_item(1)) == [(1, 7)]


@READS
def test_a_stop_cancels_all_loads(tasks: str) -> None:
    run = Items(tasks)
    run.all_first_ended()
    commands = run.feed(CancelRequested)
    assert cancelled_loads(commands) == run.loads
    assert isinstance(commands[-1], Finish)
    assert second_calls(run.commands) == []
    assert run.machine.report is not None
    assert run.machine.report.status == "cancelled"


@READS
def test_an_item_that_fails_fast_ends_those_that_wait(tasks: str) -> None:
    run = Items(tasks, spec="max_in_flight: 50, on_error: fail_fast")
    for item in (0, 1, 2):
        run.first_ended(item)
    commands = run.feed(ToolFinished, run.call("first", 3), error())
    assert cancelled_loads(commands) == run.loads[:3]
    assert isinstance(commands[-1], Finish)


@READS
def test_the_same_value_is_loaded_once_for_all_who_wait(tasks: str) -> None:
    run = Items(tasks, items=2)
    run.refs[1], run.loads[1] = run.refs[0], run.loads[0]
    assert run.all_first_ended() == run.loads[:1]
    assert second_calls(run.load_item(0)) == [(0, 7), (1, 7)]


@READS
def test_a_restored_machine_loads_again_what_it_waits_for(tasks: str) -> None:
    run = Items(tasks, bytes_each=LOADS_BYTES // 3)
    run.all_first_ended()
    run.load_item(0)
    assert requested_loads(run.resume()) == run.loads[1:]
    run.load_item(3)
    run.load_item(1)
    assert second_calls(run.load_item(2)) == [(2, 7)]


BOTH_READ = """
      - first: {kind: noop}
      - other: {kind: noop}
      - second: {kind: noop, input: {n: "{{ first | length + other | length }}"}}
"""


def test_values_that_are_read_together_are_kept_until_all_are_there_and_in_no_snapshot() -> None:
    run = Items(BOTH_READ, items=2)
    run.all_first_ended()
    other = StoredRef((Part("other"),), 100_000, is_one=True)
    assert requested_loads(
        run.feed(ToolFinished, run.call("other", 0), ToolReport({"status": "ok"}, stored=other))
    ) == [run.loads[0]]
    assert requested_loads(run.load_item(0)) == [load_id(other)]
    snapshot = run.machine.snapshot()
    assert isinstance(snapshot, dict)
    assert "loaded" not in snapshot
    assert "loaded" not in LoopState.__struct_fields__
    assert sorted(requested_loads(run.resume())) == sorted([run.loads[0], load_id(other)])
    assert second_calls(run.load_item(0)) == []
    assert second_calls(run.feed(ValueLoaded, load_id(other), [1] * 5)) == [(0, 12)]


def test_a_value_that_comes_while_the_machine_holds_is_not_loaded_again() -> None:
    run = Items(SECOND_READS, items=1)
    run.all_first_ended()
    run.feed(IdleRequested)
    assert run.load_item(0) == []
    commands = run.feed(Continued)
    assert (second_calls(commands), requested_loads(commands)) == ([(0, 7)], [])


WAITING_STEP = (
    step("start", "slow", "after", mode="inclusive")
    + "  - step: slow\n    tool: {kind: noop}\n"
    + "  - step: after\n    spec: {timeout: 10s}\n    tool: {kind: noop, input: {n: '{{ start | length }}'}}\n"
)


def test_a_step_that_times_out_while_it_waits_for_a_value_ends() -> None:
    machine = PlaybookMachine(compile_or_raise(playbook(WAITING_STEP)), execution_id=1, limit=STORED_BYTES)
    machine.feed(Started(EPOCH_MS))
    ref = StoredRef((Part("large"),), 100_000, is_one=True)
    commands = machine.feed(
        ToolFinished(EPOCH_MS + 1, "start#1:start_task:1", ToolReport({"status": "ok"}, stored=ref))
    )
    assert [command.call.step for command in commands if isinstance(command, CallTool)] == ["slow"]
    assert requested_loads(commands) == [load_id(ref)]
    commands = machine.feed(TimerFired(EPOCH_MS + 10_000, "after#1:timeout"))
    assert Cancel(load_id(ref)) in commands
    ended_types = [
        command.event.node for command in commands if isinstance(command, Emit) and command.event.type == "step.failed"
    ]
    assert ended_types == ["after"]
    assert machine.is_loading is False


def test_arrivals_keep_their_values_until_the_budget_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 9
    monkeypatch.setattr(budget, "MAX_WORK", budget.FACT_WORK)
    total = " + ".join(f"(s{index} | length)" for index in range(count))
    admit = f"spec: {{policy: {{admit: {{rules: [{{when: '{{{{ {total} > 0 }}}}', then: {{allow: true}}}}]}}}}}}"
    steps = [step(f"s{index}", f"s{index + 1}") for index in range(count)]
    last = f"  - step: s{count}\n    {admit}\n    tool: {{kind: noop}}\n"
    machine = PlaybookMachine(compile_or_raise(playbook("".join(steps) + last)), execution_id=1, limit=STORED_BYTES)
    now, facts, loads = EPOCH_MS, list[Callable[[int], Fact]]([Started]), 0
    while (facts or machine.has_work) and loads <= count + 1:
        now += 1
        # Nothing renews the budget but Continued: each load comes when it is spent already.
        for command in machine.feed(facts.pop(0)(now) if facts else Continued(now)):
            match command:
                case CallTool(call):
                    report = ToolReport({"status": "ok"}, stored=StoredRef((Part(call.id),), 100, is_one=True))
                    facts.append(partial(ToolFinished, call_id=call.id, report=report))
                case LoadValue(id_):
                    loads += 1
                    facts.append(partial(ValueLoaded, load_id=id_, value=[1]))
                case _:
                    pass
    assert (machine.state.phase, loads) == ("ended", count + 1)  # the last for the result of the run
