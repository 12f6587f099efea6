"""The machine of a loop inside an iteration of another loop: it has no workflow of its own (regions/machine.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import LeaseRenewal
from noetl_temporal.machine.commands import ChunkInput, Finish
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.loops.cursor import CursorMachine
from noetl_temporal.machine.loops.iterations import Iterations
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.regions.region import share_state
from noetl_temporal.machine.state import LoopState
from noetl_temporal.machine.tasks.waits import Ending
from noetl_temporal.machine.waits.wait import Wait

if TYPE_CHECKING:
    from noetl_temporal.machine.regions.machine import RegionMachine

__all__ = ["InnerLoop", "inner_loop"]


class InnerLoop(LoopMachine):
    """A loop over a list, ``inside`` an iteration of the ``outer`` loop."""

    def __init__(self, chunk: ChunkInput, state: LoopState, inside: RegionMachine, outer: Iterations) -> None:
        self._around = inside
        self._outer = outer
        super().__init__(chunk, state, limit=outer.value_limit)
        self.budget = outer.budget

    def _set_state(self, state: LoopState) -> None:
        share_state(state, self._around.state)
        super()._set_state(state)

    def _new_journal(self, state: LoopState) -> Journal:
        del state
        return self._around.journal

    def settle(self) -> None:
        """Start what may start now."""
        self.state.is_idling, self.state.pause = self._around.state.is_idling, self._around.state.pause
        self._settle()

    def stop(self) -> None:
        """Begin nothing any more, and end what is in flight."""
        self._stop_with(self._around.state.stop)

    @property
    def has_ready_work(self) -> bool:
        """Whether something could begin, as far as the budget allows."""
        return self._has_ready_work()

    def _run_id(self, name: str) -> str:
        return f"{self.input.loop_id}/{name}"

    def _outer_lease(self) -> LeaseRenewal | None:
        return self._around.lease()

    def _results_to_store(self) -> list[Json] | None:
        """Return None: the results are part of the result of the outer loop's iteration."""
        return None

    def adjust_deadlines(self) -> None:
        """Adjust the deadlines of the outermost loop, which has all timers."""
        self._outer.adjust_deadlines()

    def _wait_opened(self, wait: Wait) -> None:
        self._outer.wait_opened(wait)

    def _wait_closed(self, wait: Wait, ending: Ending) -> None:
        self._outer.wait_closed(wait, ending)

    def _close(self, finish: Finish) -> None:
        """Do nothing: the machine around reads the report."""


class _InnerCursor(InnerLoop, CursorMachine):
    """A loop over a cursor."""


def inner_loop(chunk: ChunkInput, state: LoopState, inside: RegionMachine, outer: Iterations) -> InnerLoop:
    """Return the machine of a loop ``inside`` an iteration, which has items or claims rows."""
    kind = InnerLoop if chunk.claims is None else _InnerCursor
    return kind(chunk, state, inside, outer)
