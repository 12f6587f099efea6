"""The simulated world of one run: its time, the order of events, and the faults, all from one seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from dev.simulate.calls import NO_FAULTS, FaultRates, Performed, perform
from dev.simulate.frames import Frame, FrameWorld, patched_frames
from dev.simulate.host import Host
from dev.simulate.leases import Renewals, freeze_worker, leases_of
from dev.simulate.operators import Operators
from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.simulated_values import SimulatedValues
from dev.simulate.statements import Statement, is_statement
from dev.simulate.sub_playbooks import check_input
from dev.simulate.tables import Tables
from dev.simulate.tasks import ROWS
from dev.simulate.tool_outcomes import ToolOutcomes
from dev.simulate.waits import Mailbox, People
from noetl_compiler.language.tools import PLAYBOOK
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.commands import ChunkInput, Finish
from noetl_temporal.machine.facts import ChunkReport, LimitReached, ReturnRequested, Started
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.matching import may_wait

__all__ = ["EXECUTION_ID", "World"]

EXECUTION_ID = 7
MAX_ALARMS = 400_000
"""A frame that waits for its store polls it every half second: a run of many slow chunks may take over 100,000."""
MISHAPS = (
    "cancel",
    "cancel",
    "cancel twice",
    "continue as new",
    "continue as new",
    "hold",
    "hold",
    "child cancelled",
    "child terminated",
    "long history",
    "long history",
    "limit",
)
FRAME_MISHAPS = ("kill", "kill", "kill", "stop worker", "pause", "store unavailable", "store unavailable")
"""Mishaps of frames, which do not change the outcome of a run."""

MAX_OUTAGE_MS = 60_000


class Alarm:
    """A scheduled event, which is dropped if it is ``off``."""

    __slots__ = ("act", "off")

    def __init__(self, act: Callable[[], None]) -> None:
        self.act, self.off = act, False


class World:
    """Runs the graph until no event is left. With ``calm``, the number of a random order, nothing goes wrong,
    except that ``with_faults`` adds faults in the processes of frames, and ``with_pauses`` people who pause the run.
    """

    def __init__(
        self, run_trace: RunTrace, calm: int | None = None, *, with_faults: bool = False, with_pauses: bool = False
    ) -> None:
        self.run_trace = run_trace
        self.now = EPOCH_MS + 86_400_000
        self.rng = random.Random(f"{run_trace.seed}/world/{calm or 0}")
        self._tool_outcomes = ToolOutcomes(run_trace.seed)
        self._fault_rates = _fault_rates(self.rng) if calm is None else NO_FAULTS
        loops = [step.loop for step in run_trace.graph.steps.values() if step.loop is not None]
        has_frames = any(loop.frame is not None for loop in loops)
        self.store = run_trace.store = SimulatedValues(self.rng, has_frames=has_frames)
        self._longest_start = self.rng.choice((0, 30))
        self._queue: list[tuple[int, int, Alarm]] = []
        self._count = 0
        self._alarms = 0
        self._hosts: list[Host | Frame] = []
        self._mishaps = _mishaps(self.rng) if calm is None else {}
        self._with_faults = with_faults or calm is None
        self._operators = Operators(f"{run_trace.seed}/{calm or 0}", self.later)
        self._has_pauses, self._is_calm = with_pauses or calm is None, calm is not None
        longest = self.rng.choice((20, 400, 2000)) if with_faults else self._fault_rates.longest_ms
        rivals = f"{run_trace.seed}/rivals" if calm is None else ""
        self.tables = Tables(self, run_trace.seed, rivals)
        run_trace.row_changes = self.tables.row_changes
        self._frame_world = FrameWorld(
            self, self._tool_outcomes, longest, self._fault_rates.sink_fails, run_trace.stored
        )

    # ---- used by hosts --------------------------------------------------------------------------------------------

    def later(self, ms: int, act: Callable[[], None]) -> Alarm:
        """Schedule an event in ``ms`` milliseconds."""
        alarm = Alarm(act)
        self._count += 1
        heapq.heappush(self._queue, (self.now + ms, self.rng.randint(0, 9) << 32 | self._count, alarm))
        return alarm

    def draw(self, low: int, high: int) -> int:
        """Return a random whole number from ``low`` to ``high``."""
        return self.rng.randint(low, high)

    def occurs(self, probability: float) -> bool:
        """Whether an event with this probability happens."""
        return self.rng.random() < probability

    def call(self, call: ToolCall, on_end: Callable[[ToolReport], None]) -> Alarm | Statement:
        """Begin a call and return its scheduled end. ``on_end`` gets the report at that time, unless it is ``off``."""
        if is_statement(call):
            return Statement(self, self.tables, self._fault_rates, call, lambda report: on_end(self._offload(report)))
        performed, is_frozen = self._perform(call), False
        if call.lease is not None and not self._is_calm:
            performed, is_frozen = freeze_worker(self, call.lease, performed)
        alarm = self.later(performed.ms, lambda: on_end(performed.report))
        until = self.now + performed.ms
        for lease in () if is_frozen else leases_of(call):
            Renewals(self, self.tables, call, lease, lambda: self.now < until and not alarm.off, on_end)
        return alarm

    def _offload(self, report: ToolReport) -> ToolReport:
        """Move the result to the store with some probability, unless it has no rows."""
        result: Any = report.outcome.get("result") or {}
        return self.store.offload_result(report) if result.get("rows") else report

    def _perform(self, call: ToolCall) -> Performed:
        if call.outcome_to_store is not None:
            call = replace(call, outcome_to_store=self.store.loaded_outcome(call.outcome_to_store))
        elif call.kind == PLAYBOOK:
            check_input(call, ROWS, self.store)
        performed = perform(call, self.now, self._tool_outcomes, self.rng, self._fault_rates)
        self.run_trace.stored += performed.stored
        return performed._replace(report=self.store.offload_result(performed.report))

    def begin(self, parent: Host, chunk_id: str, chunk_input: ChunkInput) -> Host | Frame:
        """Start the child workflow of a chunk, or its frame."""
        name = f"{parent.trace.name}/{chunk_id}"
        trace = self.run_trace.traces.get(name)
        if trace is not None:
            raise Finding("two chunks have one name", name)
        chunk_input = self.store.with_items(chunk_input)
        trace = self.run_trace.traces[name] = MachineTrace(name, chunk_input)
        return (
            self._child(parent, chunk_id, trace) if chunk_input.frame is None else self._frame(parent, chunk_id, trace)
        )

    def _frame(self, parent: Host, chunk_id: str, trace: MachineTrace) -> Frame:
        def on_end(report: ChunkReport, expected: ChunkReport | None) -> None:
            trace.report = expected
            parent.chunk_finished(chunk_id, report)

        frame = Frame(self._frame_world, trace, trace.chunk_input, on_end)
        self._hosts.append(frame)
        frame.start_attempt_later(self.draw(0, self._longest_start))
        for _ in range(self.rng.choice((0, 1, 1, 2, 4)) if self._with_faults else 0):
            mishap = self.rng.choice(FRAME_MISHAPS)
            self.later(
                self.draw(0, self.rng.choice((200, 2000, 20_000, 90_000))),
                partial(self._disturb_frame, frame, mishap),
            )
        return frame

    def _child(self, parent: Host, chunk_id: str, trace: MachineTrace) -> Host:
        def on_finish(_: Finish) -> None:
            report = host.machine.report if isinstance(host.machine, LoopMachine) else None
            trace.report = msgspec.convert(msgspec.to_builtins(report, str_keys=True), ChunkReport, str_keys=True)
            parent.chunk_finished(chunk_id, trace.report)

        host = Host(
            self, trace, lambda state: loop_machine(trace.chunk_input, state, limit=self.store.limit), on_finish
        )
        host.chunk_id, host.parent = chunk_id, parent  # type: ignore[attr-defined]
        host.mail = Mailbox(parent, host)
        self._hosts.append(host)
        self.later(self.draw(0, self._longest_start), lambda: host.feed(Started(self.now)))
        return host

    # ---- the run --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Finding."""
        with self.store.in_use(), patched_frames(self._frame_world):
            try:
                self._run()
            finally:
                for host in self._hosts:
                    if isinstance(host, Frame):
                        host.close()

    def _run(self) -> None:
        graph = self.run_trace.graph
        trace = self.run_trace.traces[""] = MachineTrace("")
        limit = self.store.limit

        def make(state: Any) -> PlaybookMachine:
            return PlaybookMachine(graph, execution_id=EXECUTION_ID, state=state, limit=limit)

        main = Host(self, trace, make, lambda _: None)
        self._hosts.insert(0, main)
        payload, stored_values = self.store.request(ROWS)
        main.feed(Started(self.now, payload, stored_payload=stored_values))
        self._start_people(main)
        while self._queue:
            at, _, alarm = heapq.heappop(self._queue)
            if alarm.off:
                continue
            self.now = at
            alarm.act()
            if self._frame_world.finding is not None:
                raise self._frame_world.finding
            self._alarms += 1
            if self._alarms > MAX_ALARMS:
                raise Finding("a run does not end", f"{MAX_ALARMS:,} alarms, {(self.now - EPOCH_MS) // 1000} s")
            for mishap in self._mishaps.pop(self._alarms, ()):
                self._cause_mishap(mishap)
        for host in self._hosts:
            if not host.is_over:
                waits = ", ".join(list(host.pending)[:5]) or "nothing"
                raise Finding("a machine waits for nothing", f"{host.trace.name or 'the playbook'} waits for {waits}")

    def _start_people(self, main: Host) -> None:
        """People who answer the run and control it."""
        steps = self.run_trace.graph.steps.values()
        if any(may_wait(step) for step in steps):
            People(self.run_trace.seed, self.later).schedule_answers(main)
        if self._has_pauses:
            self._operators.pause_now_and_then(main)
        if not self._is_calm and any(step.hold is not None for step in steps):
            self._operators.decide_now_and_then(main)

    def _cause_mishap(self, mishap: str) -> None:
        alive = [host for host in self._hosts if isinstance(host, Host) and not host.is_over and host.trace.turns]
        children = [host for host in alive if host.trace.name]
        if not alive:
            return
        match mishap:
            case "cancel":
                alive[0].stop()
            case "cancel twice":
                alive[0].stop()
                self.later(self.draw(0, 4000), alive[0].stop)
            case "continue as new" | "hold":
                self.rng.choice(alive).request_continue_as_new("hold" if mishap == "hold" else "soft")
            case "child cancelled" if children:
                self.rng.choice(children).stop()
            case "child terminated" if children:
                self._terminate(self.rng.choice(children))
            case "long history" if children:
                self._lengthen_history(self.rng.choice(children))
            case "limit":
                self.rng.choice(alive).feed(LimitReached(self.now, "the run is too large"))
            case _:
                pass

    def _disturb_frame(self, frame: Frame, mishap: str) -> None:
        """Apply a fault to the process of a frame, or to the payload store."""
        match mishap:
            case "kill":
                frame.kill()
            case "stop worker":
                frame.stop_worker()
            case "pause":
                frame.pause()
            case _:
                self._frame_world.payloads.unavailable_until = self.now + self.draw(0, MAX_OUTAGE_MS)

    def _lengthen_history(self, host: Host) -> None:
        """Tell a chunk that its history is long, so that it returns items."""
        if isinstance(host.machine, LoopMachine) and host.machine.may_return_items:
            host.feed(ReturnRequested(self.now))

    def _terminate(self, host: Any) -> None:
        """Terminate a child's workflow from outside: its parent gets an error."""
        host.is_over = host.trace.terminated = True
        chunk_input: ChunkInput = host.trace.chunk_input
        total = len(chunk_input.items)
        stats = {"total": total, "success": 0, "failed": 0, "skipped": total}
        failure = error_outcome("loop_lost", "the loop's workflow was terminated")
        host.parent.chunk_finished(host.chunk_id, ChunkReport("error", [None] * total, stats, failure=failure))


def _fault_rates(rng: random.Random) -> FaultRates:
    return FaultRates(
        lost=rng.choice((0.0, 0.0, 0.05, 0.5)),
        shutdown=rng.choice((0.0, 0.0, 0.1)),
        longest_ms=rng.choice((400, 2000, 10_000, 300_000)),
        sink_fails=rng.choice((0.0, 0.1)),
        outage=rng.choice((0.0, 0.02)),
    )


def _mishaps(rng: random.Random) -> dict[int, list[str]]:
    """Return the mishaps of the run, by the number of alarms after which they happen."""
    mishaps: dict[int, list[str]] = {}
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 6))):
        after = rng.randint(0, rng.choice((3, 10, 40, 200)))
        mishaps.setdefault(max(1, after), []).append(rng.choice(MISHAPS))
    return mishaps
