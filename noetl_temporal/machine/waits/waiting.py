"""The part of a machine whose runs wait: for a time, a signal or a decision."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.state import MachineState, Run
from noetl_temporal.machine.tasks.pipeline import Pipeline
from noetl_temporal.machine.tasks.waits import WaitEnd
from noetl_temporal.machine.timers import Timing
from noetl_temporal.machine.waits.wait import Wait, timer_id

__all__ = ["Waiting"]

S = TypeVar("S", bound=MachineState)
R = TypeVar("R", bound=Run)


class Waiting(Timing[S, R], Generic[S, R]):
    """Manages waits and the timers of those that end by themselves. Subclasses end them for other reasons."""

    _runs: Runs[R]

    def _open_wait(self, run: R, pipeline: Pipeline) -> None:
        """Begin the wait of a run, unless the run is stopping."""
        wait = pipeline.opened
        if wait is None:
            raise ProtocolError(f"{run.id} waits for nothing")
        if self._is_stopped(run):
            pipeline.wait_ended(wait, "cancelled", None)
            self._mark_ready(run)
            return
        self.state.waits[wait.id] = wait
        if wait.due:
            seconds = max(0, wait.due - self._journal.feed.at) / 1000
            effect = "waits until its time" if wait.succeeds_when_due else "times out"
            self._start_timer(timer_id(wait.id), "wait", wait.id, seconds, f"{wait.name} {effect}")
        self._wait_opened(wait)

    def _end_wait(self, wait: Wait, ending: WaitEnd, outcome: PlainOutcome | None) -> None:
        """End a wait and resume its run; without an outcome if the run stops."""
        del self.state.waits[wait.id]
        self._drop_timer(timer_id(wait.id))
        run = self._runs[wait.run]
        self._pipeline(run).wait_ended(wait, ending, outcome)
        self._wait_closed(wait, ending)
        self._mark_ready(run)

    # ---- what a machine does --------------------------------------------------------------------------------------

    @abstractmethod
    def _pipeline(self, run: R) -> Pipeline: ...

    @abstractmethod
    def _is_stopped(self, run: R) -> bool: ...

    @abstractmethod
    def _mark_ready(self, run: R) -> None: ...

    @abstractmethod
    def _wait_opened(self, wait: Wait) -> None:
        """Look for an answer that is there already."""

    @abstractmethod
    def _wait_closed(self, wait: Wait, ending: WaitEnd) -> None: ...
