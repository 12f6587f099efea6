"""Frames in the simulated world: the real activity (noetl_temporal/frames) in simulated processes, and its server.

``Frame`` is the state that Temporal's server has of one activity. It starts attempts, each in a process of its own
(process.py), receives their heartbeats with a delay, and retries or ends the activity when a process ends, shuts down
or is killed. The activity's code is the real one and runs on simulated time, tools and stores. Only its machine is
replaced by a subclass, which records its turns in the trace.

A killed process loses its work since the last segment that reached the server in a heartbeat. So the trace is truncated
to the turn after which the machine had the state that the next attempt restores; there must be such a turn. The
truncated trace is that of a single machine, and is checked like all others.

Checked for frames only: a call or an item that a heartbeat reported as ended is never called again; the segments have
the same events as the trace; and no call begins while a segment has been waiting long for the payload store.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from dev.simulate.frame_storage import Database, SimulatedPayloadStore, current_process
from dev.simulate.process import ProcessLoop
from dev.simulate.run_trace import Finding, MachineTrace, Turn
from dev.simulate.tool_outcomes import ToolOutcomes
from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.calls import attempt_end, call_log
from noetl_temporal.frames import activity, segment_writer
from noetl_temporal.machine.commands import CallTool, ChunkInput, Command
from noetl_temporal.machine.facts import ChunkReport, Fact
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.messages.frame import FrameDetails, FrameEnd, FrameInput
from noetl_temporal.workflows.performer import HEARTBEAT_TIMEOUT

__all__ = ["Frame", "FrameWorld", "patched_frames"]

KINDS = ("noop", "http", "python", "postgres", "duckdb")
"""Tools of the playbooks, including that of calls which only run sinks."""

MAX_HEARTBEAT_DELAY_MS = 2_000
MAX_GRACE_MS = 5_000
MAX_PAUSE_MS = 60_000
MAX_RETRY_DELAY_MS = 30_000
MAX_STORE_WAIT_MS = int(segment_writer.SEGMENT_SECONDS * 2_600)
"""How long calls may still begin while a segment waits for the store: 2.6 times the interval of segments."""


class FrameWorld:
    """State that all frames share. A tool takes up to ``longest_ms``. ``finding`` is the first broken invariant."""

    def __init__(
        self, world: Any, tool_outcomes: ToolOutcomes, longest_ms: int, sink_fails: float, rows: list[str]
    ) -> None:
        self.world, self.tool_outcomes, self.longest_ms = world, tool_outcomes, longest_ms
        self.payloads = SimulatedPayloadStore(world)
        self.segment_entries = world.rng.choice((5, 30, segment_writer.SEGMENT_ENTRIES))
        self.database = Database(world, sink_fails, rows)
        self.tools = {kind: FakeTool(kind, functools.partial(self._outcome, kind)) for kind in KINDS}
        with patch.object(activity, "SinkBatches", lambda: self.database):
            self.run = activity.frame_activity(self.tools, CredentialSource(environment={}), self.payloads)
        self.finding: Finding | None = None

    def note(self, finding: Finding) -> None:
        """Keep the finding if it is the first; the world raises it when it has handled the current event."""
        self.finding = self.finding or finding

    async def _outcome(self, kind: str, request: Request, context: ToolContext) -> Outcome:
        current_process().owner.check_call(request.key)
        used_attempts: int = getattr(context, "_log").used_attempts  # noqa: B009 - answers differ by what counts, not by lost attempts
        await asyncio.sleep(max(1, int(self.longest_ms * self.world.rng.random() ** 3)) / 1000)
        current_process().mark_active()
        return msgspec.convert(self.tool_outcomes.outcome(kind, request.key, used_attempts), Outcome)


@contextlib.contextmanager
def patched_frames(frame_world: FrameWorld) -> Generator[None]:
    """Patch the code of frames to use the world's time, random numbers and database, and to record its turns."""
    world = frame_world.world
    with contextlib.ExitStack() as stack:
        for module, name, replacement in (
            (call_log, "time", SimpleNamespace(time_ns=lambda: world.now * 1_000_000)),
            (attempt_end, "random", world.rng),
            (activity, "LoopMachine", _machine_of_process),
            (segment_writer, "SEGMENT_ENTRIES", frame_world.segment_entries),
            (logging.getLogger("noetl_temporal.payloads.value_store"), "disabled", True),
            (logging.getLogger("temporalio.activity"), "disabled", True),
        ):
            stack.enter_context(patch.object(module, name, replacement))
        yield


def _machine_of_process(chunk_input: ChunkInput, state: Any = None, *, limit: int) -> LoopMachine:
    attempt: _Attempt = current_process().owner
    return attempt.machine_of(chunk_input, state, limit)


class _RecordingMachine(LoopMachine):
    """Records its turns in the trace of its frame."""

    def __init__(self, attempt: _Attempt, chunk_input: ChunkInput, state: Any, limit: int) -> None:
        super().__init__(chunk_input, state, limit=limit)
        self._attempt = attempt

    def feed(self, fact: Fact) -> list[Command]:
        return self._attempt.feed_and_record(self, fact, super().feed)

    @property
    def digest(self) -> str:
        """A digest of its snapshot."""
        return hashlib.sha256(json.dumps(self.snapshot(), sort_keys=True).encode()).hexdigest()


class _Attempt:
    """One attempt of a frame in its process. ``latest_details`` are those of its latest heartbeat, which
    may not have arrived yet.
    """

    def __init__(self, frame: Frame, number: int, details: FrameDetails | None) -> None:
        self.frame = frame
        self.loop = ProcessLoop(frame.world, self)  # type: ignore[abstract]
        self.latest_details = details
        self._is_restored = False
        self._store_waits_since: int | None = None
        self._late_calls = 0
        self.environment = ActivityEnvironment()
        self.environment.on_heartbeat = self._record_heartbeat
        heartbeat = [] if details is None else [msgspec.to_builtins(details)]
        info = dataclasses.replace(self.environment.info, attempt=number, heartbeat_details=heartbeat)
        self.environment.info = info

    def start(self, chunk_input: ChunkInput, on_end: Callable[[asyncio.Task[Any]], None]) -> None:
        """Run the activity."""
        self.loop.run(
            self.environment.run(
                self.frame.frame_world.run, FrameInput(chunk_input, limit=self.frame.world.store.limit)
            ),
            on_end,
        )

    def interrupt(self, reason: str) -> None:
        """Cancel the activity, as the response to a heartbeat or the shutdown of its worker does."""
        if not self.loop.is_dead:
            self.environment.cancel(ActivityCancellationDetails(**{reason: True}))
            self.loop.pump()

    def stop_worker(self) -> None:
        """Signal that the worker shuts down; its grace period begins."""
        if not self.loop.is_dead:
            self.environment.worker_shutdown()
            self.loop.pump()

    # ---- called by the activity -------------------------------------------------------------------------------------

    def machine_of(self, chunk_input: ChunkInput, state: Any, limit: int) -> LoopMachine:
        """Return the attempt's machine, and truncate the trace to the state that it restores."""
        machine = _RecordingMachine(self, chunk_input, state, limit)
        self.frame.truncate_trace(None if state is None else machine.digest)
        self._is_restored = state is not None
        return machine

    def feed_and_record(
        self, machine: _RecordingMachine, fact: Fact, feed: Callable[[Fact], list[Command]]
    ) -> list[Command]:
        """Feed a fact to the machine, and record the turn."""
        self.loop.mark_active()
        turn = Turn(fact, [], self._is_restored)
        self._is_restored = False
        self.frame.trace.turns.append(turn)
        turn.commands = feed(fact)
        turn.has_work_left, turn.is_budget_spent = machine.has_work, machine.budget.is_spent()
        self.frame.digests.append(machine.digest)
        self._check_late_calls(sum(isinstance(command, CallTool) for command in turn.commands))
        return turn.commands

    def note_store_wait(self, since: int | None) -> None:
        """Note since when a segment has been waiting for the store; None when it is stored."""
        self._late_calls = 0
        if since is None or self._store_waits_since is None:
            self._store_waits_since = since

    def _check_late_calls(self, calls: int) -> None:
        """Check that at most ``max_in_flight`` calls begin after a segment has waited too long for the store."""
        if self._store_waits_since is not None and self.frame.world.now > self._store_waits_since + MAX_STORE_WAIT_MS:
            self._late_calls += calls
            if self._late_calls > self.frame.chunk_input.max_in_flight:
                waited_ms = self.frame.world.now - self._store_waits_since
                raise Finding("calls begin while a segment waits", f"{self._late_calls} calls, after {waited_ms} ms")

    def check_call(self, key: str) -> None:
        """Check that the call of this key may run; a tool is about to run for it."""
        self.loop.mark_active()
        self.frame.check_call(key)

    def _record_heartbeat(self, details: FrameDetails) -> None:
        if not self.loop.is_dead:
            self.latest_details = details
            self.frame.deliver_heartbeat(self, details)


class Frame:
    """One frame, as Temporal's server knows it. ``on_end`` is called with the report for the parent, and with the
    report that the machine gave, None if the activity ended without one.
    """

    def __init__(
        self,
        frame_world: FrameWorld,
        trace: MachineTrace,
        chunk_input: ChunkInput,
        on_end: Callable[[ChunkReport, ChunkReport | None], None],
    ) -> None:
        self.frame_world, self.world, self.trace = frame_world, frame_world.world, trace
        self.chunk_input, self._on_end = chunk_input, on_end
        self.is_over = False
        self.digests: list[str] = []
        self._attempt: _Attempt | None = None
        self._number = 0
        self._beat_numbers = itertools.count()
        self._latest_beat = -1
        self._is_cancelled = False
        self._is_paused = False
        self._server_details: FrameDetails | None = None
        self._reported = frame_world.payloads.contents(None)

    @property
    def pending(self) -> list[str]:
        """Return what the frame waits for, for messages."""
        return [f"attempt {self._number}"] if self._attempt else ["the next attempt"]

    # ---- attempts ---------------------------------------------------------------------------------------------------

    def start_attempt_later(self, ms: int) -> None:
        """Start the next attempt after ``ms`` milliseconds."""
        self.world.later(ms, self._start_attempt)

    def _start_attempt(self) -> None:
        if self.is_over or self._is_paused or self._attempt is not None:
            return
        self._number += 1
        self._attempt = _Attempt(self, self._number, self._server_details)
        self._attempt.start(self.chunk_input, self._attempt_ended)

    def _attempt_ended(self, task: asyncio.Task[Any]) -> None:
        attempt, error = self._take_attempt(), None if task.cancelled() else task.exception()
        if isinstance(error, Finding):
            self.frame_world.note(error)
        elif isinstance(error, ApplicationError):
            self._server_details = attempt.latest_details
            self._read_reported(attempt.latest_details)
            delay = error.next_retry_delay.total_seconds() if error.next_retry_delay else 1.0
            self._retry_later(int(delay * 1000))
        elif task.cancelled() or error is not None:
            self.frame_world.note(Finding("a frame raises", f"{type(error).__name__}: {error}"))
        else:
            self._finish(task.result())

    def _take_attempt(self) -> _Attempt:
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        attempt.loop.die()
        return attempt

    def close(self) -> None:
        """Kill the attempt that is running, if any."""
        if self._attempt is not None:
            self._take_attempt()

    def _retry_later(self, ms: int) -> None:
        """Retry after ``ms``; a cancelled activity is not retried, and fails."""
        if self._is_cancelled:
            self._end_without_result("error", "loop_lost")
        else:
            self.start_attempt_later(ms)

    def _finish(self, end: FrameEnd) -> None:
        report = msgspec.convert(msgspec.to_builtins(end.report, str_keys=True), ChunkReport, str_keys=True)
        segment_events = self.frame_world.payloads.contents(end.last_segment).events
        if list(segment_events) != msgspec.json.decode(msgspec.json.encode(self.trace.events)):
            self.frame_world.note(
                Finding(
                    "the events of the segments differ", f"{len(segment_events)} events of {len(self.trace.events)}"
                )
            )
        self.is_over = True
        self._on_end(report, report)

    def _end_without_result(self, status: str, failure_kind: str) -> None:
        """Report to the parent as the shell does for an activity that ended without a result (performer.py)."""
        total = len(self.chunk_input.items)
        failure = error_outcome(failure_kind, "the frame was lost") if failure_kind else None
        stats = {"total": total, "success": 0, "failed": 0, "skipped": total}
        self.is_over = self.trace.terminated = True
        results = [None] * total if failure_kind else []
        report: Any = ChunkReport(status, results, stats, failure=failure)  # type: ignore[arg-type]
        self._on_end(report, None)

    # ---- called by an attempt -------------------------------------------------------------------------------------

    def truncate_trace(self, digest: str | None) -> None:
        """Truncate the trace to the turn after which the machine had this digest; None for a new machine."""
        if digest is None:
            count = 0
        elif digest in self.digests:
            count = self.digests.index(digest) + 1
        else:
            raise Finding("an attempt restores a state that no machine had", f"attempt {self._number}")
        del self.trace.turns[count:], self.digests[count:]

    def deliver_heartbeat(self, attempt: _Attempt, details: FrameDetails) -> None:
        """Deliver a heartbeat after a delay; the server keeps the latest."""
        number = next(self._beat_numbers)

        def deliver() -> None:
            if attempt is self._attempt and number > self._latest_beat:
                self._latest_beat, self._server_details = number, details
                self._read_reported(details)

        self.world.later(self.world.draw(0, MAX_HEARTBEAT_DELAY_MS), deliver)

    def _read_reported(self, details: FrameDetails | None) -> None:
        if details is not None:
            self._reported = self.frame_world.payloads.contents(details.head)

    def check_call(self, key: str) -> None:
        """Check that no heartbeat reported the call, or its item, as ended."""
        item = next((call.call.iteration for call in self._calls() if call.call.key == key), None)
        if key in self._reported.calls or item in self._reported.items:
            self.frame_world.note(
                Finding("a call that a heartbeat reported as ended is made again", f"{key}, attempt {self._number}")
            )

    def _calls(self) -> list[CallTool]:
        return [command for turn in self.trace.turns for command in turn.commands if isinstance(command, CallTool)]

    # ---- faults -----------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Cancel the activity, as the parent does: a running attempt learns of it from the response to a heartbeat."""
        self.trace.stop_requested = self._is_cancelled = True
        attempt = self._attempt
        if attempt is None:
            self.world.later(self.world.draw(0, 30), self._stop)
        else:
            self._do_later(attempt, MAX_HEARTBEAT_DELAY_MS, lambda: attempt.interrupt("cancel_requested"))

    def _stop(self) -> None:
        """Cancel the attempt that has started meanwhile, or else end the frame."""
        if self._attempt is not None:
            self._attempt.interrupt("cancel_requested")
        elif not self.is_over:
            self._end_without_result("cancelled", "")

    def kill(self) -> None:
        """Kill the worker; the server retries after the heartbeat timeout."""
        if self._attempt is not None:
            self._take_attempt()
            self._retry_later(int(HEARTBEAT_TIMEOUT.total_seconds() * 1000) + self.world.draw(1, MAX_RETRY_DELAY_MS))

    def stop_worker(self) -> None:
        """Shut down the worker; some time later its grace period is over."""
        attempt = self._attempt
        if attempt is not None:
            attempt.stop_worker()
            self._do_later(attempt, MAX_GRACE_MS, lambda: attempt.interrupt("worker_shutdown"))

    def pause(self) -> None:
        """Pause the activity, and unpause it later."""
        attempt = self._attempt
        if attempt is None or self._is_paused:
            return
        self._is_paused = True
        self._do_later(attempt, MAX_HEARTBEAT_DELAY_MS, lambda: attempt.interrupt("paused"))
        self.world.later(MAX_HEARTBEAT_DELAY_MS + self.world.draw(0, MAX_PAUSE_MS), self._unpause)

    def _unpause(self) -> None:
        self._is_paused = False
        if self._attempt is None and not self.is_over:
            self._start_attempt()

    def _do_later(self, attempt: _Attempt, longest: int, act: Callable[[], None]) -> None:
        def act_if_current() -> None:
            if attempt is self._attempt:
                act()

        self.world.later(self.world.draw(0, longest), act_if_current)
