"""Whatever the graph and whatever ends first: a run ends, once, and a snapshot changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.commands import CallTool, Command, Emit, Finish
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    ChunkReport,
    Continued,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import error, ok, run_graph
from .playbooks import HEAD, playbook, step

NAMES = ("a", "b", "c", "d", "e")


@st.composite
def playbooks(draw: st.DrawFn) -> str:
    """Up to five steps with any arcs between them; going round stops when a counter says so."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    parts: list[str] = []
    for name in names:
        targets = draw(st.lists(st.sampled_from([*names, "end"]), max_size=3, unique=True))
        arcs = [f'{{step: {target}, when: "{{{{ ctx.n < 12 }}}}"}}' for target in targets]
        mode = draw(st.sampled_from(["exclusive", "inclusive"]))
        join = draw(st.sampled_from(["wave", "any", "each"]))
        tool = draw(st.sampled_from(["    tool: {kind: noop}\n", ""]))
        parts.append(
            f"  - step: {name}\n    spec: {{join: {join}}}\n{tool}"
            f'    set: {{ctx.n: "{{{{ (ctx.n | default(0)) + 1 }}}}"}}\n'
            f"    next: {{spec: {{mode: {mode}}}, arcs: [{', '.join([*arcs, '{step: end}'])}]}}\n"
        )
    return f"{HEAD}workflow:\n{''.join(parts)}  - step: end\n    tool: {{kind: noop}}\n"


@st.composite
def choices(draw: st.DrawFn) -> Callable[[int], int]:
    picks = iter(draw(st.lists(st.integers(0, 7), min_size=400, max_size=400)))
    return lambda count: next(picks, 0) % count


@settings(max_examples=60)
@given(playbooks(), choices(), st.sets(st.sampled_from(NAMES), max_size=2))
def test_every_run_ends_and_the_end_step_runs_once(text: str, pick: Callable[[int], int], bad: set[str]) -> None:
    def answer(call: ToolCall) -> ToolReport:
        return error() if call.step in bad else ok(call.step)

    graph = compile_or_raise(text)
    run = run_graph(graph, answer, pick=pick)
    assert run.finish.status in ("completed", "failed")
    if not any("cycle" in failure.message for failure in run.finish.failures.detailed):
        assert [event.node for event in run.of("step.started")].count("end") == 1
    assert len({event.id for event in run.events}) == len(run.events)
    assert [event.id for event in run.events] == sorted(event.id for event in run.events)
    event_ids = {event.id for event in run.events}
    assert all(event.parent in event_ids for event in run.events[1:])


def run_through(machine: PlaybookMachine, restart: bool) -> tuple[list[Any], Finish]:
    """Return all commands of a run; with ``restart``, the machine is restored from its snapshot before every fact."""
    all_commands: list[Any] = []
    waiting: list[ToolCall] = []
    commands: list[Command] = machine.feed(Started(EPOCH_MS, {}))
    now = EPOCH_MS
    while True:
        all_commands.extend(msgspec.to_builtins(command) for command in commands)
        waiting.extend(command.call for command in commands if isinstance(command, CallTool))
        finish = next((command for command in commands if isinstance(command, Finish)), None)
        if finish is not None:
            return all_commands, finish
        if restart:
            state = json.loads(json.dumps(machine.snapshot()))
            machine = PlaybookMachine(machine.graph, execution_id=machine.execution_id, state=state)
        now += 5
        call = waiting.pop(0)
        commands = machine.feed(ToolFinished(now, call.id, ok({"at": call.step})))


@settings(max_examples=40)
@given(playbooks())
def test_a_restored_machine_continues_as_if_nothing_had_happened(text: str) -> None:
    graph = compile_or_raise(text)
    whole = run_through(PlaybookMachine(graph, execution_id=5), restart=False)
    pieces = run_through(PlaybookMachine(graph, execution_id=5), restart=True)
    assert whole == pieces


def test_an_unexpected_fact_changes_nothing_and_ends_the_machine() -> None:
    graph = compile_or_raise(playbook(step("start")))
    for before, wrong in (
        ([], ToolFinished(EPOCH_MS, "x", ok())),
        ([Started(EPOCH_MS)], Started(EPOCH_MS)),
        ([Started(EPOCH_MS)], ToolFinished(EPOCH_MS, "nobody", ok())),
        ([Started(EPOCH_MS)], ChunkFinished(EPOCH_MS, "start#1:start_task:1", ChunkReport("ok"))),
    ):
        machine = PlaybookMachine(graph, execution_id=1)
        for fact in before:
            machine.feed(fact)
        state = machine.snapshot()
        with pytest.raises(ProtocolError):
            machine.feed(wrong)
        assert machine.snapshot() == state
        with pytest.raises(ProtocolError):
            machine.feed(Continued(EPOCH_MS))


def test_an_unknown_timer_is_ignored() -> None:
    machine = PlaybookMachine(compile_or_raise(playbook(step("start"))), execution_id=1)
    machine.feed(Started(EPOCH_MS))
    assert machine.feed(TimerFired(EPOCH_MS, "of something that is gone")) == []


def test_another_version_of_a_snapshot_is_refused() -> None:
    graph = compile_or_raise(playbook(step("start")))
    snapshot = PlaybookMachine(graph, execution_id=1).snapshot()
    state_without_version = {key: value for key, value in snapshot.items() if key != "version"}
    for other in (snapshot | {"version": 99}, state_without_version):
        with pytest.raises(ValueError, match=r"version (99|without a number), this build reads"):
            PlaybookMachine(graph, execution_id=1, state=other)


def test_a_cancelled_run_ends_when_what_runs_has_ended() -> None:
    machine = PlaybookMachine(compile_or_raise(playbook(step("start", "after") + step("after"))), execution_id=1)
    [call] = [command.call for command in machine.feed(Started(EPOCH_MS)) if isinstance(command, CallTool)]
    commands = machine.feed(CancelRequested(EPOCH_MS + 1, "enough"))
    assert [type(command).__name__ for command in commands] == ["Cancel"]
    commands = machine.feed(ToolFinished(EPOCH_MS + 2, call.id, error("cancelled", "cancelled"), cancelled=True))
    finish = commands[-1]
    assert isinstance(finish, Finish)
    assert finish.status == "cancelled"
    events = [command.event for command in commands if isinstance(command, Emit)]
    assert [event.type for event in events][-3:] == ["step.done", "workflow.finished", "playbook.cancelled"]
    assert events[-1].meta["reason"] == "enough"
