"""The machine of a playbook: facts in, commands out.

How it works. A run is a set of tokens. ``feed`` (intake.py) applies one fact, resumes the step that it concerns, and
starts all work that is ready: arrivals at steps become runs of steps or wait at joins, until nothing more can happen
without a new fact. When the only tokens left wait at the final step, that step runs, once, and the run ends. After
every stop the final step runs too, as cleanup, for at most its own timeout or CLEANUP_SECONDS; a second cancel request
skips it (semantics.md 6a).

The parts: starting.py begins the run, steps/ begins and ends runs of steps and follows their routes, Joins (join.py)
decides which waiting steps may run, the engine's pipelines run tasks, looping.py runs loops, ending.py ends the run.
This file manages the tokens.

An invalid fact raises ProtocolError before anything has changed. The failure of a playbook is data: Finish.
"""

from __future__ import annotations

from collections import Counter

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Step
from noetl_compiler.language.defaults import CLEANUP_SECONDS
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine import large_values
from noetl_temporal.machine.commands import Cancel, StoreValues
from noetl_temporal.machine.ending import finish
from noetl_temporal.machine.facts import LimitReached, ValuesStored
from noetl_temporal.machine.failure_log import Failure
from noetl_temporal.machine.failures import error_outcome, failure_at, template_outcome
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.loads import ARRIVALS
from noetl_temporal.machine.looping import Looping
from noetl_temporal.machine.loops.unfinished import unfinished_loop
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.starting import DEADLINE
from noetl_temporal.machine.state import Pending, PlaybookState, StepRun, restore_state
from noetl_temporal.machine.steps import loops as step_loops
from noetl_temporal.machine.steps.entry import deadline_id, emit_started, enter, is_admitted, new_run
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.exits import complete_run, end_run, skip
from noetl_temporal.machine.steps.graph_plan import GraphPlan
from noetl_temporal.machine.steps.host import StepHost
from noetl_temporal.machine.steps.routes import OK, StepExit, add_deferred_failures
from noetl_temporal.machine.tasks.task_executions import End

__all__ = ["MAX_IDLE_STARTS", "PlaybookMachine"]

MAX_IDLE_STARTS = 10_000
"""How many steps may start without a call ending in between: a cycle of steps without calls would never end."""

_VALUES = "values"
"""The id under which large values of the request and of ``set`` are stored."""


class PlaybookMachine(Looping):
    """One run of a graph. ``state`` is the ``snapshot`` of an earlier machine; an inner machine gets its state itself.
    ``limit`` is the maximum size of a value in bytes. ``secrets_key`` signs references to secrets; it is the same in
    the whole run and unknown outside. Without it templates see no secrets.
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
        machine_state = state if isinstance(state, PlaybookState) else _restore_state(state)
        self.graph = graph
        self.execution_id = execution_id
        self._plan = self._new_plan(graph)
        self._keychain = Keychain(graph, execution_id, secrets_key)
        super().__init__(machine_state, graph.source.file, limit)

    def _set_state(self, state: PlaybookState) -> None:
        super()._set_state(state)
        self._running: dict[str, int] = dict(Counter(run.step for run in state.runs.values()))
        self._execution = self._new_execution(state)

    def _new_plan(self, graph: Graph) -> GraphPlan:
        return GraphPlan(graph)

    def _new_execution(self, state: PlaybookState) -> Execution:
        return Execution(self._plan, self.execution_id, state, self._journal, self._keychain)

    def _runs_in(self, state: PlaybookState) -> Runs[StepRun]:
        state.runs = runs = Runs(state.runs)
        return runs

    def move_slots(self, seed: int) -> None:
        """Move the slots of event ids for chunks, so that after a reset of this run or its caller they are unused."""
        self.state.first_slot = step_loops.moved_slot(self.state.first_slot, seed)

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _deadline_passed(self, deadline: Pending) -> None:
        if deadline.owner:
            run = self._runs.get_mutable(deadline.owner)
            if run is not None:
                run.timeout_seconds = deadline.limit(run.started)
                self._stop_run(run)
        elif self.state.stop is None:
            seconds = deadline.limit(self.state.started)
            self._fail("timeout", "playbook", f"the playbook timed out after {seconds:g} s")
            self._stop("timeout")

    def _limit_reached(self, fact: LimitReached) -> None:
        if self.state.stop is None:
            self._fail("too_large", "playbook", fact.message)
            self._stop("limit", fact.message)

    def _fail(self, kind: str, step: str, message: str) -> None:
        span = self.graph.steps[step if step in self.graph.steps else self.graph.entry].span
        self._record_failure(failure_at(self.graph.source, step, error_outcome(kind, message), span))

    def _record_failure(self, failure: Failure) -> None:
        self.state.failures = self.state.failures.with_failure(failure)

    # ---- tokens ---------------------------------------------------------------------------------------------------

    def _start_runs_or_finish(self) -> None:
        state = self.state
        if state.is_idling:
            self._begin_storing_large_values()
        while state.phase == "running" and self.state.pause is None:
            while state.arrivals and state.phase == "running" and self._may_start():
                self._arrive(*state.arrivals.pop(0))
            if state.phase != "running" or state.arrivals or not self._release():
                return

    def _may_start(self) -> bool:
        """Whether steps may start. After a stop, tokens only move to the final step, which needs no budget."""
        if self.state.pause is not None:
            return False
        return self.state.stop is not None or not (self.state.is_idling or self.budget.is_spent())

    def _has_ready_work(self) -> bool:
        may_arrive = bool(self.state.arrivals) and not self._lacks_value(ARRIVALS)
        return self.state.phase == "running" and (bool(self.state.ready) or may_arrive)

    def _arrive(self, step: str, origin: str) -> None:
        state, final = self.state, self.graph.final
        if state.stop is not None and step != final:
            step = final
        if self._plan.joins.absorbs(step, origin, state.run_counts.get(step, 0) > 0):
            return
        if self._plan.joins.waits(step):
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
        ready = self._plan.joins.ready(state.waiting, running)
        if not ready and not running:
            ready = [self.graph.final]
        for step in ready:
            origins = state.waiting.pop(step, [])
            if step == self.graph.final:
                state.final_predecessors = list(dict.fromkeys(origins))
            self._run_step(step)
        return bool(ready)

    def _run_step(self, name: str) -> None:
        self.budget.add_work()
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
            add_deferred_failures(self._execution)
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
        self._end_or_hold(run, End("error", template_outcome(failure), None, failure.span or step.span))

    def _enter(self, step: Step, run: StepRun) -> None:
        """Begin a run of a step that may run."""
        try:
            run.event_id = emit_started(self._execution, step, run)
            self._add_run(run)
            self._set_deadline(step, run, enter(self._execution, step, run))
        except templates.TemplateFailure as failure:
            self._begin_failed(run, step, failure)
            return
        if step.loop is not None:
            self._mark_ready(run)
        elif step.tasks:
            self._begin_pipeline(run)
        else:
            self._end_or_hold(run, End("ok", OK, None, step.span))

    def _repeat(self, step: Step, failed: StepRun) -> None:
        run = new_run(self._execution, step)
        if failed.loop is not None and failed.keeps_items:
            run.loop = unfinished_loop(failed.loop, step_loops.loop_id(run))
            run.loop_stats = failed.loop_stats
        self._enter(step, run)

    def _add_run(self, run: StepRun) -> None:
        self._runs[run.id] = run
        self._running[run.step] = self._running.get(run.step, 0) + 1

    def _set_deadline(self, step: Step, run: StepRun, seconds: float | None) -> None:
        if seconds is None and step.name == self.graph.final and self.state.stop is not None:
            seconds = CLEANUP_SECONDS
        if seconds is not None:
            summary = f"{step.name} times out in {seconds:g} s"
            self._start_timer(deadline_id(run), "deadline", run.id, seconds, summary)

    # ---- runs -----------------------------------------------------------------------------------------------------

    def _begin_storing_large_values(self) -> None:
        """Request that large values are stored before the run continues as new, so that they are not copied."""
        state = self.state
        if self._limit <= INLINE_BYTES or state.stop is not None or _VALUES in state.pending:
            return
        values = large_values.begin_storing(state)
        if values:
            state.pending[_VALUES] = Pending("store", "")
            self._journal.add(StoreValues(_VALUES, tuple(values), f"{len(values)} large values"))

    def _cancel_storing_large_values(self) -> None:
        """Cancel the storing of large values, because the machine ends."""
        if self.state.pending.pop(_VALUES, None) is not None:
            self._journal.add(Cancel(_VALUES))

    def _values_stored(self, owner: str, fact: ValuesStored) -> None:
        """See Engine. Stored values are the items and scope of a loop, or large values of the run. They stay in the
        state if storing them failed.
        """
        if not owner:
            large_values.finish_storing(self.state, None if fact.error else fact.references)
            return
        self._items_stored(self._runs[owner], fact)

    def _run_ended(self, run: StepRun, end: End, kind: str) -> None:
        self._end_or_hold(run, end, kind)

    def _end_or_hold(self, run: StepRun, end: End, kind: str = "") -> None:
        if self.state.timers:
            self._drop_timer(deadline_id(run))
        if run.pipeline is not None and run.pipeline.executions:
            self.state.idle_starts = 0
        step = self.graph.steps[run.step]
        end = complete_run(self._execution, step, run, end, kind)
        if self._is_to_hold(step, end):
            self._begin_hold(step, run, end, kind)
        else:
            self._end_run(run, end, kind)

    def _end_run(self, run: StepRun, end: End, kind: str) -> None:
        self._remove_run(run)
        self._move_token(end_run(self._execution, self.graph.steps[run.step], run, end, kind))

    def _remove_run(self, run: StepRun) -> None:
        others = self._running.pop(run.step) - 1
        if others:
            self._running[run.step] = others

    def _move_token(self, step_exit: StepExit) -> None:
        """Move the token of a step run that has ended."""
        if step_exit.step == self.graph.final:
            self._finish()
            return
        if step_exit.fail_fast:
            self._stop("fail_fast", f"step {step_exit.step!r} failed")
        for target in step_exit.targets:
            self.state.arrivals.append((target, step_exit.step))

    # ---- stopping and ending --------------------------------------------------------------------------------------

    def _is_exempt(self, run: StepRun) -> bool:
        stop = self.state.stop
        return run.step == self.graph.final and not (stop is not None and stop.skips_cleanup)

    def _cancel_stopped_runs(self) -> None:
        """See Stopping. If the final step runs already, it becomes the cleanup, with its time limit. All holds end."""
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
        self._cancel_storing_large_values()
        self._journal.add(finish(self._execution, self._limit))

    def _host(self, run: StepRun) -> StepHost:
        return self._execution.host(self.graph.steps[run.step], run)

    def _warn(self, message: str) -> None:
        self._journal.warn(message, self.graph.source.path, "playbook", self.state.playbook_id)


def _restore_state(snapshot: Json) -> PlaybookState:
    return PlaybookState() if snapshot is None else restore_state(snapshot, PlaybookState)
