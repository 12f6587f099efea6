"""How a machine takes facts in: one at a time, whole or not at all.

How it works. A fact is checked against two tables before anything changes (protocol.py): which facts a phase admits,
and which kind of pending thing each fact answers. One that does not fit raises ProtocolError, and so does every later
one: the machine's state is then unknown to its shell (h11's rule).

A fact may need a value that is not here (stored.py). Then the machine is put back as it was, the value is asked for,
and the fact is *deferred*: taken again, as if it came then, once the value has come. Whatever else ends meanwhile waits
behind it, so that facts keep their order. Stops, and what the host asks for, do not wait. Where a fact can be taken,
and only what would begin after it needs a value, nothing begins until that has come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec.structs import replace

from noetl_temporal.limits import inline_bytes
from noetl_temporal.machine.budget import FACT_WORK, Budget
from noetl_temporal.machine.call import Stored
from noetl_temporal.machine.checkpoint import copied
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
from noetl_temporal.machine.state import MachineState, Pending
from noetl_temporal.machine.stored import AtHand, LoadedValue, NotLoaded, load_id, using

__all__ = ["Intake"]

S = TypeVar("S", bound=MachineState)


class Intake(ABC, Generic[S]):
    """A machine, as far as it takes facts in. ``limit`` is the bytes that a value may have."""

    def __init__(self, state: S, file: str, limit: int) -> None:
        self.budget = Budget(inline_bytes(limit))
        self._limit = limit
        self._file = file
        self._broken: str | None = None
        self._mount(state)

    def _mount(self, state: S) -> None:
        """Go on from this state, and forget any other."""
        self.state = state
        self._journal = Journal(state.ids, self._file, self.budget)

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Let the run that the fact concerns go on."""

    @abstractmethod
    def _settle(self) -> None:
        """Begin what may begin now."""

    @abstractmethod
    def _begin_again(self, owner: str) -> None:
        """What was to be kept of the run ``owner`` has not been: its next step is to ask for it once more."""

    def feed(self, event: Event) -> list[Command]:
        """Take one fact; perform the commands in their order. Raises ProtocolError, and then on every later call."""
        self._broken = self._broken or unexpected(event, self.state)
        if self._broken is not None:
            raise ProtocolError(self._broken)
        try:
            return self._fed(event)
        except BaseException as error:
            self._broken = f"the machine failed before: {type(error).__name__}: {error}"
            raise

    def _fed(self, event: Event) -> list[Command]:
        """While facts wait for a value, others wait behind them; only stops and what the host asks for do not."""
        match event:
            case ValueLoaded():
                return self._value_loaded(event)
            case Resumed():
                return self._resumed(event)
            case _ if self.state.deferred and self._waits_its_turn(event):
                self.state.deferred.append(event)
                return []
            case _:
                return self._taken(event)

    def _waits_its_turn(self, event: Event) -> bool:
        """Whether something ended that this machine began."""
        if isinstance(event, TimerFired):
            timer = self.state.timers.get(event.timer_id)
            return timer is None or timer.kind != "deadline"
        return isinstance(event, ToolFinished | ChunkFinished | ValuesKept)

    # ---- taking ---------------------------------------------------------------------------------------------------

    def _taken(self, event: Event) -> list[Command]:
        """Take the fact, or defer it until the stored value that it needs has been loaded."""
        if _brings_stored(event):
            self.state.has_stored = True
        self._journal.open(event.at)
        self.budget.work(FACT_WORK)
        needed = self._attempted(lambda: self._take(event))
        if needed is None:
            return self._settled()
        self.state.deferred.insert(len(self.state.deferred) if self._waits_its_turn(event) else 0, event)
        return self._load(needed)

    def _settled(self) -> list[Command]:
        """Begin what may begin; nothing of it where that needs a value first."""
        told = list(self._journal.commands)
        needed = self._attempted(self._settle)
        return self._journal.commands if needed is None else [*told, *self._load(needed)]

    def _attempted(self, change: Callable[[], None]) -> Stored | None:
        """Change the state; the stored value that is needed for that, and no change then."""
        before = copied(self.state) if self.state.has_stored else None
        self.budget.open()
        try:
            with using(AtHand(self.state.loaded, self._limit)):
                change()
        except NotLoaded as found:
            if before is None:
                raise ProtocolError(f"{found} is needed where nothing is stored") from found
            self._mount(before)
            return found.stored
        finally:
            self.budget.close()
        return None

    # ---- stored values --------------------------------------------------------------------------------------------

    @property
    def _is_loading(self) -> bool:
        """Whether something waits for a stored value."""
        return self.state.has_stored and any(one.kind == "load" for one in self.state.pending.values())

    def _load(self, stored: Stored) -> list[Command]:
        id_ = load_id(stored)
        if id_ in self.state.pending:
            return []
        self.state.pending[id_] = Pending("load", "")
        return [LoadValue(id_, stored)]

    def _value_loaded(self, event: ValueLoaded) -> list[Command]:
        del self.state.pending[event.load_id]
        self.state.loaded[event.load_id] = LoadedValue(event.value, event.error)
        return self._take_deferred(event.at)

    def _resumed(self, event: Resumed) -> list[Command]:
        """Nobody loads or keeps anything here yet: what needs it asks again."""
        pending = self.state.pending
        for id_, one in [found for found in pending.items() if found[1].kind in ("keep", "load")]:
            del pending[id_]
            if one.owner:
                self._begin_again(one.owner)
        return self._taken(event) + (self._take_deferred(event.at) if self.state.deferred else [])

    def _take_deferred(self, at: int) -> list[Command]:
        """Take the facts that wait, in their order, as if they came now, up to one that needs another value."""
        self._journal.open(at)
        commands = [] if self.state.deferred else self._settled()
        waiting, self.state.deferred = self.state.deferred, []
        while waiting and not self.state.deferred and self.state.phase == "running":
            fact = replace(waiting.pop(0), at=at)
            problem = unexpected(fact, self.state)
            if problem is not None:
                raise ProtocolError(problem)
            commands += self._taken(fact)
        if self.state.phase == "running":
            self.state.deferred += waiting
        if not self._is_loading:
            self.state.loaded.clear()
        return commands

    def _drop_loads(self) -> None:
        """The machine ends: nobody needs a value any more."""
        state = self.state
        state.deferred.clear()
        for id_ in [id_ for id_, one in state.pending.items() if one.kind == "load"]:
            del state.pending[id_]
            self._journal.send(Cancel(id_))


def _brings_stored(event: Event) -> bool:
    """Whether a template may need a value that this fact tells of, but does not have."""
    match event:
        case ToolFinished() | ChunkFinished():
            return event.report.stored is not None
        case _:
            return False
