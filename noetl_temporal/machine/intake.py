"""Applies facts to a machine, one at a time, each completely or not at all.

Before anything changes, a fact is checked against two tables (protocol.py): which facts a phase accepts, and which kind
of pending operation each fact answers. One that does not fit raises ProtocolError, and so does every later one: the
shell no longer knows the machine's state (h11's rule).

Applying a fact may need a stored value that is not loaded (stored.py). Then the state is rolled back, and the fact is
*deferred* until the value is loaded (loads.py). Others are applied meanwhile. This is as if the call had taken
longer, since a run has at most one call in flight. If only new work needs a value, that run alone waits. A stopped run
waits for no value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from msgspec.structs import replace

from noetl_temporal.limits import inline_bytes
from noetl_temporal.machine.budget import CHECKPOINT_WORK, FACT_WORK, Budget
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.commands import Cancel, Command
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import ChunkFinished, Fact, Restored, ToolFinished, ValueLoaded
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.loads import ARRIVALS, Loads
from noetl_temporal.machine.protocol import rejection_reason
from noetl_temporal.machine.rollback import Checkpoint, Runs
from noetl_temporal.machine.state import Deferral, MachineState, Run
from noetl_temporal.machine.stored import LoadedValue, NotLoaded, ReadingFrom, load_id

__all__ = ["Intake"]

_NOTHING: Mapping[str, StoredRef] = MappingProxyType({})

STOPPED = "the run was stopped before a stored value was loaded"

S = TypeVar("S", bound=MachineState)
R = TypeVar("R", bound=Run)


class Intake(ABC, Generic[S, R]):
    """The part of a machine that applies facts. ``file`` is the name of the playbook's file, ``limit`` the maximum size
    of a value in bytes.
    """

    _runs: Runs[R]

    def __init__(self, state: S, file: str, limit: int) -> None:
        self.budget = Budget(inline_bytes(limit))
        self._limit = limit
        self._file = file
        self._broken: str | None = None
        self._loads = Loads(limit)
        self._reader = ARRIVALS
        self._set_state(state)

    def _set_state(self, state: S) -> None:
        """Replace the state, and everything derived from it."""
        self.state = state
        self._journal = self._new_journal(state)

    def _new_journal(self, state: S) -> Journal:
        return Journal(state.ids, self._file, self.budget)

    @abstractmethod
    def _apply(self, fact: Fact) -> None:
        """Apply the fact to the state, and resume the run that it concerns."""

    @abstractmethod
    def _start_ready_work(self) -> None:
        """Start the runs and calls that are ready, within the budget."""

    @abstractmethod
    def _request_storing_again(self, owner: str) -> None:
        """Make the run ready, so that it requests its values to be stored again."""

    @abstractmethod
    def _wake(self, run_id: str) -> bool:
        """Make a run ready whose values are now loaded. False if it has ended."""

    def feed(self, fact: Fact) -> list[Command]:
        """Apply one fact; perform the commands in their order. Raises ProtocolError, and then on every later call."""
        self._broken = self._broken or rejection_reason(fact, self.state)
        if self._broken is not None:
            raise ProtocolError(self._broken)
        self.budget.begin_feed()
        try:
            return self._dispatch(fact)
        except BaseException as error:
            self._broken = f"the machine failed before: {type(error).__name__}: {error}"
            if isinstance(error, NotLoaded):
                raise ProtocolError(f"{error} is needed where nothing is stored") from error
            raise
        finally:
            self.budget.end_feed()

    def _dispatch(self, fact: Fact) -> list[Command]:
        """Apply a fact and the deferred facts that become applicable; load the values that the others need."""
        match fact:
            case ToolFinished():  # the most frequent fact
                commands = self._apply_or_defer(fact)
            case ValueLoaded():
                commands = self._value_loaded(fact)
            case Restored():
                commands = self._request_lost_values(fact)
            case _:
                commands = self._apply_or_defer(fact)
        if self.state.stop is not None:
            commands += self._apply_deferred(fact.at)
        if self.state.has_stored and self.state.phase == "running":
            commands += self._loads.update(self.state)
        return commands

    # ---- applying -------------------------------------------------------------------------------------------------

    def _apply_or_defer(
        self, fact: Fact, needs: Mapping[str, StoredRef] = _NOTHING, index: int | None = None
    ) -> list[Command]:
        """Apply the fact; defer it if it needs a stored value that is not loaded. ``needs`` are the loaded values
        for which it was deferred before, ``index`` is its position among the deferred facts, by default the last.
        """
        if _refers_to_stored(fact):
            self.state.has_stored = True
        self._journal.begin_feed(fact.at)
        self.budget.add_work(FACT_WORK)
        if not self.state.has_stored:
            self._apply(fact)
            return self._start_ready_work_and_collect()
        error = "" if self._may_load_for(fact) else STOPPED
        missing_value = self._run_or_roll_back(partial(self._apply, fact), error)
        if missing_value is None:
            return self._start_ready_work_and_collect()
        deferred = self.state.deferred
        deferred.insert(len(deferred) if index is None else index, Deferral(fact, _with(needs, missing_value)))
        return []

    def _start_ready_work_and_collect(self) -> list[Command]:
        """Start ready runs and calls, and return all commands so far. Those that lack a stored value are left out."""
        if not self.state.has_stored:
            self._start_ready_work()
            return self._journal.feed.commands
        at, earlier = self._journal.feed.at, self._journal.feed.commands
        self._journal.begin_feed(at)
        while (missing_value := self._run_or_roll_back(self._start_ready_work)) is not None:
            readers = self.state.readers
            readers[self._reader] = _with(readers.get(self._reader, {}), missing_value)
            self._journal.begin_feed(at)
        return earlier + self._journal.feed.commands

    def _run_or_roll_back(self, change: Callable[[], None], missing: str = "") -> StoredRef | None:
        """Run ``change``. If it needs a value that is not loaded, roll the state back and return the reference.

        With a text in ``missing``, the template that reads such a value fails with this text instead.
        """
        before, size = self._checkpoint(), self.budget.bytes
        try:
            with ReadingFrom(self._loads.readable(missing)):
                change()
        except NotLoaded as not_loaded:
            self._set_state(before.state())
            self.budget.bytes = size
            return not_loaded.stored
        finally:
            before.close()
        return None

    def _checkpoint(self) -> Checkpoint[S, R]:
        self.budget.add_work(CHECKPOINT_WORK * len(self._runs))
        return Checkpoint(self.state, self._runs)

    # ---- stored values --------------------------------------------------------------------------------------------

    def _may_load_for(self, fact: Fact) -> bool:
        """Whether the fact may wait for the stored values that it needs. A stopped run reads none."""
        del fact
        return self.state.stop is None

    @property
    def is_loading(self) -> bool:
        """Whether a load is pending."""
        return self.state.has_stored and any(operation.kind == "load" for operation in self.state.pending.values())

    @property
    def has_loaded(self) -> bool:
        """Whether values are loaded, which a machine restored from the snapshot would load again."""
        return self._loads.has_loaded

    def _lacks_value(self, reader: str) -> bool:
        """Whether the reader, a run or ``ARRIVALS``, waits for a value."""
        needs = self.state.readers.get(reader)
        return needs is not None and self._loads.lacks(needs)

    def _start_reading(self, reader: str) -> None:
        """Make ``reader`` the one that waits if a value turns out to be missing, and clear what it waited for."""
        self._reader = reader
        self.state.readers.pop(reader, None)

    def _value_loaded(self, fact: ValueLoaded) -> list[Command]:
        if self.state.pending.pop(fact.load_id, None) is None:
            return []
        self._loads.add(fact.load_id, LoadedValue(fact.value, fact.error))
        commands = self._apply_deferred(fact.at)
        if self.state.phase == "running":
            self._wake_readers()
            self._journal.begin_feed(fact.at)
            commands += self._start_ready_work_and_collect()
        return commands

    def _wake_readers(self) -> None:
        """Make runs ready that now have all values that they are known to need."""
        for id_ in reversed([id_ for id_ in self.state.readers if id_ != ARRIVALS and not self._lacks_value(id_)]):
            if not self._wake(id_):
                del self.state.readers[id_]

    def _request_lost_values(self, fact: Restored) -> list[Command]:
        """Request loads and stores again, because those of the earlier workflow run are lost."""
        pending = self.state.pending
        for id_, operation in [entry for entry in pending.items() if entry[1].kind in ("store", "load")]:
            del pending[id_]
            if operation.owner:
                self._request_storing_again(operation.owner)
        return self._apply_or_defer(fact)

    def _apply_deferred(self, at: int) -> list[Command]:
        """Apply the deferred facts whose values are loaded or will not be loaded any more, in order, at this time."""
        commands, index = list[Command](), 0
        while index < len(self.state.deferred) and self.state.phase == "running":
            deferral = self.state.deferred[index]
            if self._may_load_for(deferral.fact) and self._loads.lacks(deferral.needs):
                index += 1
                continue
            del self.state.deferred[index]
            fact = replace(deferral.fact, at=at)
            problem = rejection_reason(fact, self.state)
            if problem is not None:
                raise ProtocolError(problem)
            commands += self._apply_or_defer(fact, deferral.needs, index)
        return commands

    def _drop_loads(self) -> None:
        """Cancel all loads, because the machine ends."""
        self.state.deferred.clear()
        self.state.readers.clear()
        pending = self.state.pending
        for id_ in [id_ for id_, operation in pending.items() if operation.kind == "load"]:
            del pending[id_]
            self._journal.add(Cancel(id_))


def _with(needs: Mapping[str, StoredRef], reference: StoredRef) -> dict[str, StoredRef]:
    return {**needs, load_id(reference): reference}


def _refers_to_stored(fact: Fact) -> bool:
    """Whether the fact refers to a stored value."""
    match fact:
        case ToolFinished() | ChunkFinished():
            return fact.report.stored is not None
        case _:
            return False
