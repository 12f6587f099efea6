"""The part of a machine that stops runs.

The rules of stopping:

1. Calls begin in one place, ``Engine._begin_ready``. It is the only place where a run checks whether it must stop:
   every call, every page, every retry that the machine decides, and every separate sink call passes through it.
2. A stop is state, not a message: once ``state.stop`` or ``run.stop`` is set, it applies to every later fact and is in
   every snapshot. It cannot be lost, delivered twice, or missed by a call that has just succeeded.
3. A stop cancels everything in flight (Cancel), drops delays, and begins nothing. The machine still waits for what is
   in flight and records how it ended.
4. The work of the stop itself is exempt: the final step of a playbook, as its cleanup (``_is_exempt``).
5. A call or chunk that ends as cancelled although this machine did not cancel it has failed: it was cancelled from
   outside.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from noetl_temporal.machine.commands import Cancel
from noetl_temporal.machine.facts import CancelRequested
from noetl_temporal.machine.state import MachineState, Run, Stop
from noetl_temporal.machine.waits.waiting import Waiting

__all__ = ["Stopping"]

S = TypeVar("S", bound=MachineState)
R = TypeVar("R", bound=Run)


class Stopping(Waiting[S, R], Generic[S, R]):
    """Stops the whole machine or one of its runs, and decides whether a run must not begin calls."""

    def _cancel_requested(self, fact: CancelRequested) -> None:
        self._unpause("", "cancelled")
        if self.state.stop is None:
            self._stop("cancel", fact.reason)
        if self.state.stop is not None:
            self.state.stop.cancel_count += 1
            self._cancel_stopped_runs()

    def _stop(self, kind: str, reason: str = "") -> None:
        """Stop the whole machine; no effect if it is stopping already."""
        if self.state.stop is None:
            self.state.stop = msgspec.convert({"kind": kind, "at": self._journal.feed.at, "reason": reason}, Stop)
            self._cancel_stopped_runs()

    def _stop_with(self, outer: Stop | None) -> None:
        """Stop together with the machine around this one, or because a run of it has timed out. If the ``outer`` stop
        skips the cleanup, so does this one.
        """
        self._stop("cancel")
        stop = self.state.stop
        if stop is not None and outer is not None and outer.cancel_count > stop.cancel_count:
            stop.cancel_count = outer.cancel_count
            self._cancel_stopped_runs()

    def _cancel_stopped_runs(self) -> None:
        """Cancel what is in flight of all runs that must stop."""
        for run in self._runs.all_mutable():
            if self._is_stopped(run):
                self._cancel_run(run)

    def _stop_run(self, run: R) -> None:
        """Stop one run, which timed out."""
        run.stop = "timeout"
        self._cancel_run(run)
        if run.id in self.state.ready:
            self.state.ready.remove(run.id)
            self.state.ready.insert(0, run.id)

    def _cancel_run(self, run: R) -> None:
        """Cancel the call or chunks of a run; end its delay or wait."""
        if self.state.readers.pop(run.id, None) is not None and run.id not in self.state.ready:
            self._mark_ready(run)
        pipeline = run.pipeline
        if pipeline is not None and pipeline.phase == "delay":
            self._drop_timer(pipeline.pending_id)
            self._pipeline(run).delay_ended()
            self._mark_ready(run)
            return
        if pipeline is not None and pipeline.phase == "wait":
            self._end_wait(self.state.waits[pipeline.pending_id], "cancelled", None)
            return
        if pipeline is None:
            self._cancel_storing(run)
        self._cancel(self._chunks_of(run) if pipeline is None else [pipeline.pending_id])

    def _cancel_storing(self, run: R) -> None:
        """Do not wait until the items of a stopping loop are stored."""
        pending = self.state.pending
        stores = [id_ for id_, operation in pending.items() if (operation.kind, operation.owner) == ("store", run.id)]
        for id_ in stores:
            del pending[id_]
            self._journal.add(Cancel(id_))
            self._mark_ready(run)

    def _cancel(self, ids: Iterable[str]) -> None:
        """Cancel calls or chunks, each once."""
        for id_ in ids:
            operation = self.state.pending.get(id_)
            if operation is not None and not operation.is_cancelled:
                operation.is_cancelled = True
                self._journal.add(Cancel(id_))

    def _is_stopped(self, run: R) -> bool:
        """Whether the run must not begin calls (rules of stopping, 2)."""
        return bool(run.stop) or (self.state.stop is not None and not self._is_exempt(run))

    # ---- what each machine decides --------------------------------------------------------------------------------

    @abstractmethod
    def _is_exempt(self, run: R) -> bool:
        """Whether the run is work of the stop itself."""

    def _chunks_of(self, run: R) -> Iterable[str]:
        """Return the chunks in flight of the run's loop."""
        del run
        return ()
