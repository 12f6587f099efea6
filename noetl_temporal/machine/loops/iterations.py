"""The iterations of a loop: how they begin and end, and the inner machines of those that run several steps.

How it works. Iterations start in index order while fewer than ``max_in_flight`` run; each is a run of the step's tasks
with names of its own, on the same engine as the steps of a playbook. An iteration sees the values that it sets in
``ctx``; in a sequential loop the next iterations see them too. When the loop ends, the playbook applies these values in
index order, so that of the last index remains (semantics.md 16). A failed iteration stops the others only with
``on_error: fail_fast``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import merge_json
from noetl_temporal.machine.call import LeaseRenewal, PlainOutcome
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.engine import Engine
from noetl_temporal.machine.failure_log import Failure
from noetl_temporal.machine.failures import error_outcome, failure_at
from noetl_temporal.machine.journal import VALUE_BYTES, Journal
from noetl_temporal.machine.loops.host import IterationHost, iteration_ids
from noetl_temporal.machine.records import latest_records
from noetl_temporal.machine.regions.machine import RegionMachine
from noetl_temporal.machine.regions.region import Region, initial_state, region_of, without_shared
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.state import Iteration, LoopState, PipelineState
from noetl_temporal.machine.stored import loaded_result, logged_result, reference_in
from noetl_temporal.machine.tally import add_tallies
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import StepPlan
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.tasks.waits import WaitEnd
from noetl_temporal.machine.waits.wait import Wait
from noetl_temporal.shortening import abridge

if TYPE_CHECKING:
    from noetl_temporal.machine.loops.inner import InnerLoop

__all__ = ["Iterations"]

_END_EVENTS = {
    "ok": ("loop.iteration.done", "COMPLETED"),
    "error": ("loop.iteration.failed", "FAILED"),
    "cancelled": ("loop.iteration.cancelled", "CANCELLED"),
}


class Iterations(Engine[LoopState, Iteration]):
    """The part of a loop's machine that runs its iterations: the step's tasks, its region, or both."""

    def __init__(self, input_: ChunkInput, state: LoopState, limit: int) -> None:
        self.input = input_
        self._region = region_of(input_)
        self._plan = StepPlan(input_.step)
        self._has_stale_deadlines = False
        super().__init__(state, input_.source.file, limit)

    def _set_state(self, state: LoopState) -> None:
        super()._set_state(state)
        self._hosts: dict[str, IterationHost] = {}
        self._regions: dict[str, RegionMachine] = {}

    def snapshot(self) -> Json:
        """See Engine. Parts of the state that inner machines share with this one are included once."""
        snapshot: Json = super().snapshot()
        return snapshot if self._region is None else without_shared(snapshot)

    def _runs_in(self, state: LoopState) -> Runs[Iteration]:
        state.runs = runs = Runs(state.runs)
        return runs

    def _start_ready_work(self) -> None:
        super()._start_ready_work()
        if self._has_stale_deadlines and self.state.phase == "running":
            self._has_stale_deadlines = False
            self._adjust_deadlines()

    # ---- iterations -------------------------------------------------------------------------------------------------

    def _start_iterations(self) -> None:
        while self._can_begin_iteration() and self._may_start():
            self._begin_iteration(self.state.next_position)

    def _can_begin_iteration(self) -> bool:
        return len(self.state.runs) < self.input.max_in_flight and self._has_items_left()

    def _has_items_left(self) -> bool:
        state = self.state
        return state.stop is None and not state.is_closed and state.next_position < len(self.input.items)

    def _may_start(self) -> bool:
        return not (self.state.is_idling or self.state.pause is not None or self.budget.is_spent())

    def _has_ready_work(self) -> bool:
        state = self.state
        may_begin = bool(state.ready) or self._can_begin_iteration() or self._has_ready_inner_work()
        return state.phase == "running" and may_begin

    def _begin_iteration(self, position: int, *, claim: int = 0, row: Json = None) -> None:
        self.budget.add_work()
        state, index = self.state, self.input.first + position
        state.next_position = position + 1
        iteration = Iteration(self._run_id(str(index)), 0, self._journal.feed.at)
        iteration.index, iteration.claim_number, iteration.row = index, claim, row
        iteration.event_id = self._journal.emit(
            "loop.iteration.started",
            self.input.step.name,
            "iteration",
            "STARTED",
            parent=self.input.event_id,
            context={"element": abridge(self._element(position, row), VALUE_BYTES)},
            meta=iteration_ids(self.input, index),
        )
        state.runs[iteration.id] = iteration
        if self._region is None or self.input.step.tasks:
            self._begin_pipeline(iteration)
        else:
            iteration.region = initial_state(iteration)
            machine = self._region_machine(iteration, self._region)
            if self._is_stopped(iteration):
                machine.stop()
            machine.begin()

    def _element(self, position: int, row: Json) -> Json:
        """Return what the iteration processes: an item of the list, or the claimed row."""
        return self.input.items[position] if row is None else row

    def _run_id(self, name: str) -> str:
        """Return the id of a run of this loop, unique among all runs of the workflow."""
        return name

    def _take_pipeline(self, run: Iteration) -> PipelineState | None:
        """Count the calls of the run's pipeline, which has ended, and remove it."""
        pipeline, run.pipeline = run.pipeline, None
        if pipeline is not None:
            self.state.attempts += pipeline.attempts
            self.state.retries += pipeline.retries
        return pipeline

    def _run_ended(self, run: Iteration, end: End, kind: str) -> None:
        pipeline = self._take_pipeline(run)
        if self._region is None or pipeline is None or end.status == "cancelled":
            self._body_ended(run, end, kind)
        elif self._is_stopped(run):
            if end.status != "error":
                outcome = error_outcome("cancelled", "cancelled before the route of the item")
                end = End("cancelled", outcome, None, end.span)
            self._body_ended(run, end, kind)
        else:
            self._begin_route(run, self._region, pipeline, end, kind)

    def _body_ended(self, run: Iteration, end: End, kind: str, cause: Failure | None = None) -> None:
        """End an iteration whose tasks and steps have ended. ``kind`` is that of its result; for ``cause`` see
        ``_end_iteration``.
        """
        del kind
        self._end_iteration(run, end, cause)

    def _end_iteration(self, run: Iteration, end: End, cause: Failure | None = None) -> None:
        """End an iteration. ``cause`` is what failed first if it ran several steps."""
        state, index = self.state, run.index
        del state.runs[run.id]
        self._emit_end(run, end)
        del self._hosts[run.id]
        if run.assigns:
            state.assigns[index] = run.assigns
        match end.status:
            case "ok":
                state.succeeded += 1
                self._add_result(index, end.outcome)
                if self.input.is_sequential:
                    state.ctx = merge_json(state.ctx, run.ctx)
            case "error":
                self._iteration_failed(end, index, cause)
            case "cancelled":
                pass

    def _add_result(self, index: int, outcome: PlainOutcome) -> None:
        reference = reference_in(outcome)
        if reference is not None and reference.is_one:
            self.state.stored_results[index] = reference
        else:
            self.state.results[index] = loaded_result(outcome)

    def _iteration_failed(self, end: End, index: int, cause: Failure | None) -> None:
        step, source = self.input.step, self.input.source
        failure = cause or failure_at(
            source, step.name, end.outcome, end.span, run=self.input.step_run_id, task=end.task
        )
        failure = replace(failure, iteration=index)
        self.state.failures = self.state.failures.with_item_failure(failure)
        if step.loop is not None and step.loop.on_error == "fail_fast":
            self._stop("fail_fast", f"item {index} failed")

    def _emit_end(self, run: Iteration, end: End) -> None:
        name, status = _END_EVENTS[end.status]
        error: Mapping[str, Json] = end.outcome.get("error") or {}
        meta = {**self.host_of(run).meta}
        self._journal.emit(
            name,
            self.input.step.name,
            "iteration",
            status,
            parent=run.event_id,
            ends=run.event_id,
            started=run.started,
            result=logged_result(end.outcome, meta) if end.status == "ok" else None,
            error=str(error["message"]) if "message" in error else None,
            span=end.span if end.status == "error" else None,
            meta=meta,
        )

    def _is_exempt(self, run: Iteration) -> bool:
        del run
        return False

    def _host(self, run: Iteration) -> Host:
        return self.host_of(run)

    # ---- regions ----------------------------------------------------------------------------------------------------

    def _begin_route(self, run: Iteration, region: Region, tasks: PipelineState, end: End, kind: str) -> None:
        """Follow the routes of an item, whose tasks have ended; without a route, end its iteration."""
        run.region = initial_state(run)
        route_end = self._region_machine(run, region).begin_route(tasks, end, kind)
        if route_end is not None:
            self._drop_region(run)
            self._body_ended(run, route_end, kind)

    def _drop_region(self, run: Iteration) -> None:
        """Remove the machine of an iteration whose region has ended."""
        del self._regions[run.id]
        run.region = None

    def _region_machine(self, run: Iteration, region: Region) -> RegionMachine:
        machine = self._regions.get(run.id)
        if machine is None:
            machine = self._regions[run.id] = RegionMachine(self, region, run)
        return machine

    def _inner_machines(self) -> Iterable[tuple[str, RegionMachine]]:
        if self._region is not None:
            for id_, run in self.state.runs.items():
                if run.region is not None:
                    yield id_, self._region_machine(run, self._region)

    def _has_ready_inner_work(self) -> bool:
        return any(machine.has_ready_work for id_, machine in self._inner_machines() if not self._lacks_value(id_))

    def _start_ready_inner_work(self) -> bool:
        if self._region is None:
            return False
        has_ended = False
        for id_, machine in list(self._inner_machines()):
            if self._lacks_value(id_) or (machine.is_waiting_for_facts and id_ not in self.state.readers):
                continue
            self._start_reading(id_)
            run = self._runs[id_]  # a checkpoint copies it, with all of the iteration
            machine.start_ready_work()
            if machine.end is not None:
                has_ended = True
                self._drop_region(run)
                self.state.steps = add_tallies(self.state.steps, machine.steps)
                records = {name: (run.index, record) for name, record in machine.route_records}
                self.state.route_records = latest_records(self.state.route_records, records)
                self._body_ended(run, machine.end, machine.kind, machine.state.failures.cause)
        return has_ended

    def _cancel_run(self, run: Iteration) -> None:
        if self._region is None or run.region is None:
            super()._cancel_run(run)
        else:
            self.state.readers.pop(run.id, None)
            self._region_machine(run, self._region).stop()

    def _wake(self, run_id: str) -> bool:
        """See Intake. Nothing to do for an iteration with a region, whose ready work starts at every fact."""
        run = self._runs.get(run_id)
        return super()._wake(run_id) if run is None or run.region is None else True

    # ---- for inner machines -----------------------------------------------------------------------------------------

    @property
    def value_limit(self) -> int:
        """The maximum size of a value in bytes."""
        return self._limit

    def host_of(self, iteration: Iteration) -> IterationHost:
        """Return the host of an iteration, created once per machine."""
        host = self._hosts.get(iteration.id)
        if host is None:
            host = IterationHost(self.input, self._plan, self.state, iteration, self._journal, self._lease_of)
            self._hosts[iteration.id] = host
        return host

    def _lease_of(self, iteration: Iteration) -> LeaseRenewal | None:
        """Return the lease of the row that the iteration processes, or else of the outer iteration."""
        del iteration
        return self._outer_lease()

    def _outer_lease(self) -> LeaseRenewal | None:
        """Return the lease of the row that the outer iteration of this loop processes, if there is one."""
        return None

    def journal_of(self, iteration: Iteration) -> Journal:
        """Return a journal that adds the ids of the iteration to each event."""
        ids = iteration_ids(self.input, iteration.index)
        return self._journal.with_meta({name: ids[name] for name in ids if name != "step"})

    def adjust_deadlines(self) -> None:
        """Suspend or resume the deadlines of this workflow once the fact is applied, because it may end many holds."""
        self._has_stale_deadlines = True

    def wait_opened(self, wait: Wait) -> None:
        """Handle a wait that a step of a region has opened."""
        self._wait_opened(wait)

    def wait_closed(self, wait: Wait, ending: WaitEnd) -> None:
        """Handle the end of a wait of a step of a region."""
        self._wait_closed(wait, ending)

    def inner_loop(self, chunk: ChunkInput, state: LoopState, outer_region: RegionMachine) -> InnerLoop:
        """Return the machine of a loop inside an iteration, whose machine is ``outer_region``."""
        from noetl_temporal.machine.loops.inner import inner_loop  # its classes are subclasses of this one

        return inner_loop(chunk, state, outer_region, self)
