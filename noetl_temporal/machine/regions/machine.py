"""The machine of one iteration of a loop over steps.

How it works. The steps of a region run like a small playbook: tokens, joins and routes work as in a playbook's machine,
with the names of the iteration in scope. This machine has no workflow of its own. It is an inner machine of its loop's
machine and shares its journal, its budget and everything in flight, so the shell sees one machine. A fact goes to the
machine of the run that it concerns (``_machine_of_run``). Ready work starts in the outer machine first, then in the
inner ones. A loop inside an iteration is an inner machine of the iteration's machine in the same way, as one chunk with
all its items.

An iteration ends when all its branches have ended. It fails if a failure in it was not handled. Its result maps each
step to its last result, and the region's end to a list with one result per arrival (dev/decisions/0010).

The routes of an item, which begin when the tasks of the loop step have ended for it, are such a region without an end:
branches end at the final step of the playbook, which is not in the region. The result of the iteration is that of the
tasks; templates see it under the name of the loop step (dev/decisions/0067).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Loop, Route, Step
from noetl_temporal.machine.call import LeaseRenewal, PlainOutcome
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import ChunkFinished
from noetl_temporal.machine.failures import error_outcome, failure_at, kind_of, template_outcome
from noetl_temporal.machine.ids import escape_name
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.loops.claims import LEASE_LOST
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.records import StepRecord
from noetl_temporal.machine.regions.region import Region, share_state
from noetl_temporal.machine.state import Chunk, Iteration, LoopState, PipelineState, PlaybookState, StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.graph_plan import GraphPlan
from noetl_temporal.machine.steps.loops import chunk_input
from noetl_temporal.machine.steps.routes import OK, StepExit, add_deferred_failures, enter_region
from noetl_temporal.machine.steps.summary import tally_of
from noetl_temporal.machine.stored import loaded_result
from noetl_temporal.machine.tally import StepStatus, StepTally, add_tallies
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.tasks.waits import WaitEnd
from noetl_temporal.machine.waits.wait import Wait

if TYPE_CHECKING:
    from noetl_temporal.machine.loops.inner import InnerLoop
    from noetl_temporal.machine.loops.iterations import Iterations

__all__ = ["RegionMachine"]


class RegionMachine(PlaybookMachine):
    """The machine of an ``iteration`` of ``outer_loop``; ``end`` is set when the iteration has ended."""

    def __init__(self, outer_loop: Iterations, region: Region, iteration: Iteration) -> None:
        self._outer_loop = outer_loop
        self._region = region
        self._iteration = iteration
        self._loops: dict[str, InnerLoop] = {}
        self.end: End | None = None
        chunk = outer_loop.input
        self._prefix = f"{chunk.loop_id}/{iteration.index}/"
        super().__init__(
            region.plan.graph, execution_id=chunk.execution_id, state=iteration.region, limit=outer_loop.value_limit
        )
        self.budget = outer_loop.budget
        self._keychain.key = chunk.secrets_key

    def _set_state(self, state: PlaybookState) -> None:
        share_state(state, self._outer_loop.state)
        super()._set_state(state)

    def _new_plan(self, graph: Graph) -> GraphPlan:
        """Return the plan of the region, which all iterations share."""
        del graph
        return self._region.plan

    def _new_execution(self, state: PlaybookState) -> Execution:
        iteration_host = self._outer_loop.host_of(self._iteration)
        return Execution(
            self._plan, self.execution_id, state, self._journal, self._keychain, iteration_host, self._prefix
        )

    def _new_journal(self, state: PlaybookState) -> Journal:
        del state
        return self._outer_loop.journal_of(self._iteration)

    @property
    def journal(self) -> Journal:
        """The journal that adds the iteration to its events."""
        return self._journal

    @property
    def kind(self) -> str:
        """The kind of the result of the loop's own tasks, if it has any."""
        tasks = self.state.records.get(self._outer_loop.input.step.name)
        return "" if tasks is None else tasks.kind

    def lease(self) -> LeaseRenewal | None:
        """Return the lease of the row that the iteration processes."""
        return self._outer_loop.host_of(self._iteration).lease()

    @property
    def steps(self) -> dict[str, StepTally]:
        """The tallies of the steps of the iteration and of the loops inside it."""
        return add_tallies(self.state.loop_tallies, {name: tally_of(record) for name, record in self._own_records()})

    @property
    def route_records(self) -> Iterable[tuple[str, StepRecord]]:
        """The records of steps on the routes of the item, for the templates of steps after the loop. A region with an
        end has none: there the result of the loop has the results of its steps.
        """
        return () if self._region.end else (*self.state.route_records.items(), *self._own_records())

    def _own_records(self) -> Iterable[tuple[str, StepRecord]]:
        """Return the records of the iteration's steps, without that of the loop step, which is for the item's tasks."""
        loop_step = self._outer_loop.input.step.name
        return ((name, record) for name, record in self.state.records.items() if name != loop_step)

    @property
    def has_ready_work(self) -> bool:
        """Whether this machine or an inner one has work that may begin when the budget allows."""
        return self._has_ready_work() or any(machine.has_ready_work for _, machine in self._inner_machines())

    # ---- the iteration --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Enter the region: move tokens to its first steps."""
        step = self._outer_loop.input.step
        if step.loop is None or step.loop.entry_route is None:
            return
        routes = enter_region(self._execution, *self._entry(step, step.loop.entry_route))
        if routes.evaluation_failure is not None:
            self._record_failure(
                failure_at(
                    self.graph.source, step.name, routes.evaluation_failure.outcome, routes.evaluation_failure.span
                )
            )
        self.state.arrivals.extend((arc.target, "") for arc in routes.chosen.arcs)

    def begin_route(self, tasks: PipelineState, end: End, kind: str) -> End | None:
        """Follow the routes of the item, whose ``tasks`` have ended with ``end``; ``kind`` is that of their result.

        Returns the end of the iteration if no route is followed, else None. A route that is followed after a failure
        handles it.
        """
        step = self._outer_loop.input.step
        if step.loop is None or step.loop.entry_route is None:
            return end
        status: StepStatus = "failed" if end.status == "error" else "completed"
        self.state.records[step.name] = StepRecord(status, kind, end.outcome, tasks.records)
        routes = enter_region(self._execution, *self._entry(step, step.loop.entry_route), end, kind)
        if routes.evaluation_failure is not None:
            outcome = {**end.outcome, **routes.evaluation_failure.outcome}
            return end if end.status == "error" else replace(routes.evaluation_failure, outcome=outcome)
        self.state.arrivals.extend((arc.target, "") for arc in routes.chosen.arcs)
        return None if routes.chosen.arcs else end

    def _entry(self, step: Step, enter: Route) -> tuple[Step, StepRun]:
        """Return the loop step with the arcs into the region as its route, and a run of it."""
        id_ = f"{self._prefix}{escape_name(step.name)}"
        run = StepRun(id=id_, event_id=self._iteration.event_id, started=0, step=step.name)
        return replace(step, loop=None, route=enter), run

    @property
    def is_waiting_for_facts(self) -> bool:
        """Whether ``start_ready_work`` would change nothing, because the iteration waits for facts."""
        state, outer_state = self.state, self._outer_loop.state
        return (
            state.phase == "running"
            and bool(self._running)
            and not (state.ready or state.arrivals or state.waiting or state.stop)
            and (state.is_idling, state.pause) == (outer_state.is_idling, outer_state.pause)
            and not any(run.inner or (run.held and run.held.retry_decision) for run in state.runs.values())
        )

    def start_ready_work(self) -> None:
        """Start the runs and calls that are ready, within the budget."""
        self.state.is_idling, self.state.pause = self._outer_loop.state.is_idling, self._outer_loop.state.pause
        if not self.is_paused:
            self._retry_decided()
        self._start_ready_work()

    def stop(self) -> None:
        """Stop: begin nothing, and cancel what is in flight."""
        self._stop_with(self._outer_loop.state.stop)

    def _arrive(self, step: str, origin: str) -> None:
        """Move a token to a step. One that leaves the region, to the final step of the playbook, ends its branch."""
        super()._arrive(step if step in self.graph.steps else self.graph.final, origin)

    def _run_step(self, name: str) -> None:
        if name == self.graph.final:
            self._finish()
        else:
            super()._run_step(name)

    def _move_token(self, step_exit: StepExit) -> None:
        record = self.state.records.get(step_exit.step)
        if step_exit.step == self._region.end and record is not None and record.status == "completed":
            result = loaded_result(record.outcome)
            self._iteration.arrival_results += [] if result is None else [result]
        super()._move_token(step_exit)

    def _finish(self) -> None:
        self.state.phase = "ended"
        self.state.arrivals.clear()
        add_deferred_failures(self._execution)
        self.end = self._end_of_region()

    def _end_of_region(self) -> End:
        cause, span = self.state.failures.cause, self._outer_loop.input.step.span
        if cause is not None:
            span = self.graph.steps[cause.step].span if cause.step in self.graph.steps else span
            return End("error", error_outcome(cause.kind, f"step {cause.step!r} failed: {cause.message}"), None, span)
        if self.state.stop is not None:
            return End("cancelled", error_outcome("cancelled", "cancelled"), None, span)
        try:
            return End("ok", self._outcome(), None, span)
        except templates.TemplateFailure as failure:
            return End("error", template_outcome(failure), None, span)

    def _outcome(self) -> PlainOutcome:
        """Return the outcome of the item's tasks, without an error, which a route has handled; without such tasks, the
        results of the region's steps.
        """
        tasks = self.state.records.get(self._outer_loop.input.step.name)
        if tasks is None:
            return {**OK, "result": self._result()}
        return {**{name: part for name, part in tasks.outcome.items() if name != "error"}, "status": "ok"}

    def _result(self) -> dict[str, Json]:
        loop, end = self._outer_loop.input.step.loop, self._region.end
        records = self.state.records
        names = [name for name in (loop.region if loop else ()) if name in records and name != end]
        results = {name: loaded_result(records[name].outcome) for name in names}
        return {**results, end: self._iteration.arrival_results} if self._iteration.arrival_results else results

    def _fail(self, kind: str, step: str, message: str) -> None:
        span = self._outer_loop.input.step.span
        self._record_failure(failure_at(self.graph.source, step, error_outcome(kind, message), span))

    # ---- loops inside the iteration -------------------------------------------------------------------------------

    def _inner_machines(self) -> Iterable[tuple[str, InnerLoop]]:
        for id_, run in self.state.runs.items():
            if run.inner is not None:
                yield id_, self._inner_loop(run)

    def _inner_loop(self, run: StepRun) -> InnerLoop:
        machine = self._loops.get(run.id)
        if machine is None:
            step, progress = self.graph.steps[run.step], run.loop
            if step.loop is None or progress is None or run.inner is None:
                raise ProtocolError(f"{run.id} runs no loop")
            [chunk] = progress.chunks.values()
            input_ = chunk_input(self._execution, step, step.loop, run, progress, chunk)
            machine = self._loops[run.id] = self._outer_loop.inner_loop(input_, run.inner, self)
        return machine

    def _begin_chunks(self, run: StepRun, step: Step, loop: Loop) -> None:
        """Begin a chunk as an inner machine: of all items, or of one range of those that a retry runs."""
        progress = run.loop
        if progress is None or progress.chunks or not progress.ranges:
            return
        if progress.claims is None and not progress.reused_items:
            progress.ranges = [(0, progress.total)]
        (first, size), progress.frame = progress.ranges.pop(0), None
        chunk = Chunk(first, size, progress.max_in_flight, slot=0)
        input_ = chunk_input(self._execution, step, loop, run, progress, chunk)
        progress.chunks[input_.chunk_id] = chunk
        run.inner = LoopState(phase="running", started=self._journal.feed.at, ctx=progress.ctx)

    def _start_ready_inner_work(self) -> bool:
        has_ended = False
        for id_, inner in list(self._inner_machines()):
            inner.start_ready_work()
            if inner.report is not None:
                has_ended = True
                run = self._runs[id_]
                run.inner = None
                del self._loops[id_]
                self._chunk_finished(
                    run, ChunkFinished(self._journal.feed.at, inner.input.chunk_id, inner.report), cancelled_here=True
                )
        return has_ended

    def _cancel_run(self, run: StepRun) -> None:
        if run.inner is not None:
            self._inner_loop(run).stop()
        else:
            super()._cancel_run(run)

    def _begin_storing_items(self, run: StepRun) -> bool:
        """Return False: the items are stored with those of the outer loop."""
        del run
        return False

    def _is_to_hold(self, step: Step, end: End) -> bool:
        """Whether to hold the failed step. A row whose lease is lost is not held: no decision would have an effect."""
        return super()._is_to_hold(step, end) and kind_of(end.outcome) != LEASE_LOST

    def _adjust_deadlines(self) -> None:
        """Adjust the deadlines of the outermost loop, which has all timers."""
        self._outer_loop.adjust_deadlines()

    def _begin_storing_large_values(self) -> None:
        """Nothing to do: the outer loop stores them."""

    # ---- passed to the outer machine ------------------------------------------------------------------------------

    def _wait_opened(self, wait: Wait) -> None:
        self._outer_loop.wait_opened(wait)

    def _wait_closed(self, wait: Wait, ending: WaitEnd) -> None:
        self._outer_loop.wait_closed(wait, ending)
