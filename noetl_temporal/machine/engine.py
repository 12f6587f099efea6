"""The engine of both machines: what a fact lets go on, where calls begin, how a machine stops.

How it works. A machine has *runs*: runs of steps in a playbook's machine, iterations in a loop's. A run works through
a pipeline of tasks (tasks/pipeline.py), or waits for its loop. A fact (intake.py) lets the run that it concerns go on;
then the machine *settles*: new runs start (``_proceed``) and calls begin (``_begin_ready``), until nothing more can
happen without a new fact or the budget of the workflow task is spent. What was left over stays in the state.

The law of stopping
-------------------
1. Calls begin in one place, ``_begin_ready``, and nowhere else. That place is the only point at which a run notices
   that it is to stop, and it is always one: every call, every page, every retry that the machine decides, every sink
   call of its own passes through it.
2. A stop is state, not a message: once ``state.stop`` or ``run.stop`` is set it holds in every later fact and in every
   snapshot. It cannot be lost, delivered twice, or missed by a call that just ended well.
3. A stop asks whatever is in flight to end (Cancel), drops delays, and begins nothing. What is in flight is still
   awaited, and recorded as it really ended.
4. What a stop itself asks for is exempt: the final step of a playbook, as its cleanup (``_is_exempt``).
5. A call or chunk that ends as cancelled although this machine did not ask for it has failed: it was cancelled from
   outside.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.commands import Cancel, StartTimer
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import (
    CancelRequested,
    ChunkFinished,
    Continued,
    Event,
    HoldRequested,
    LimitReached,
    RestRequested,
    Resumed,
    Started,
    TimerFired,
    ToolFinished,
    ValuesKept,
)
from noetl_temporal.machine.failures import cancelled_outside
from noetl_temporal.machine.intake import Intake
from noetl_temporal.machine.loads import ARRIVALS
from noetl_temporal.machine.protocol import completed_id
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.state import MachineState, Pending, PipelineState, Run, Stop, state_snapshot
from noetl_temporal.machine.stored import with_stored
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.pipeline import End, Pipeline
from noetl_temporal.machine.tasks.waits import Ending, timed_out
from noetl_temporal.machine.waits.wait import Wait, timer_id

__all__ = ["Engine"]

OVER: PlainOutcome = {"status": "ok", "result": None}
"""How a wait for a time ends."""

S = TypeVar("S", bound=MachineState)
R = TypeVar("R", bound=Run)


class Engine(Intake[S, R], Generic[S, R]):
    """Runs of pipelines under one stop, one budget, one log."""

    def _set_state(self, state: S) -> None:
        super()._set_state(state)
        self._runs = self._runs_in(state)
        self._pipelines: dict[str, Pipeline] = {}

    # ---- what a shell sees ----------------------------------------------------------------------------------------

    def snapshot(self) -> Json:
        """The state as plain JSON, with the version of its format."""
        return state_snapshot(self.state)

    @property
    def is_idle(self) -> bool:
        """No call and no chunk is in flight; timers may be."""
        return not self.state.pending

    @property
    def waits_only_for_store(self) -> bool:
        """Whether only stores and loads are in flight. A call whose result is deferred does not count as in flight."""
        ended = {completed_id(one.fact) for one in self.state.deferred}
        pending = self.state.pending.items()
        return not self.is_idle and all(one.kind in ("keep", "load") or id_ in ended for id_, one in pending)

    @property
    def chunks_in_flight(self) -> list[str]:
        """Their ids."""
        return [id_ for id_, one in self.state.pending.items() if one.kind == "chunk"]

    @property
    def has_work(self) -> bool:
        """Something could begin that the budget deferred: feed Continued in the next workflow task."""
        is_stopping = self.state.stop is not None
        may_begin = is_stopping or self._can_begin(ignoring_budget=True)
        return may_begin and self._is_waiting_for_budget()

    @property
    def is_cancelled(self) -> bool:
        """Someone asked the run to stop."""
        return self.state.stop is not None and self.state.stop.kind == "cancel"

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Started():
                self.state.phase, self.state.started = "running", event.at
                self._start(event)
            case ToolFinished():
                self._tool_finished(event)
            case ChunkFinished():
                found = self.state.pending.pop(event.chunk_id)
                self._chunk_finished(self._runs[found.owner], event, was_asked=found.is_asked)
            case ValuesKept():
                kept = self.state.pending.pop(event.keep_id, None)
                if kept is not None:
                    self._values_kept(kept.owner, event)
            case TimerFired():
                self._timer_fired(event)
            case CancelRequested():
                self._cancel_requested(event)
            case LimitReached():
                self._limit_reached(event)
            case _:
                self._take_from_host(event)

    def _take_from_host(self, event: Event) -> None:
        """Facts of the workflow that hosts the machine."""
        match event:
            case HoldRequested():
                self._hold(event)
            case RestRequested():
                self._rest_requested()
            case Continued():
                self.state.holding = False
                self.budget.renew()
            case Resumed():
                self._resume(event)
            case _:
                raise ProtocolError(f"no machine takes {type(event).__name__}")

    def _tool_finished(self, event: ToolFinished) -> None:
        state, report = self.state, event.report
        state.stored_bytes += report.stored.bytes if report.stored is not None else 0
        outcome = with_stored(report.outcome, report.stored)
        if outcome is not report.outcome:
            report = replace(report, outcome=outcome)
        run = self._runs[state.pending.pop(event.call_id).owner]
        pipeline = self._pipeline(run)
        state.sizes.add(report.outcome, self.budget.inline)
        state.ids.leave_room(event.at, pipeline.state.task.event_id, report.attempts)
        if event.cancelled and not self._is_stopped(run):
            pipeline.tool_finished(replace(report, outcome=cancelled_outside("call")), cancelled=False)
        else:
            pipeline.tool_finished(report, event.cancelled)
        self._after(run, pipeline)

    def _timer_fired(self, event: TimerFired) -> None:
        found = self.state.timers.pop(event.timer_id, None)
        if found is None:
            return
        if found.kind == "deadline":
            self._deadline_passed(found)
        elif found.kind == "wait":
            wait = self.state.waits[found.owner]
            self._end_wait(wait, *(("done", OVER) if wait.ends_well else ("timed_out", timed_out(wait))))
        else:
            run = self._runs[found.owner]
            pipeline = self._pipeline(run)
            pipeline.delay_over()
            self._after(run, pipeline)

    def _cancel_requested(self, event: CancelRequested) -> None:
        if self.state.stop is None:
            self._stop("cancel", event.reason)
        if self.state.stop is not None:
            self.state.stop.cancels += 1
            self._ask_to_end()

    def _hold(self, event: HoldRequested) -> None:
        self.state.holding = True
        if event.message:
            self._warn(event.message)

    def _resume(self, event: Resumed) -> None:
        """Restart every timer for its remaining time; the mirror's count of derived rows starts over."""
        self.state.holding = False
        self.state.ids.begin_run()
        for id_, timer in self.state.timers.items():
            self._journal.send(StartTimer(id_, max(0, timer.due - event.at) / 1000, "continues in a new run"))

    # ---- settling -------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        while self.state.phase == "running":
            if not self._lacks_value(ARRIVALS):
                if self._may_start():
                    self._start_reading(ARRIVALS)
                else:  # the arrivals keep the values that they have until they may
                    self._reader = ARRIVALS
                self._proceed()
            if self.state.phase != "running" or not self._begin_ready():
                return

    def _begin_ready(self) -> bool:
        """Begin the calls that may begin, in order; True when a run ended instead, so that there is more to settle.

        It looks no further than the first run that may not begin: thousands may wait behind it, at every fact.
        """
        ended, ready = False, self.state.ready
        begun, waiting = 0, len(ready)
        while begun < waiting:
            run = self._runs[ready[begun]]
            if self._lacks_value(run.id):  # it is ready again once that is loaded
                del ready[begun]
                waiting -= 1
                continue
            is_stopped = self._is_stopped(run)
            may_begin = not self.budget.is_spent if is_stopped else self._can_begin()
            if self.state.phase != "running" or not may_begin:
                break
            begun += 1
            self._start_reading(run.id)
            if self._end_stopped(run) if is_stopped else self._begin(run):
                ended = True
        del ready[:begun]
        return ended

    def _begin(self, run: R) -> bool:
        """Begin the run's next call, or its loop; True when it ended instead, or went on from a wait."""
        self.budget.work()
        if run.pipeline is None:
            return self._begin_loop(run)
        pipeline = self._pipeline(run)
        pipeline.begin_call()
        self._after(run, pipeline)
        return pipeline.end is not None or pipeline.state.phase in ("ready", "answered")

    def _end_stopped(self, run: R) -> bool:
        """End the run where its next call would have begun."""
        if run.pipeline is None:
            self._loop_stopped(run)
        else:
            pipeline = self._pipeline(run)
            pipeline.stop()
            self._after(run, pipeline)
        return True

    def _can_begin(self, *, ignoring_budget: bool = False) -> bool:
        state = self.state
        if state.holding or (self.budget.is_spent and not ignoring_budget):
            return False
        return len(state.pending) < state.sizes.max_in_flight

    def _is_waiting_for_budget(self) -> bool:
        return bool(self.state.ready) and self.state.phase == "running"

    def _request_again(self, owner: str) -> None:
        self._ready(self._runs[owner])

    def _ready(self, run: R) -> None:
        """The run's next call may begin."""
        self.state.ready.append(run.id)

    def _wake(self, run_id: str) -> bool:
        if run_id in self._runs and run_id not in self.state.ready:
            self.state.ready.insert(0, run_id)
        return run_id in self._runs

    def _begin_pipeline(self, run: R) -> None:
        run.pipeline = PipelineState()
        self._ready(run)

    def _after(self, run: R, pipeline: Pipeline) -> None:
        """Record what the run waits for now, or end it."""
        state = pipeline.state
        if pipeline.end is not None:
            del self._pipelines[run.id]
            self._run_ended(run, pipeline.end, pipeline.last_kind())
        elif state.phase == "call":
            self.state.pending[state.pending] = Pending("call", run.id)
        elif state.phase == "wait":
            self._open_wait(run, pipeline)
        elif state.phase == "delay" and self._is_stopped(run):
            pipeline.delay_over()
            self._ready(run)
        elif state.phase == "delay":
            self._start_timer(state.pending, "delay", run.id, pipeline.delay, pipeline.delay_summary)
        else:
            self._ready(run)

    # ---- timers ---------------------------------------------------------------------------------------------------

    def _start_timer(
        self, id_: str, kind: Literal["delay", "deadline", "wait"], owner: str, seconds: float, summary: str
    ) -> None:
        due = self._journal.at + round(seconds * 1000)
        self.state.timers[id_] = Pending(kind, owner, due)
        self._journal.send(StartTimer(id_, seconds, summary))

    def _drop_timer(self, id_: str) -> None:
        if self.state.timers.pop(id_, None) is not None:
            self._journal.send(Cancel(id_))

    # ---- waits ----------------------------------------------------------------------------------------------------

    def _open_wait(self, run: R, pipeline: Pipeline) -> None:
        """The run waits; a run that stops does not begin to."""
        wait = pipeline.opened
        if wait is None:
            raise ProtocolError(f"{run.id} waits for nothing")
        if self._is_stopped(run):
            pipeline.wait_ended(wait, "cancelled", None)
            self._ready(run)
            return
        self.state.waits[wait.id] = wait
        if wait.due:
            seconds = max(0, wait.due - self._journal.at) / 1000
            what = "waits until its time" if wait.ends_well else "times out"
            self._start_timer(timer_id(wait.id), "wait", wait.id, seconds, f"{wait.name} {what}")
        self._wait_opened(wait)

    def _end_wait(self, wait: Wait, ending: Ending, outcome: PlainOutcome | None) -> None:
        """The wait is over, and its run goes on; without an outcome because the run stops."""
        del self.state.waits[wait.id]
        self._drop_timer(timer_id(wait.id))
        run = self._runs[wait.run]
        self._pipeline(run).wait_ended(wait, ending, outcome)
        self._wait_closed(wait, ending)
        self._ready(run)

    # ---- stopping -------------------------------------------------------------------------------------------------

    def _stop(self, kind: str, reason: str = "") -> None:
        """Stop the whole machine; no effect when it is stopping already."""
        if self.state.stop is None:
            self.state.stop = msgspec.convert({"kind": kind, "at": self._journal.at, "reason": reason}, Stop)
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        for run in self._runs.all_mutable():
            if self._is_stopped(run):
                self._ask_run_to_end(run)

    def _stop_run(self, run: R) -> None:
        """Stop one run, which timed out."""
        run.stop = "timeout"
        self._ask_run_to_end(run)
        if run.id in self.state.ready:
            self.state.ready.remove(run.id)
            self.state.ready.insert(0, run.id)

    def _ask_run_to_end(self, run: R) -> None:
        if self.state.readers.pop(run.id, None) is not None and run.id not in self.state.ready:
            self._ready(run)
        pipeline = run.pipeline
        if pipeline is not None and pipeline.phase == "delay":
            self._drop_timer(pipeline.pending)
            self._pipeline(run).delay_over()
            self._ready(run)
            return
        if pipeline is not None and pipeline.phase == "wait":
            self._end_wait(self.state.waits[pipeline.pending], "cancelled", None)
            return
        if pipeline is None:
            self._drop_keep(run)
        self._ask(self._chunks_of(run) if pipeline is None else [pipeline.pending])

    def _drop_keep(self, run: R) -> None:
        """The run of a loop that stops does not wait until its items are stored."""
        pending = self.state.pending
        for id_ in [id_ for id_, one in pending.items() if one.kind == "keep" and one.owner == run.id]:
            del pending[id_]
            self._journal.send(Cancel(id_))
            self._ready(run)

    def _ask(self, ids: Iterable[str]) -> None:
        """Ask calls or chunks to end, each once."""
        for id_ in ids:
            found = self.state.pending.get(id_)
            if found is not None and not found.is_asked:
                found.is_asked = True
                self._journal.send(Cancel(id_))

    def _is_stopped(self, run: R) -> bool:
        """Whether the run must begin no call (the law of stopping, 2)."""
        return bool(run.stop) or (self.state.stop is not None and not self._is_exempt(run))

    def _pipeline(self, run: R) -> Pipeline:
        """The run's pipeline around its state, made once a machine."""
        found = self._pipelines.get(run.id)
        if found is None:
            if run.pipeline is None:
                raise ProtocolError(f"{run.id} has no pipeline")
            found = self._pipelines[run.id] = Pipeline(self._host(run), run.pipeline)
        return found

    # ---- what each machine decides --------------------------------------------------------------------------------

    @abstractmethod
    def _runs_in(self, state: S) -> Runs[R]:
        """Wrap the state's runs in ``Runs``, store that in the state and return it."""

    @abstractmethod
    def _start(self, event: Started) -> None: ...

    @abstractmethod
    def _values_kept(self, owner: str, event: ValuesKept) -> None:
        """What was to be kept of the run ``owner``, or of the whole machine, has been."""

    @abstractmethod
    def _wait_opened(self, wait: Wait) -> None:
        """Find out whether there is an answer for it already."""

    @abstractmethod
    def _wait_closed(self, wait: Wait, ending: Ending) -> None: ...

    @abstractmethod
    def _proceed(self) -> None:
        """Start what may start now, within the budget; end the machine when nothing is left."""

    @abstractmethod
    def _may_start(self) -> bool:
        """Whether the budget and the hold state allow a run to start."""

    @abstractmethod
    def _run_ended(self, run: R, end: End, kind: str) -> None: ...

    @abstractmethod
    def _deadline_passed(self, deadline: Pending) -> None: ...

    @abstractmethod
    def _limit_reached(self, event: LimitReached) -> None: ...

    @abstractmethod
    def _is_exempt(self, run: R) -> bool:
        """Whether the run is what the machine's stop itself asks for."""

    @abstractmethod
    def _host(self, run: R) -> Host: ...

    @abstractmethod
    def _warn(self, message: str) -> None: ...

    # ---- loops, which only a playbook's machine has; a loop's own has none ------------------------------------------

    def _begin_loop(self, run: R) -> bool:
        """Begin chunks of the loop of a run without a pipeline, or keep it ready; True when the run ended instead."""
        raise ProtocolError(f"{run.id} has no loop")

    def _loop_stopped(self, run: R) -> None:
        """Begin no chunk of a run's loop any more; end the run when none is in flight."""
        raise ProtocolError(f"{run.id} has no loop")

    def _chunk_finished(self, run: R, event: ChunkFinished, *, was_asked: bool) -> None:
        """A chunk of the run's loop ended; ``was_asked`` when this machine asked it to."""
        raise ProtocolError(f"{run.id} has no loop, {event.chunk_id} ended {was_asked=}")

    def _chunks_of(self, run: R) -> Iterable[str]:
        """The chunks in flight of the run's loop."""
        del run
        return ()

    def _rest_requested(self) -> None:
        """Begin no further item, and give back those that are left."""
        raise ProtocolError("this machine has no items to give back")
