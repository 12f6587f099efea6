"""The engine of both machines: how a fact resumes a run, and where calls begin.

How it works. A machine has *runs*: runs of steps in the machine of a playbook, iterations in that of a loop. A run
executes a pipeline of tasks (tasks/pipeline.py), or waits for its loop. A fact (intake.py) resumes the run that it
concerns. Then the machine starts all work that is ready (``_start_ready_work``): new runs (``_start_runs_or_finish``)
and calls (``_begin_ready``), until nothing more can happen without a new fact or the budget of the workflow task is
spent. What the budget does not allow stays ready in the state.

Calls begin only in ``_begin_ready``, as the rules of stopping require (stopping.py). A paused machine begins nothing,
by a check at the same place, and still applies facts. A cancel ends the pause; after any other stop the cleanup waits
until the run is resumed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from noetl_compiler.graph import Json
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    Continued,
    Fact,
    IdleRequested,
    LimitReached,
    PauseRequested,
    Restored,
    ReturnRequested,
    Started,
    TimerFired,
    ToolFinished,
    UnpauseRequested,
    ValuesStored,
)
from noetl_temporal.machine.failures import cancelled_outside
from noetl_temporal.machine.loads import ARRIVALS
from noetl_temporal.machine.protocol import completed_id
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.state import MachineState, Pending, PipelineState, Run, state_snapshot
from noetl_temporal.machine.stopping import Stopping
from noetl_temporal.machine.stored import with_stored
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.pipeline import Pipeline
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.tasks.waits import end_at_due_time
from noetl_temporal.machine.waits.wait import Answer, Wait

__all__ = ["Engine"]

S = TypeVar("S", bound=MachineState)
R = TypeVar("R", bound=Run)


class Engine(Stopping[S, R], Generic[S, R]):
    """A machine without its rules for starting and ending runs, which the subclasses for playbooks and loops add."""

    def _set_state(self, state: S) -> None:
        super()._set_state(state)
        self._runs = self._runs_in(state)
        self._pipelines: dict[str, Pipeline] = {}

    # ---- for the shell ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Json:
        """Return the state as plain JSON, with the version of its format."""
        return state_snapshot(self.state)

    @property
    def is_idle(self) -> bool:
        """Whether no call, chunk, store or load is in flight. Timers may run."""
        return not self.state.pending

    @property
    def uses_store(self) -> bool:
        """Whether values are being stored or loaded."""
        return any(operation.kind in ("store", "load") for operation in self.state.pending.values())

    @property
    def waits_only_for_store(self) -> bool:
        """Whether only stores and loads are in flight. Calls with a deferred result do not count as in flight."""
        completed = {completed_id(entry.fact) for entry in self.state.deferred}
        pending = self.state.pending.items()
        return not self.is_idle and all(entry.kind in ("store", "load") or id_ in completed for id_, entry in pending)

    @property
    def is_waiting(self) -> bool:
        """Whether the run is paused or has open waits, so that its events should be recorded now."""
        return bool(self.state.waits) or self.is_paused

    @property
    def chunks_in_flight(self) -> list[str]:
        """The ids of the chunks in flight."""
        return [id_ for id_, operation in self.state.pending.items() if operation.kind == "chunk"]

    @property
    def has_work(self) -> bool:
        """Whether the budget has deferred work: feed Continued in the next workflow task."""
        if not self._has_ready_work():
            return False
        is_stopping = self.state.stop is not None and not self.is_paused
        return is_stopping or self._can_begin(ignoring_budget=True)

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self.state.stop is not None and self.state.stop.kind == "cancel"

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _apply(self, fact: Fact) -> None:
        match fact:
            case ToolFinished():
                self._machine_of_run(self.state.pending[fact.call_id].owner)._tool_finished(fact)
            case ChunkFinished():
                chunk = self.state.pending.pop(fact.chunk_id)
                self._chunk_finished(self._runs[chunk.owner], fact, cancelled_here=chunk.is_cancelled)
            case ValuesStored():
                storing = self.state.pending.pop(fact.store_id, None)
                if storing is not None:
                    self._values_stored(storing.owner, fact)
            case TimerFired():
                self._timer_fired(fact)
            case Started():
                self.state.phase, self.state.started = "running", fact.at
                self._start(fact)
            case _:
                self._apply_request(fact)

    def _apply_request(self, fact: Fact) -> None:
        """Apply a request of a person, a message of another machine, or a fact of the shell."""
        match fact:
            case CancelRequested():
                self._cancel_requested(fact)
            case PauseRequested() | UnpauseRequested():
                self._apply_pause(fact)
            case LimitReached():
                self._limit_reached(fact)
            case IdleRequested():
                self._idle(fact)
            case ReturnRequested():
                self._return_items()
            case Continued():
                self.state.is_idling = False
                self.budget.renew()
            case Restored():
                self._restore(fact)
            case _:
                raise ProtocolError(f"no machine takes {type(fact).__name__}")

    def _tool_finished(self, fact: ToolFinished) -> None:
        state, report = self.state, fact.report
        state.stored_bytes += report.stored.bytes if report.stored is not None else 0
        outcome = with_stored(report.outcome, report.stored)
        if outcome is not report.outcome:
            report = replace(report, outcome=outcome)
        run = self._runs[state.pending.pop(fact.call_id).owner]
        pipeline = self._pipeline(run)
        state.result_sizes.add(report.outcome, self.budget.inline)
        state.ids.reserve_derived_ids(fact.at, pipeline.state.progress.event_id, report.attempts)
        if fact.cancelled and not self._is_stopped(run):
            pipeline.tool_finished(replace(report, outcome=cancelled_outside("call")), cancelled=False)
        else:
            pipeline.tool_finished(report, fact.cancelled)
        self._record_phase(run, pipeline)

    def _timer_fired(self, fact: TimerFired) -> None:
        timer = self.state.timers.get(fact.timer_id)
        if timer is not None and timer.suspended_at is None:
            self._machine_of_run(timer.owner)._end_timer(fact.timer_id, timer)

    def _end_timer(self, id_: str, timer: Pending) -> None:
        del self.state.timers[id_]
        if timer.kind == "deadline":
            self._deadline_passed(timer)
        elif timer.kind == "hold":
            self._hold_ended(self._runs[timer.owner])
        elif timer.kind == "wait":
            wait = self.state.waits[timer.owner]
            self._machine_of_run(wait.run)._end_wait(wait, *end_at_due_time(wait))
        else:
            run = self._runs[timer.owner]
            pipeline = self._pipeline(run)
            pipeline.delay_ended()
            self._record_phase(run, pipeline)

    def _idle(self, fact: IdleRequested) -> None:
        self.state.is_idling = True
        if fact.message:
            self._warn(fact.message)

    def _restore(self, fact: Restored) -> None:
        """Restart every timer for its remaining time; reserve new ids for the rows that the mirror derives."""
        self.state.is_idling = False
        self.state.ids.begin_workflow_run()
        self._restart_timers(fact.at)

    # ---- ready work -----------------------------------------------------------------------------------------------

    def _start_ready_work(self) -> None:
        while self.state.phase == "running":
            if not self._lacks_value(ARRIVALS):
                self._reader = ARRIVALS
                if ARRIVALS in self.state.readers and self._may_start():  # else their values must stay loaded
                    del self.state.readers[ARRIVALS]
                self._start_runs_or_finish()
            has_ended = self.state.phase == "running" and self._begin_ready()
            if self.state.phase != "running" or not (self._start_ready_inner_work() or has_ended):
                return

    def _begin_ready(self) -> bool:
        """Begin calls in order; True if a run ended instead, so that other runs may start.

        It stops at the first run that may not begin: thousands may wait behind it, and this runs at every fact.
        """
        has_ended, ready = False, self.state.ready
        index, length = 0, len(ready)
        while index < length:
            run = self._runs[ready[index]]
            if self.state.readers and self._lacks_value(run.id):  # it is ready again once its values are loaded
                del ready[index]
                length -= 1
                continue
            is_stopped = self._is_stopped(run)
            may_begin = not self.budget.is_spent() if is_stopped else self._can_begin()
            if self.state.phase != "running" or not may_begin:
                break
            index += 1
            self._start_reading(run.id)
            if self._end_stopped(run) if is_stopped else self._begin(run):
                has_ended = True
        del ready[:index]
        return has_ended

    def _begin(self, run: R) -> bool:
        """Begin the run's next call, or its loop; True if it ended instead, or continued after a wait."""
        self.budget.add_work()
        if run.pipeline is None:
            return self._begin_loop(run)
        pipeline = self._pipeline(run)
        pipeline.begin_call()
        self._record_phase(run, pipeline)
        return pipeline.end is not None or pipeline.state.phase in ("ready", "answered")

    def _end_stopped(self, run: R) -> bool:
        """End the run instead of beginning its next call."""
        if run.pipeline is None:
            self._loop_stopped(run)
        else:
            pipeline = self._pipeline(run)
            pipeline.stop()
            self._record_phase(run, pipeline)
        return True

    def _can_begin(self, *, ignoring_budget: bool = False) -> bool:
        state = self.state
        if state.is_idling or self.state.pause is not None or (self.budget.is_spent() and not ignoring_budget):
            return False
        return len(state.pending) < state.result_sizes.max_in_flight()

    def _has_ready_work(self) -> bool:
        return bool(self.state.ready) and self.state.phase == "running"

    def _request_storing_again(self, owner: str) -> None:
        self._mark_ready(self._runs[owner])

    def _mark_ready(self, run: R) -> None:
        """Mark the run as ready: its next call may begin."""
        self.state.ready.append(run.id)

    def _wake(self, run_id: str) -> bool:
        if run_id in self._runs and run_id not in self.state.ready:
            self.state.ready.insert(0, run_id)
        return run_id in self._runs

    def _begin_pipeline(self, run: R) -> None:
        run.pipeline = PipelineState()
        self._mark_ready(run)

    def _record_phase(self, run: R, pipeline: Pipeline) -> None:
        """Record what the run waits for, or end it."""
        state = pipeline.state
        if pipeline.end is not None:
            del self._pipelines[run.id]
            self._run_ended(run, pipeline.end, pipeline.last_kind())
        elif state.phase == "call":
            self.state.pending[state.pending_id] = Pending("call", run.id)
        elif state.phase == "wait":
            self._open_wait(run, pipeline)
        elif state.phase == "delay" and self._is_stopped(run):
            pipeline.delay_ended()
            self._mark_ready(run)
        elif state.phase == "delay":
            self._start_timer(state.pending_id, "delay", run.id, pipeline.delay, pipeline.delay_summary)
        else:
            self._mark_ready(run)

    def _pipeline(self, run: R) -> Pipeline:
        """Return the pipeline of a run, created once per machine."""
        pipeline = self._pipelines.get(run.id)
        if pipeline is None:
            if run.pipeline is None:
                raise ProtocolError(f"{run.id} has no pipeline")
            pipeline = self._pipelines[run.id] = Pipeline(self._host(run), run.pipeline)
        return pipeline

    def _apply_answer(self, wait: Wait, answer: Answer) -> None:
        """End a wait of this machine by its answer."""
        self._end_wait(wait, "done", {"status": "ok", "result": answer.result})

    # ---- inner machines (regions/) --------------------------------------------------------------------------------

    def _inner_machines(self) -> Iterable[tuple[str, Engine[Any, Any]]]:
        """Return the inner machines, each with the id of the run of this machine that it executes."""
        return ()

    def _start_ready_inner_work(self) -> bool:
        """Start the ready work of the inner machines; True if one of them ended, so that other runs may start."""
        return False

    def has_run(self, id_: str) -> bool:
        """Whether the run belongs to this machine or to an inner one."""
        return id_ in self._runs or any(inner.has_run(id_) for _, inner in self._inner_machines())

    def _machine_of_run(self, id_: str) -> Engine[Any, Any]:
        """Return the machine that a run belongs to, this or an inner one; this one if no machine has the run."""
        if id_ not in self._runs:
            for owner, inner in self._inner_machines():
                if inner.has_run(id_):
                    self._runs[owner]  # its state is about to change: a checkpoint copies it
                    return inner._machine_of_run(id_)
        return self

    def _runs_with_holds(self) -> set[str]:
        """Return the ids of runs that contain a held step, so that their timeouts are suspended."""
        run_ids = set[str]()
        if any(wait.kind == "held" for wait in self.state.waits.values()):
            for id_, machine in self._inner_machines():
                inner_ids = machine._runs_with_holds()
                run_ids |= {id_, *inner_ids} if inner_ids else inner_ids
        return run_ids

    def _may_load_for(self, fact: Fact) -> bool:
        """See Intake. A stopped machine loads the rows of a claim, too, because it must release them."""
        if super()._may_load_for(fact):
            return True
        call = self.state.pending.get(fact.call_id) if isinstance(fact, ToolFinished) else None
        return call is not None and self._machine_of_run(call.owner)._claims(call.owner)

    # ---- defined by each machine ----------------------------------------------------------------------------------

    @abstractmethod
    def _runs_in(self, state: S) -> Runs[R]:
        """Replace the runs of the state by ``Runs`` of them (rollback.py), and return these."""

    @abstractmethod
    def _start(self, fact: Started) -> None: ...

    @abstractmethod
    def _values_stored(self, owner: str, fact: ValuesStored) -> None:
        """Use the references to values that were stored for the run ``owner``; "" is the whole machine."""

    @abstractmethod
    def _start_runs_or_finish(self) -> None:
        """Start runs within the budget; finish the machine if it has nothing left to do."""

    @abstractmethod
    def _may_start(self) -> bool:
        """Whether the budget allows a run to start, and the machine does not idle."""

    @abstractmethod
    def _run_ended(self, run: R, end: End, kind: str) -> None: ...

    @abstractmethod
    def _deadline_passed(self, deadline: Pending) -> None: ...

    @abstractmethod
    def _limit_reached(self, fact: LimitReached) -> None: ...

    @abstractmethod
    def _host(self, run: R) -> Host: ...

    @abstractmethod
    def _warn(self, message: str) -> None: ...

    def _claims(self, run_id: str) -> bool:
        """Whether the run is a claim of rows that also completes while the machine stops."""
        del run_id
        return False

    def _hold_ended(self, run: R) -> None:
        """End a held run, whose time to wait for a person is over."""
        raise ProtocolError(f"{run.id} cannot be held")

    def _return_items(self) -> None:
        """Begin no further items; the remaining ones go to the next chunk."""
        raise ProtocolError("this machine has no items to return")

    # ---- loops of steps: only the machines of playbooks and iterations have them ----------------------------------

    def _begin_loop(self, run: R) -> bool:
        """Begin chunks of the loop of a run without a pipeline, or keep it ready; True if the run ended instead."""
        raise ProtocolError(f"{run.id} has no loop")

    def _loop_stopped(self, run: R) -> None:
        """Begin no more chunks of a run's loop; end the run if none is in flight."""
        raise ProtocolError(f"{run.id} has no loop")

    def _chunk_finished(self, run: R, fact: ChunkFinished, *, cancelled_here: bool) -> None:
        """Apply the report of a chunk of the run's loop. ``cancelled_here``: this machine cancelled the chunk."""
        raise ProtocolError(f"{run.id} has no loop, {fact.chunk_id} ended {cancelled_here=}")
