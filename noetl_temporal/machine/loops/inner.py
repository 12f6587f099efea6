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
from noetl_temporal.machine.tasks.waits import WaitEnd
from noetl_temporal.machine.waits.wait import Wait

if TYPE_CHECKING:
    from noetl_temporal.machine.regions.machine import RegionMachine

__all__ = ["InnerLoop", "inner_loop"]


class InnerLoop(LoopMachine):
    """A loop over a list inside an iteration of ``outer_loop``; ``outer_region`` is the machine of that iteration."""

    def __init__(
        self, chunk: ChunkInput, state: LoopState, outer_region: RegionMachine, outer_loop: Iterations
    ) -> None:
        self._outer_region = outer_region
        self._outer_loop = outer_loop
        super().__init__(chunk, state, limit=outer_loop.value_limit)
        self.budget = outer_loop.budget

    def _set_state(self, state: LoopState) -> None:
        share_state(state, self._outer_region.state)
        super()._set_state(state)

    def _new_journal(self, state: LoopState) -> Journal:
        del state
        return self._outer_region.journal

    def start_ready_work(self) -> None:
        """Start the iterations and calls that are ready, within the budget."""
        self.state.is_idling, self.state.pause = self._outer_region.state.is_idling, self._outer_region.state.pause
        self._start_ready_work()

    def stop(self) -> None:
        """Stop: begin nothing, and cancel what is in flight."""
        self._stop_with(self._outer_region.state.stop)

    @property
    def has_ready_work(self) -> bool:
        """Whether this machine has work that may begin when the budget allows."""
        return self._has_ready_work()

    def _run_id(self, name: str) -> str:
        return f"{self.input.loop_id}/{name}"

    def _outer_lease(self) -> LeaseRenewal | None:
        return self._outer_region.lease()

    def _results_to_store(self) -> list[Json] | None:
        """Return None: the results are part of the result of the outer loop's iteration."""
        return None

    def adjust_deadlines(self) -> None:
        """Adjust the deadlines of the outermost loop, which has all timers."""
        self._outer_loop.adjust_deadlines()

    def _wait_opened(self, wait: Wait) -> None:
        self._outer_loop.wait_opened(wait)

    def _wait_closed(self, wait: Wait, ending: WaitEnd) -> None:
        self._outer_loop.wait_closed(wait, ending)

    def _close(self, finish: Finish) -> None:
        """Nothing to do: the outer machine reads the report."""


class _InnerCursor(InnerLoop, CursorMachine):
    """A loop over a cursor inside an iteration of another loop."""


def inner_loop(chunk: ChunkInput, state: LoopState, outer_region: RegionMachine, outer_loop: Iterations) -> InnerLoop:
    """Return the machine of a loop inside an iteration. The loop has items or claims rows."""
    kind = InnerLoop if chunk.claims is None else _InnerCursor
    return kind(chunk, state, outer_region, outer_loop)
