"""The part of a playbook's machine that runs the loops of steps, divides them into chunks and joins their reports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Loop, Step
from noetl_temporal.machine.commands import StoreValues
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import ChunkFinished, ChunkReport, ValuesStored
from noetl_temporal.machine.failures import cancelled_outside, error_outcome, template_outcome
from noetl_temporal.machine.ids import shorten_id
from noetl_temporal.machine.loops.chunks import join_reports, record_report, skip_remaining_items
from noetl_temporal.machine.loops.offload import items_to_store, replace_by_refs
from noetl_temporal.machine.loops.result import loop_end, too_large
from noetl_temporal.machine.names import LOOP_KIND
from noetl_temporal.machine.starting import Starting
from noetl_temporal.machine.state import LoopProgress, Pending, StepRun
from noetl_temporal.machine.steps import loops as step_loops
from noetl_temporal.machine.steps.exits import with_timeout
from noetl_temporal.machine.stored import with_row
from noetl_temporal.machine.tally import add_tallies
from noetl_temporal.machine.tasks.task_executions import End

__all__ = ["Looping"]


class Looping(Starting):
    """A machine whose steps may have loops, which run in chunks."""

    def _begin_loop(self, run: StepRun) -> bool:
        step = self.graph.steps[run.step]
        assert step.loop is not None  # noqa: S101 - only a step with a loop is ready without a pipeline
        try:
            if run.loop is None:
                if step_loops.open_loop(self._execution, step, step.loop, run, self.budget, self._limit) is None:
                    self._mark_ready(run)
                    return False
                if self._begin_storing_items(run):
                    return False
            elif not run.loop_event_id:
                step_loops.emit_loop_started(self._execution, step, step.loop, run, run.loop)
            self._begin_chunks(run, step, step.loop)
        except templates.TemplateFailure as failure:
            return self._loop_failed(run, failure)
        return self._end_loop_when_over(run)

    def _begin_storing_items(self, run: StepRun) -> bool:
        """Request that the items of a large loop are stored; True if its chunks must wait for that."""
        progress = _loop_of(run)
        values = items_to_store(progress, self._limit)
        if values is None:
            return False
        id_ = shorten_id(f"{progress.id}:items")
        self.state.pending[id_] = Pending("store", run.id)
        self._journal.add(StoreValues(id_, values, f"{progress.total:,} items of {run.step}"))
        return True

    def _begin_chunks(self, run: StepRun, step: Step, loop: Loop) -> None:
        """Begin as many chunks as possible. The run stays ready if only the budget or operations in flight prevent
        another chunk.
        """
        progress = _loop_of(run)
        while self._can_begin():
            command = step_loops.begin_chunk(self._execution, step, loop, run, progress)
            if command is None:
                return
            self.state.pending[command.chunk_id] = Pending("chunk", run.id)
            self._journal.add(command)
        if progress.ranges:
            self._mark_ready(run)

    def _chunk_finished(self, run: StepRun, fact: ChunkFinished, *, cancelled_here: bool) -> None:
        step, progress, report = self.graph.steps[run.step], _loop_of(run), fact.report
        self.state.idle_starts = 0
        self._forget_waits(fact.chunk_id)
        chunk = progress.chunks.pop(fact.chunk_id)
        step_loops.record_slot(self._execution, chunk.slot, report)
        if report.status == "cancelled" and not cancelled_here:
            progress.failure = cancelled_outside("loop")
        continues = not self._is_stopped(run) and not _stops_iterations(step, progress, report)
        record_report(progress, chunk, report, continues=continues)
        for warning in report.warnings:
            self._execution.host(step, run).warn(warning.message, warning.span)
        is_ready = run.id in self.state.ready
        if not continues:
            self._cancel(progress.chunks)
            if is_ready:
                self.state.ready.remove(run.id)
        elif progress.ranges and not is_ready:
            self._mark_ready(run)
        self._end_loop_when_over(run)

    def _end_loop_when_over(self, run: StepRun) -> bool:
        """End the loop if no item is left to begin and no chunk is in flight; True if it ended."""
        step, progress = self.graph.steps[run.step], _loop_of(run)
        if progress.chunks or progress.ranges:
            return False
        report = join_reports(progress)
        run.loop_attempts, run.loop_retries = report.attempts, report.retries
        run.loop_stats = report.stats
        self.state.loop_tallies = add_tallies(self.state.loop_tallies, report.steps)
        self.state.route_records |= {name: record for name, (_, record) in report.route_records.items()}
        end, host = self._loop_end(step, run, progress, report), self._execution.host(step, run)
        try:
            for _, target, value in report.assigns:
                host.write([(target, value)])
            host.emit_set([(target, value) for _, target, value in report.assigns])
        except templates.TemplateFailure as failure:
            end = replace(end, status="error", outcome={**end.outcome, **template_outcome(failure)})
        self._end_loop(run, end)
        return True

    def _loop_end(self, step: Step, run: StepRun, progress: LoopProgress, report: ChunkReport) -> End:
        """Return the end of a loop. If the loop itself failed, it fails even if failures of items are tolerated."""
        size_failure = too_large(report.results, self._limit)
        results = report.results if size_failure is None else []
        end = loop_end(step, self.graph.names, results, report.stats, report.stored)
        if self._is_stopped(run) and (report.status == "cancelled" or report.stats["skipped"]):
            return replace(end, status="cancelled")
        failure = progress.failure or report.failure or size_failure
        return end if failure is None else replace(end, status="error", outcome={**end.outcome, **failure})

    def _end_loop(self, run: StepRun, end: End) -> None:
        step = self.graph.steps[run.step]
        end = with_timeout(step, run, end)
        row = step_loops.emit_loop_end(self._execution, step, run, end)
        self._end_or_hold(run, replace(end, outcome=with_row(end.outcome, row)), LOOP_KIND)

    def _loop_failed(self, run: StepRun, failure: templates.TemplateFailure) -> bool:
        """Fail the loop, because a template failed before it began or a chunk got no slot; True if the run ended."""
        step, outcome = self.graph.steps[run.step], template_outcome(failure)
        if run.loop is None:
            self._end_or_hold(run, End("error", outcome, None, failure.span or step.span))
            return True
        run.loop.failure = outcome
        skip_remaining_items(run.loop)
        return self._end_loop_when_over(run)

    def _loop_stopped(self, run: StepRun) -> None:
        if run.loop is not None:
            skip_remaining_items(run.loop)
            self._end_loop_when_over(run)
            return
        step = self.graph.steps[run.step]
        outcome = error_outcome("cancelled", "cancelled before its loop began")
        self._end_or_hold(run, End("cancelled", outcome, None, step.span))

    def _chunks_of(self, run: StepRun) -> Iterable[str]:
        return () if run.loop is None else tuple(run.loop.chunks)

    def _items_stored(self, run: StepRun, fact: ValuesStored) -> None:
        """Replace the items and scope of a loop by references to them; they stay in the state if storing failed."""
        if not fact.error:
            replace_by_refs(_loop_of(run), fact.references)
        self._mark_ready(run)

    @abstractmethod
    def _end_or_hold(self, run: StepRun, end: End, kind: str = "") -> None:
        """End the run of a step, or hold it if it failed and a person is to decide. ``kind`` is that of its result."""


def _loop_of(run: StepRun) -> LoopProgress:
    if run.loop is None:
        raise ProtocolError(f"{run.id} runs no loop")
    return run.loop


def _stops_iterations(step: Step, progress: LoopProgress, report: ChunkReport) -> bool:
    """Whether no more items may begin: one failed under fail_fast, or the loop itself failed."""
    is_fail_fast = step.loop is not None and step.loop.on_error == "fail_fast"
    is_failed = progress.failure is not None or report.failure is not None
    return is_failed or (is_fail_fast and report.failures.total > 0)
