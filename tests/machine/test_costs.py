"""What a fact costs, in counts that are alike on every machine: calls of functions, scopes, encodings."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine import engine, journal, names
from noetl_temporal.machine.commands import CallTool, Command, Emit, RunChunk
from noetl_temporal.machine.facts import Continued, Fact, Started, ToolFinished
from noetl_temporal.machine.holding import Holding
from noetl_temporal.machine.loops import host
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.regions.machine import RegionMachine

from .driver import error, ok, run_text
from .paired import Pair
from .playbooks import playbook, step

ITEMS = 30


def loop(items: int, tool: str = "{kind: noop}") -> str:
    return playbook(
        f"  - step: each\n    loop: {{in: '{{{{ workload.items }}}}', iterator: item, "
        f"spec: {{mode: parallel, max_in_flight: 10}}}}\n    tool: {tool}\n",
        f"workload: {{items: {list(range(items))}}}\n",
    )


def sequence(count: int) -> str:
    return playbook("".join(step(f"s{at}", f"s{at + 1}") for at in range(count)) + step(f"s{count}"))


def fan(count: int) -> str:
    names_ = [f"b{number}" for number in range(count)]
    return playbook(step("start", *names_, mode="inclusive") + "".join(step(name, "join") for name in names_) + JOIN)


JOIN = step("join")

HELD_ITEMS = """\
  - step: start
    loop: {in: "{{ range(30) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 30}}
    next: {arcs: [{step: load}]}
  - step: load
    on_failure: {do: hold, for: 2h}
    spec: {timeout: 1h}
    tool: {kind: noop, message: "{{ n }}"}
    next: {arcs: [{step: met}]}
  - {step: met, spec: {end_loop: start}}
"""


def count_calls(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> list[Any]:
    """Notes each call of a function from here on."""
    calls: list[Any] = []
    real = getattr(place, name)

    def call_and_count(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(place, name, call_and_count)
    return calls


def test_names_of_an_iteration_are_made_once_and_only_for_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, host, "_iteration_names")
    run_text(loop(ITEMS), lambda call: call.iteration)
    assert calls == []
    tool = "{kind: noop, result: '{{ iter.item }}', input: {n: '{{ item }}', i: '{{ loop.index }}'}}"
    assert run_text(loop(ITEMS, tool), lambda call: call.iteration).finish.status == "completed"
    assert len(calls) == ITEMS


def test_names_of_a_playbook_are_not_made_for_steps_without_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, names, "_reserved_names")
    run_text(sequence(5), lambda _: None)
    assert calls == []


def test_a_pipeline_is_made_once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, engine, "Pipeline")
    run_text(loop(ITEMS), lambda _: None)
    assert len(calls) == ITEMS


def test_a_fact_advances_only_the_iterations_that_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settling copies the whole iteration, if the run has stored values."""
    calls = count_calls(monkeypatch, RegionMachine, "start_ready_work")
    steps = (
        f"  - step: start\n    loop: {{in: '{{{{ range({ITEMS}) | list }}}}', iterator: item, "
        f"spec: {{mode: parallel, max_in_flight: {ITEMS}}}}}\n    next: {{arcs: [{{step: load}}]}}\n"
        "  - {step: load, tool: {kind: noop}, next: {arcs: [{step: met}]}}\n"
        "  - {step: met, tool: {kind: noop}, spec: {end_loop: start}}\n"
    )
    run_text(playbook(steps), lambda call: ok())
    assert ITEMS <= len(calls) <= 6 * ITEMS


def test_decisions_about_many_held_items_look_at_each_item_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(HELD_ITEMS)
    for item in range(ITEMS):
        pair.ends("load", error(), iteration=item)
    while pair.up:
        pair.deliver_up()
    pair.retry_all()
    calls = count_calls(monkeypatch, Holding, "_runs_with_holds")
    pair.deliver_down()
    assert len(pair.calls) == ITEMS
    assert len(calls) <= 2 * ITEMS


def test_holds_without_deadlines_look_at_no_other_item(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(HELD_ITEMS.replace("    spec: {timeout: 1h}\n", ""))
    calls = count_calls(monkeypatch, Holding, "_runs_with_holds")
    for item in range(ITEMS):
        pair.ends("load", error(), iteration=item)
    assert len(pair.child.state.waits if pair.child else ()) == ITEMS
    assert calls == []


def test_every_event_and_call_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, journal, "_encode")
    run_ = run_text(loop(ITEMS), lambda _: None)
    loops = 1
    assert len(calls) == len(run_.events) + len(run_.calls) + loops


def test_a_command_reports_how_large_it_is() -> None:
    commands = PlaybookMachine(compile_or_raise(sequence(1)), execution_id=1).feed(Started(EPOCH_MS))
    calls = [command for command in commands if isinstance(command, CallTool)]
    events = [command for command in commands if isinstance(command, Emit)]
    encode = journal._encode  # pyright: ignore[reportPrivateUsage]
    assert [call.size for call in calls] == [len(encode(call.call)) for call in calls]
    assert [event.size for event in events] == [len(encode(event.event)) for event in events]


class Counting:
    """Feeds a machine, and counts the functions that each fact calls."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self._now = EPOCH_MS

    def feed(self, machine: PlaybookMachine | LoopMachine, fact: Callable[[int], Fact]) -> list[Command]:
        self._now += 1
        count = 0

        def profile(_frame: Any, event: str, _arg: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        event = fact(self._now)
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            return machine.feed(event)
        finally:
            sys.setprofile(before)
            self.calls.append(count)

    def drive(self, machine: PlaybookMachine | LoopMachine) -> int:
        """The functions that the fact in the middle called."""
        waiting: deque[str] = deque()
        commands = self.feed(machine, Started)
        while True:
            waiting += [command.call.id for command in commands if isinstance(command, CallTool)]
            inner = next((command for command in commands if isinstance(command, RunChunk)), None)
            if inner is not None:
                self.calls.clear()
                return self.drive(LoopMachine(inner.input))
            machine.budget.renew()
            if machine.has_work:
                commands = self.feed(machine, Continued)
            elif waiting:
                id_ = waiting.popleft()
                commands = self.feed(machine, partial(ToolFinished, call_id=id_, report=ok()))
            else:
                return sorted(self.calls)[len(self.calls) // 2]


@pytest.mark.parametrize("shape", [loop, sequence, fan])
def test_a_fact_calls_as_many_functions_in_a_long_run_as_in_a_short_one(shape: Callable[[int], str]) -> None:
    short, long = (
        Counting().drive(PlaybookMachine(compile_or_raise(shape(count)), execution_id=1)) for count in (40, 400)
    )
    assert long <= short * 1.1 + 5
