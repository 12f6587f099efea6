"""The timers of a machine, and its pause, which suspends deadlines.

A suspended deadline is cancelled, and later starts again with its remaining time. Delays and waits continue during a
pause; what follows them begins after it (semantics.md 41).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from noetl_temporal.machine.commands import Cancel, PauseChildren, StartTimer
from noetl_temporal.machine.facts import PauseRequested, UnpauseRequested
from noetl_temporal.machine.intake import Intake
from noetl_temporal.machine.pause import Pause
from noetl_temporal.machine.state import MachineState, Pending, Run, TimerKind

__all__ = ["Timing"]

S = TypeVar("S", bound=MachineState)
R = TypeVar("R", bound=Run)


class Timing(Intake[S, R], Generic[S, R]):
    """The part of a machine that manages its timers and its pause."""

    # ---- pause ----------------------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether nothing begins until the run is resumed."""
        return self.state.pause is not None

    def _apply_pause(self, fact: PauseRequested | UnpauseRequested) -> None:
        if isinstance(fact, PauseRequested):
            self._pause(fact)
        else:
            self._unpause(fact.by, fact.reason)

    def _pause(self, fact: PauseRequested) -> None:
        """Pause the run, unless it is stopping."""
        if self.state.pause is None and self.state.stop is None:
            self.state.pause = Pause(fact.at, fact.by, fact.reason)
            self._emit_pause("playbook.paused", "PAUSED", fact.by, fact.reason)
            self._journal.add(PauseChildren(True, fact.by, fact.reason))
            self._adjust_deadlines()

    def _unpause(self, by: str, reason: str) -> None:
        if self.state.pause is not None:
            self.state.pause = None
            self._emit_pause("playbook.resumed", "RUNNING", by, reason)
            self._journal.add(PauseChildren(False, by, reason))
            self._adjust_deadlines()

    @abstractmethod
    def _emit_pause(self, type_: str, status: str, by: str, reason: str) -> None:
        """Record that the run was paused or resumed."""

    # ---- timers ---------------------------------------------------------------------------------------------------

    def _start_timer(self, id_: str, kind: TimerKind, owner: str, seconds: float, summary: str) -> None:
        due = self._journal.feed.at + round(seconds * 1000)
        self.state.timers[id_] = timer = Pending(kind, owner, due)
        if self.is_paused and kind == "deadline":
            timer.suspended_at = self._journal.feed.at
        else:
            self._journal.add(StartTimer(id_, seconds, summary))

    def _drop_timer(self, id_: str) -> None:
        timer = self.state.timers.pop(id_, None)
        if timer is not None and timer.suspended_at is None:
            self._journal.add(Cancel(id_))

    def _adjust_deadlines(self) -> None:
        """Suspend and resume deadlines according to the state."""
        deadlines = [(id_, timer) for id_, timer in self.state.timers.items() if timer.kind == "deadline"]
        at, holds = self._journal.feed.at, self._runs_with_holds() if deadlines else ()
        for id_, timer in deadlines:
            is_to_stop = self.is_paused or timer.owner in holds
            if is_to_stop and timer.suspended_at is None:
                timer.suspended_at = at
                self._journal.add(Cancel(id_))
            elif not is_to_stop and timer.suspended_at is not None:
                timer.due += at - timer.suspended_at
                timer.suspended_ms += at - timer.suspended_at
                timer.suspended_at = None
                self._journal.add(StartTimer(id_, max(0, timer.due - at) / 1000, "what is left of a timeout"))

    def _restart_timers(self, at: int) -> None:
        """Start the timers of a restored machine, each for its remaining time, except suspended deadlines."""
        for id_, timer in self.state.timers.items():
            if timer.suspended_at is None:
                self._journal.add(StartTimer(id_, max(0, timer.due - at) / 1000, "continues in a new run"))

    @abstractmethod
    def _runs_with_holds(self) -> set[str]:
        """Return the owners of deadlines that are suspended because a step is held."""
