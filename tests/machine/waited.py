"""A machine whose waits a test answers, restored from a snapshot after every fact where asked."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.commands import CallTool, Command, Emit, Finish, StartTimer
from noetl_temporal.machine.facts import Decided, Fact, Restored, Signalled, Started, TimerFired, ToolFinished
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.wait import Signal, Wait

from .driver import ok
from .playbooks import playbook

CommandT = TypeVar("CommandT", bound=Command)


class WaitingRun:
    """Feeds facts to the machine of a playbook of these steps; ``snapshots`` restores it before each."""

    def __init__(self, steps: str, *, snapshots: bool = False, head: str = "") -> None:
        self.graph = compile_or_raise(playbook(steps, head))
        self.machine = PlaybookMachine(self.graph, execution_id=7)
        self.snapshots = snapshots
        self.now = EPOCH_MS
        self.commands: list[Command] = []
        self.requests = 0
        self.feed(Started, {})

    def feed(self, event: type[Fact], *args: Any, **more: Any) -> list[Command]:
        self.now += 1000
        if self.snapshots and event is not Started:
            state = msgspec.json.decode(msgspec.json.encode(self.machine.snapshot()))
            self.machine = PlaybookMachine(self.graph, execution_id=7, state=state)
            self.commands += self.machine.feed(Restored(self.now))
        commands = self.machine.feed(event(self.now, *args, **more))
        self.commands += commands
        return commands

    def signal(self, name: str, data: Any = None, key: str | None = None) -> None:
        self.requests += 1
        self.feed(Signalled, self.requests, Signal(name, data, key))

    def decide(self, wait: Wait, approved: bool = True, **more: Any) -> None:
        self.requests += 1
        self.feed(Decided, self.requests, wait.id, approved, "ann", **more)

    def call_ends(self, report: Any = None) -> None:
        self.feed(ToolFinished, self.of(CallTool)[-1].call.id, report or ok())

    def timer_fires(self) -> None:
        self.feed(TimerFired, self.of(StartTimer)[-1].timer_id)

    @property
    def waits(self) -> list[Wait]:
        return list(self.machine.state.waits.values())

    def of(self, kind: type[CommandT]) -> list[CommandT]:
        return [command for command in self.commands if isinstance(command, kind)]

    def types(self, *prefixes: str) -> list[str]:
        return [event.event.type for event in self.of(Emit) if event.event.type.startswith(prefixes)]

    @property
    def finish(self) -> Finish:
        [finish] = self.of(Finish)
        return finish
