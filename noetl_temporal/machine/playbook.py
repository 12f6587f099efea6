"""The machine of a playbook: facts in, commands out.

How it works. A run is a set of tokens. ``feed`` (intake.py) applies one fact, resumes the step that it concerns, and
then settles: arrivals at steps become runs of steps or wait at joins, until nothing more can happen without a new fact.
When the only tokens left wait at the final step, that step runs, once, and the run ends. After every stop the final
step runs too, as cleanup, for at most its own timeout or CLEANUP_SECONDS; a second cancel request skips it
(semantics.md 6a).

The parts: starting.py begins the run, steps/ begins and ends runs of steps and follows their routes, Joins (join.py)
decides which waiting steps may run, the engine's pipelines run tasks, ending.py ends the run. This file manages the
tokens.

An invalid fact raises ProtocolError before anything has changed. The failure of a playbook is data: Finish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Loop, Step
from noetl_compiler.language.defaults import CLEANUP_SECONDS
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine import large_values
from noetl_temporal.machine.commands import Cancel, KeepValues
from noetl_temporal.machine.ending import finish
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import ChunkFinished, ChunkReport, LimitReached, ValuesKept
from noetl_temporal.machine.failure_log import Failure
from noetl_temporal.machine.failures import cancelled_outside, error_outcome, failure_at, template_outcome
from noetl_temporal.machine.ids import fitted
from noetl_temporal.machine.join import Joins
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.loads import ARRIVALS
from noetl_temporal.machine.loops.chunks import begin_no_more, joined, take_report
from noetl_temporal.machine.loops.offload import items_to_store, replace_by_refs
from noetl_temporal.machine.loops.result import loop_end, too_large
from noetl_temporal.machine.loops.unfinished import without_success
from noetl_temporal.machine.names import LOOP
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.starting import DEADLINE, Starting
from noetl_temporal.machine.state import LoopProgress, Pending, PlaybookState, StepRun, restored
from noetl_temporal.machine.steps import loops as step_loops
from noetl_temporal.machine.steps.entry import deadline_id, emit_started, enter, is_admitted, new_run
from noetl_temporal.machine.steps.execution import Execution, ends_of
from noetl_temporal.machine.steps.exits import completed, in_time, leave, skip
from noetl_temporal.machine.steps.host import StepHost
from noetl_temporal.machine.steps.routes import OK, StepExit, add_deferred
from noetl_temporal.machine.stored import logged_in
from noetl_temporal.machine.tally import tallied
from noetl_temporal.machine.tasks.pipeline import End

__all__ = ["MAX_IDLE_STARTS", "Machine"]

MAX_IDLE_STARTS = 10_000
"""How many steps may start without a call ending in between: a cycle of steps without calls would never end."""

_VALUES = "values"
"""The id under which large values of the request and of ``set`` are stored."""


class Machine(Starting):
    """One run of a graph. ``state`` is the ``snapshot`` of an earlier machine, or the state itself of a machine inside
    another. ``secrets_key`` signs references to secrets; it is the same in the whole run and unknown outside. Without
    it templates see no secrets.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        execution_id: int,
        state: Json | PlaybookState = None,
        limit: int = INLINE_BYTES,
        secrets_key: str = "",
    ) -> None:
        machine_state = state if isinstance(state, PlaybookState) else _restored(state)
        self.graph = graph
        self.execution_id = execution_id
        self._joins = Joins(graph)
        self._ends = ends_of(graph)
        self._keychain = Keychain(graph, execution_id, secrets_key)
        super().__init__(machine_state, graph.source.file, limit)

    def _set_state(self, state: PlaybookState) -> None:
        super()._set_state(state)
        self._running = Counter(run.step for run in state.runs.values())
        self._execution = Execution(self.graph, self.execution_id, state, self._journal, {}, self._keychain, self._ends)

    def _runs_in(self, state: PlaybookState) -> Runs[StepRun]:
        state.runs = runs = Runs(state.runs)
        return runs

    def move_slots(self, seed: int) -> None:
        """After a reset of this run or its caller: its chunks must not share id slots with those before it."""
        self.state.first_slot = step_loops.moved_slot(self.state.first_slot, seed)

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _deadline_passed(self, deadline: Pending) -> None:
        if deadline.owner:
            run = self._runs.get_mutable(deadline.owner)
            if run is not None:
                run.limit = deadline.limit(run.started)
                self._stop_run(run)
        elif self.state.stop is None:
            seconds = deadline.limit(self.state.started)
            self._fail("timeout", "playbook", f"the playbook timed out after {seconds:g} s")
            self._stop("timeout")

    def _limit_reached(self, event: LimitReached) -> None:
        if self.state.stop is None:
            self._fail("too_large", "playbook", event.message)
            self._stop("limit", event.message)

    def _fail(self, kind: str, step: str, message: str) -> None:
        span = self.graph.steps[step if step in self.graph.steps else self.graph.entry].span
        self._record_failure(failure_at(self.graph.source, step, error_outcome(kind, message), span))

    def _record_failure(self, failure: Failure) -> None:
        self.state.failures = self.state.failures.with_failure(failure)

    def _chunk_finished(self, run: StepRun, event: ChunkFinished, *, cancelled_here: bool) -> None:
        step, progress, report = self.graph.steps[run.step], _loop_of(run), event.report
        self.state.idle_starts = 0
        self._forget_waits(event.chunk_id)
        chunk = progress.chunks.pop(event.chunk_id)
        step_loops.record_slot(self._execution, chunk.slot, report)
        if report.status == "cancelled" and not cancelled_here:
            progress.failure = cancelled_outside("loop")
        goes_on = not self._is_stopped(run) and not _stops_iterations(step, progress, report)
        take_report(progress, chunk, report, goes_on=goes_on)
        for one in report.mistakes:
            self._host(run).warn(one.message, one.span)
        is_ready = run.id in self.state.ready
        if not goes_on:
            self._cancel(progress.chunks)
            if is_ready:
                self.state.ready.remove(run.id)
        elif progress.ranges and not is_ready:
            self._ready(run)
        self._end_loop_when_over(run)

    def _end_loop_when_over(self, run: StepRun) -> bool:
        step, progress = self.graph.steps[run.step], _loop_of(run)
        if progress.chunks or progress.ranges:
            return False
        report = joined(progress)
        run.loop_attempts, run.loop_retries = report.attempts, report.retries
        run.loop_stats = step_loops.own_stats(progress, report)
        self.state.inside = tallied(self.state.inside, report.steps)
        self.state.left |= {name: record for name, (_, record) in report.left.items()}
        end, host = self._loop_end(step, run, progress, report), self._host(run)
        try:
            for _, target, value in report.assigns:
                host.write([(target, value)])
            host.emit_set([(target, value) for _, target, value in report.assigns])
        except templates.TemplateFailure as failure:
            end = end._replace(status="error", outcome={**end.outcome, **template_outcome(failure)})
        self._end_loop(run, end)
        return True

    def _loop_end(self, step: Step, run: StepRun, progress: LoopProgress, report: ChunkReport) -> End:
        """The end of a loop. If the loop itself failed, it fails even if failures of items are tolerated."""
        refused = too_large(report.results, self._limit)
        results = report.results if refused is None else []
        end = loop_end(step, self.graph.names, results, report.stats, report.stored)
        if self._is_stopped(run) and (report.status == "cancelled" or report.stats["skipped"]):
            return end._replace(status="cancelled")
        failure = progress.failure or report.failure or refused
        return end if failure is None else end._replace(status="error", outcome={**end.outcome, **failure})

    # ---- tokens ---------------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        state = self.state
        if state.holding:
            self._keep_large_values()
        while state.phase == "running" and not self.is_paused:
            while state.arrivals and state.phase == "running" and self._may_start():
                self._arrive(*state.arrivals.pop(0))
            if state.phase != "running" or state.arrivals or not self._release():
                return

    def _may_start(self) -> bool:
        """Whether steps may start. After a stop, tokens only move to the final step, which needs no budget."""
        if self.is_paused:
            return False
        return self.state.stop is not None or not (self.state.holding or self.budget.is_spent)

    def _is_waiting_for_budget(self) -> bool:
        may_arrive = bool(self.state.arrivals) and not self._lacks_value(ARRIVALS)
        return self.state.phase == "running" and (bool(self.state.ready) or may_arrive)

    def _arrive(self, step: str, origin: str) -> None:
        state, final = self.state, self.graph.final
        if state.stop is not None and step != final:
            step = final
        if self._joins.absorbs(step, origin, state.counts.get(step, 0) > 0):
            return
        if self._joins.waits(step):
            state.waiting.setdefault(step, []).append(origin)
        else:
            self._run_step(step)

    def _release(self) -> bool:
        """Start the steps that need not wait any more; False if the run waits for a fact."""
        state, running = self.state, self._running
        if self.graph.final in running or (running and state.waiting.keys() <= {self.graph.final}):
            return False
        if state.stop is not None:
            state.waiting = {self.graph.final: [origin for origins in state.waiting.values() for origin in origins]}
        ready = self._joins.ready(state.waiting, running)
        if not ready and not running:
            ready = [self.graph.final]
        for step in ready:
            origins = state.waiting.pop(step, [])
            if step == self.graph.final:
                state.leads = list(dict.fromkeys(origins))
            self._run_step(step)
        return bool(ready)

    def _run_step(self, name: str) -> None:
        self.budget.work()
        stop = self.state.stop
        if name == self.graph.final and stop is not None and stop.skips_cleanup:
            self._finish()
            return
        self.state.idle_starts += 1
        if self.state.idle_starts == MAX_IDLE_STARTS:
            message = f"{MAX_IDLE_STARTS:,} steps ran without any call: a cycle that never ends"
            self._fail("budget", name, message)
            self._stop("budget", message)
            self._arrive(name, name)
            return
        self._start_run(self.graph.steps[name])

    def _start_run(self, step: Step) -> None:
        if self.observer is not None:
            self.observer(step.name, self.state)
        if step.name == self.graph.final:
            add_deferred(self._execution)
        run = new_run(self._execution, step)
        try:
            if not is_admitted(self._execution, step, run):
                self._move_token(skip(self._execution, step, run))
                return
        except templates.TemplateFailure as failure:
            self._begin_failed(run, step, failure)
            return
        self._enter(step, run)

    def _begin_failed(self, run: StepRun, step: Step, failure: templates.TemplateFailure) -> None:
        if not run.event_id:
            run.event_id = emit_started(self._execution, step, run)
            self._add_run(run)
        self._leave(run, End("error", template_outcome(failure), None, failure.span or step.span))

    def _enter(self, step: Step, run: StepRun) -> None:
        """Begin a run that was admitted."""
        try:
            run.event_id = emit_started(self._execution, step, run)
            self._add_run(run)
            self._set_deadline(step, run, enter(self._execution, step, run))
        except templates.TemplateFailure as failure:
            self._begin_failed(run, step, failure)
            return
        if step.loop is not None:
            self._ready(run)
        elif step.tasks:
            self._begin_pipeline(run)
        else:
            self._leave(run, End("ok", OK, None, step.span))

    def _repeat(self, step: Step, failed: StepRun) -> None:
        run = new_run(self._execution, step)
        if failed.loop is not None and failed.loop.claims is None:
            run.loop = without_success(failed.loop, step_loops.loop_id(run))
        self._enter(step, run)

    def _add_run(self, run: StepRun) -> None:
        self._runs[run.id] = run
        self._running[run.step] += 1

    def _set_deadline(self, step: Step, run: StepRun, seconds: float | None) -> None:
        if seconds is None and step.name == self.graph.final and self.state.stop is not None:
            seconds = CLEANUP_SECONDS
        if seconds is not None:
            summary = f"{step.name} times out in {seconds:g} s"
            self._start_timer(deadline_id(run), "deadline", run.id, seconds, summary)

    # ---- runs -----------------------------------------------------------------------------------------------------

    def _begin_loop(self, run: StepRun) -> bool:
        step = self.graph.steps[run.step]
        assert step.loop is not None  # noqa: S101 - only a step with a loop is ready without a pipeline
        try:
            if run.loop is None:
                if step_loops.open_loop(self._execution, step, step.loop, run, self.budget, self._limit) is None:
                    self._ready(run)
                    return False
                if self._keeps_items(run):
                    return False
            elif not run.loop_event_id:
                step_loops.emit_loop_started(self._execution, step, step.loop, run, run.loop)
            self._begin_chunks(run, step, step.loop)
        except templates.TemplateFailure as failure:
            return self._loop_failed(run, failure)
        return self._end_loop_when_over(run)

    def _keeps_items(self, run: StepRun) -> bool:
        """Store the items of a large loop before any of them begins; the run waits for that."""
        progress = _loop_of(run)
        given = items_to_store(progress, self._limit)
        if given is None:
            return False
        id_ = fitted(f"{progress.id}:items")
        self.state.pending[id_] = Pending("keep", run.id)
        self._journal.send(KeepValues(id_, given, f"{progress.total:,} items of {run.step}"))
        return True

    def _keep_large_values(self) -> None:
        """Store large values before the run continues as new, so that they are not copied."""
        state = self.state
        if self._limit <= INLINE_BYTES or state.stop is not None or _VALUES in state.pending:
            return
        given = large_values.begin_storing(state)
        if given:
            state.pending[_VALUES] = Pending("keep", "")
            self._journal.send(KeepValues(_VALUES, tuple(given), f"{len(given)} large values"))

    def _drop_values(self) -> None:
        """The machine ends: do not wait for values to be stored."""
        if self.state.pending.pop(_VALUES, None) is not None:
            self._journal.send(Cancel(_VALUES))

    def _values_kept(self, owner: str, event: ValuesKept) -> None:
        """The items and scope of a loop, or large values of the run, were stored: drop them, unless that failed."""
        if not owner:
            large_values.finish_storing(self.state, None if event.error else event.kept)
            return
        run = self._runs[owner]
        if not event.error:
            replace_by_refs(_loop_of(run), event.kept)
        self._ready(run)

    def _begin_chunks(self, run: StepRun, step: Step, loop: Loop) -> None:
        """Begin as many chunks as possible; the run stays ready if only the budget or calls in flight prevent more."""
        progress = _loop_of(run)
        while self._can_begin():
            command = step_loops.begin_chunk(self._execution, step, loop, run, progress)
            if command is None:
                return
            self.state.pending[command.chunk_id] = Pending("chunk", run.id)
            self._journal.send(command)
        if progress.ranges:
            self._ready(run)

    def _loop_failed(self, run: StepRun, failure: templates.TemplateFailure) -> bool:
        """A template failed before the loop began, or there was no slot for a chunk; True if the run ended."""
        step, outcome = self.graph.steps[run.step], template_outcome(failure)
        if run.loop is None:
            self._leave(run, End("error", outcome, None, failure.span or step.span))
            return True
        run.loop.failure = outcome
        begin_no_more(run.loop)
        return self._end_loop_when_over(run)

    def _loop_stopped(self, run: StepRun) -> None:
        if run.loop is not None:
            begin_no_more(run.loop)
            self._end_loop_when_over(run)
            return
        step = self.graph.steps[run.step]
        outcome = error_outcome("cancelled", "cancelled before its loop began")
        self._leave(run, End("cancelled", outcome, None, step.span))

    def _chunks_of(self, run: StepRun) -> Iterable[str]:
        return () if run.loop is None else tuple(run.loop.chunks)

    def _end_loop(self, run: StepRun, end: End) -> None:
        step = self.graph.steps[run.step]
        end = in_time(step, run, end)
        row = step_loops.emit_loop_end(self._execution, step, run, end)
        self._leave(run, end._replace(outcome=logged_in(end.outcome, row)), LOOP)

    def _run_ended(self, run: StepRun, end: End, kind: str) -> None:
        self._leave(run, end, kind)

    def _leave(self, run: StepRun, end: End, kind: str = "") -> None:
        self._drop_timer(deadline_id(run))
        if run.pipeline is not None and run.pipeline.executions:
            self.state.idle_starts = 0
        step = self.graph.steps[run.step]
        end = completed(self._execution, step, run, end, kind)
        if self._is_to_hold(step, end):
            self._begin_hold(step, run, end, kind)
        else:
            self._end_run(run, end, kind)

    def _end_run(self, run: StepRun, end: End, kind: str) -> None:
        self._remove_run(run)
        self._move_token(leave(self._execution, self.graph.steps[run.step], run, end, kind))

    def _remove_run(self, run: StepRun) -> None:
        self._running[run.step] -= 1
        if not self._running[run.step]:
            del self._running[run.step]

    def _move_token(self, ended: StepExit) -> None:
        """Move the token of a step run that has ended."""
        if ended.step == self.graph.final:
            self._finish()
            return
        if ended.fail_fast:
            self._stop("fail_fast", f"step {ended.step!r} failed")
        self.state.arrivals.extend((target, ended.step) for target in ended.targets)

    # ---- stopping and ending --------------------------------------------------------------------------------------

    def _is_exempt(self, run: StepRun) -> bool:
        stop = self.state.stop
        return run.step == self.graph.final and not (stop is not None and stop.skips_cleanup)

    def _cancel_stopped_runs(self) -> None:
        """If the final step runs already, it is the cleanup, with its time limit; no step is held any more."""
        super()._cancel_stopped_runs()
        self._end_all_holds()
        for run in self._runs.all_mutable():
            if self._is_exempt(run) and deadline_id(run) not in self.state.timers:
                self._set_deadline(self.graph.steps[run.step], run, None)

    def _finish(self) -> None:
        state = self.state
        state.phase = "ended"
        state.arrivals.clear()
        self._drop_timer(DEADLINE)
        self._drop_loads()
        self._drop_values()
        self._journal.send(finish(self._execution, self._limit))

    def _host(self, run: StepRun) -> StepHost:
        return self._execution.host(self.graph.steps[run.step], run)

    def _warn(self, message: str) -> None:
        self._journal.warn(message, self.graph.source.path, "playbook", self.state.playbook_id)


def _restored(snapshot: Json) -> PlaybookState:
    return PlaybookState() if snapshot is None else restored(snapshot, PlaybookState)


def _loop_of(run: StepRun) -> LoopProgress:
    if run.loop is None:
        raise ProtocolError(f"{run.id} runs no loop")
    return run.loop


def _stops_iterations(step: Step, progress: LoopProgress, report: ChunkReport) -> bool:
    """Whether no more items may begin: one failed under fail_fast, or the loop itself failed."""
    is_fail_fast = step.loop is not None and step.loop.on_error == "fail_fast"
    is_failed = progress.failure is not None or report.failure is not None
    return is_failed or (is_fail_fast and report.failures.total > 0)
