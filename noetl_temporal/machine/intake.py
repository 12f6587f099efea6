"""Applies facts to a machine, one at a time, each completely or not at all.

Before anything changes, a fact is checked against two tables (protocol.py): which facts a phase admits, and which kind
of pending operation each fact answers. One that does not fit raises ProtocolError, and so does every later one: the
shell no longer knows the machine's state (h11's rule).

Applying a fact may need a stored value that is not loaded (stored.py). Then the state is rolled back, the value is
requested, and the fact is *deferred* until the value is loaded. Later results queue behind it, in order; stops and
requests of the host do not. If the fact itself can be applied and only the new work after it needs a value, the fact
stays applied, and no new work starts until the value is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec.structs import replace

from noetl_temporal.limits import inline_bytes
from noetl_temporal.machine.budget import FACT_WORK, Budget
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.commands import Cancel, Command, LoadValue
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import (
    ChunkFinished,
    Event,
    Resumed,
    TimerFired,
    ToolFinished,
    ValueLoaded,
    ValuesKept,
)
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.protocol import unexpected
from noetl_temporal.machine.rollback import copy_state
from noetl_temporal.machine.state import MachineState, Pending
from noetl_temporal.machine.stored import LoadedValue, LoadedValues, NotLoaded, load_id, reading_from

__all__ = ["Intake"]

STOPPED = "the run was stopped before a stored value was loaded"

S = TypeVar("S", bound=MachineState)


class Intake(ABC, Generic[S]):
    """The part of a machine that applies facts. ``limit`` is the bytes that a value may have."""

    def __init__(self, state: S, file: str, limit: int) -> None:
        self.budget = Budget(inline_bytes(limit))
        self._limit = limit
        self._file = file
        self._broken: str | None = None
        self._set_state(state)

    def _set_state(self, state: S) -> None:
        """Replace the state, and everything derived from it."""
        self.state = state
        self._journal = Journal(state.ids, self._file, self.budget)

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Let the run go on that the fact concerns."""

    @abstractmethod
    def _settle(self) -> None:
        """Start what may start now."""

    @abstractmethod
    def _request_again(self, owner: str) -> None:
        """What was to be stored of the run ``owner`` was not: request it again."""

    def feed(self, event: Event) -> list[Command]:
        """Apply one fact; perform the commands in their order. Raises ProtocolError, and then on every later call."""
        self._broken = self._broken or unexpected(event, self.state)
        if self._broken is not None:
            raise ProtocolError(self._broken)
        try:
            return self._fed(event)
        except BaseException as error:
            self._broken = f"the machine failed before: {type(error).__name__}: {error}"
            raise

    def _fed(self, event: Event) -> list[Command]:
        """Dispatch a fact. While facts are deferred, results queue behind; stops and the host's requests do not."""
        match event:
            case ValueLoaded():
                return self._value_loaded(event)
            case Resumed():
                return self._resumed(event)
            case _ if self.state.deferred and self._must_queue(event):
                self.state.deferred.append(event)
                return []
            case _:
                commands = self._apply(event)
                return commands + self._stop_waiting(event.at)

    def _must_queue(self, event: Event) -> bool:
        """Whether the fact queues behind deferred ones: it reports the end of something that the machine started."""
        if isinstance(event, TimerFired):
            timer = self.state.timers.get(event.timer_id)
            return timer is None or timer.kind != "deadline"
        return isinstance(event, ToolFinished | ChunkFinished | ValuesKept)

    # ---- taking ---------------------------------------------------------------------------------------------------

    def _apply(self, event: Event) -> list[Command]:
        """Apply the fact, or defer it until the stored value that it needs is loaded."""
        if _refers_to_stored(event):
            self.state.has_stored = True
        self._journal.open(event.at)
        self.budget.work(FACT_WORK)
        needed = self._try(lambda: self._take(event))
        if needed is None:
            return self._apply_settle()
        self.state.deferred.insert(len(self.state.deferred) if self._must_queue(event) else 0, event)
        return self._load(needed)

    def _apply_settle(self) -> list[Command]:
        """Start what may start. If that needs a value, start nothing and load the value first."""
        told = list(self._journal.commands)
        needed = self._try(self._settle)
        return self._journal.commands if needed is None else [*told, *self._load(needed)]

    def _try(self, change: Callable[[], None]) -> StoredRef | None:
        """Run ``change``. If it needs a value that is not loaded, roll the state back and return that value."""
        before, size = copy_state(self.state) if self.state.has_stored else None, self.budget.bytes
        self.budget.open()
        try:
            with reading_from(LoadedValues(self.state.loaded, self._limit)):
                change()
        except NotLoaded as found:
            if before is None:
                raise ProtocolError(f"{found} is needed where nothing is stored") from found
            self._set_state(before)
            self.budget.bytes = size
            return found.stored
        finally:
            self.budget.close()
        return None

    # ---- stored values --------------------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        """Whether a load is pending."""
        return self.state.has_stored and any(one.kind == "load" for one in self.state.pending.values())

    def _load(self, stored: StoredRef) -> list[Command]:
        id_ = load_id(stored)
        if id_ in self.state.pending:
            return []
        self.state.pending[id_] = Pending("load", "")
        return [LoadValue(id_, stored)]

    def _value_loaded(self, event: ValueLoaded) -> list[Command]:
        if self.state.pending.pop(event.load_id, None) is None:
            return []
        self.state.loaded[event.load_id] = LoadedValue(event.value, event.error)
        return self._apply_deferred(event.at)

    def _resumed(self, event: Resumed) -> list[Command]:
        """A new host has no loads or stores in progress: request again what is still needed."""
        pending = self.state.pending
        for id_, one in [found for found in pending.items() if found[1].kind in ("keep", "load")]:
            del pending[id_]
            if one.owner:
                self._request_again(one.owner)
        return self._apply(event) + (self._apply_deferred(event.at) if self.state.deferred else [])

    def _apply_deferred(self, at: int) -> list[Command]:
        """Apply the deferred facts in their order, at this time, up to one that needs another value."""
        self._journal.open(at)
        commands = [] if self.state.deferred else self._apply_settle()
        waiting, self.state.deferred = self.state.deferred, []
        while waiting and not self.state.deferred and self.state.phase == "running":
            fact = replace(waiting.pop(0), at=at)
            problem = unexpected(fact, self.state)
            if problem is not None:
                raise ProtocolError(problem)
            commands += self._apply(fact)
        if self.state.phase == "running":
            self.state.deferred += waiting
        if not self.is_loading:
            self.state.loaded.clear()
        return commands

    def _stop_waiting(self, at: int) -> list[Command]:
        """A stopped run waits for no value: facts that need one are applied as if it could not be loaded."""
        if self.state.stop is None or not self.state.deferred:
            return []
        ids = self._forget_loads()
        for id_ in ids:
            self.state.loaded[id_] = LoadedValue(error=STOPPED)
        return [*map(Cancel, ids), *self._apply_deferred(at)] if ids else []

    def _forget_loads(self) -> list[str]:
        """Wait for no load any more; their ids, to be cancelled."""
        ids = [id_ for id_, one in self.state.pending.items() if one.kind == "load"]
        for id_ in ids:
            del self.state.pending[id_]
        return ids

    def _drop_loads(self) -> None:
        """The machine ends: cancel all loads."""
        self.state.deferred.clear()
        for id_ in self._forget_loads():
            self._journal.send(Cancel(id_))


def _refers_to_stored(event: Event) -> bool:
    """Whether the fact refers to a stored value."""
    match event:
        case ToolFinished() | ChunkFinished():
            return event.report.stored is not None
        case _:
            return False
