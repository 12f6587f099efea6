"""What one workflow task may cost: calls begin while the budget lasts, and a fact costs no more the more runs wait."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.budget import COMMAND_BYTES, MAX_PENDING
from noetl_temporal.machine.commands import CallTool, Command, Finish
from noetl_temporal.machine.facts import Continued, Started, ToolFinished
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import ok
from .playbooks import playbook


def branches(count: int, config: str = "") -> PlaybookMachine:
    names = [f"b{number}" for number in range(count)]
    arcs = ", ".join(f"{{step: {name}}}" for name in names)
    steps = "".join(f"  - step: {name}\n    tool: {{kind: noop{config}}}\n" for name in names)
    text = playbook(f"  - step: start\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n{steps}")
    return PlaybookMachine(compile_or_raise(text), execution_id=1)


def started_steps(commands: list[Command]) -> list[str]:
    return [command.call.id for command in commands if isinstance(command, CallTool)]


def test_no_more_calls_are_in_flight_than_temporal_takes() -> None:
    machine = branches(700)
    waiting = started_steps(machine.feed(Started(EPOCH_MS)))
    peak, at, finish = len(waiting), EPOCH_MS, None
    while finish is None:
        at += 1
        commands = machine.feed(Continued(at) if machine.has_work else ToolFinished(at, waiting.pop(0), ok()))
        waiting += started_steps(commands)
        peak = max(peak, len(waiting))
        finish = next((command for command in commands if isinstance(command, Finish)), None)
    assert peak == MAX_PENDING
    assert finish.status == "completed"


def test_large_calls_begin_in_several_workflow_tasks() -> None:
    machine = branches(100, ", message: " + "x" * 40_000)
    first = started_steps(machine.feed(Started(EPOCH_MS)))
    assert len(first) * 40_000 < COMMAND_BYTES + 40_000
    assert machine.has_work
    assert started_steps(machine.feed(Continued(EPOCH_MS + 1)))


def test_a_fact_costs_no_more_the_more_runs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, looked_at = branches(2_000), 0
    waiting = started_steps(machine.feed(Started(EPOCH_MS)))
    while machine.has_work:
        waiting += started_steps(machine.feed(Continued(EPOCH_MS)))
    is_stopped = machine._is_stopped  # pyright: ignore[reportPrivateUsage] - asked of each run that is looked at

    def count_call(run: object) -> bool:
        nonlocal looked_at
        looked_at += 1
        return is_stopped(run)  # type: ignore[arg-type]

    monkeypatch.setattr(machine, "_is_stopped", count_call)
    machine.feed(ToolFinished(EPOCH_MS + 1, waiting.pop(), ok()))
    assert looked_at < 10
