"""Frames in the simulated world: the real activity (noetl_temporal/frames) in simulated processes, and its server.

``Frame`` is the state that Temporal's server has of one activity. It starts attempts, each in a process of its own
(process.py), receives their heartbeats with a delay, and decides what follows when a process ends, shuts down or is
killed. The activity's code is the real one, on simulated time, tools and stores; only its machine is replaced, by one
that records its turns in the trace.

A killed process loses its work since the last segment that reached the server in a heartbeat. So the trace is truncated
to the turn after which the machine had the state that the next attempt restores; there must be such a turn. Then it is
the trace of one machine, and is checked like all others.

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

from dev.simulate.answers import Answers
from dev.simulate.frame_storage import Database, SimulatedPayloadStore, current_process
from dev.simulate.process import ProcessLoop
from dev.simulate.run_trace import Finding, MachineTrace, Turn
from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal import attempt_end, call_log
from noetl_temporal.frames import activity as frame
from noetl_temporal.frames import segment_writer
from noetl_temporal.frames.wire import FrameDetails, FrameEnd, FrameInput
from noetl_temporal.machine.commands import CallTool, ChunkInput, Command
from noetl_temporal.machine.facts import ChunkReport, Fact
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.performer import HEARTBEAT_TIMEOUT

__all__ = ["Frame", "FrameWorld", "in_processes"]

KINDS = ("noop", "http", "python", "postgres", "duckdb")
"""Tools of the playbooks, including that of calls which only run sinks."""

LONGEST_BEAT_MS = 2_000
LONGEST_GRACE_MS = 5_000
LONGEST_PAUSE_MS = 60_000
LONGEST_RETRY_MS = 30_000
PATIENCE_MS = int(segment_writer.SEGMENT_SECONDS * 2_600)
"""How long a segment may wait for the store while calls still begin: until another is due, and one more poll."""


class FrameWorld:
    """Shared by the frames of a world. A tool takes up to ``longest_ms``; ``finding`` is the first one."""

    def __init__(self, world: Any, answers: Answers, longest_ms: int, sink_fails: float, rows: list[str]) -> None:
        self.world, self.answers, self.longest_ms = world, answers, longest_ms
        self.payloads = SimulatedPayloadStore(world)
        self.segment_entries = world.chance.choice((5, 30, segment_writer.SEGMENT_ENTRIES))
        self.database = Database(world, sink_fails, rows)
        self.tools = {kind: FakeTool(kind, functools.partial(self._answer, kind)) for kind in KINDS}
        with patch.object(frame, "SinkBatches", lambda: self.database):
            self.run = frame.frame_activity(self.tools, CredentialSource(environment={}), self.payloads)
        self.finding: Finding | None = None

    async def _answer(self, kind: str, request: Request, context: ToolContext) -> Outcome:
        current_process().owner.called(request.key)
        used: int = getattr(context, "_log").used  # noqa: B009 - answers differ by what counts, not by lost attempts
        await asyncio.sleep(max(1, int(self.longest_ms * self.world.chance.random() ** 3)) / 1000)
        current_process().mark_active()
        return msgspec.convert(self.answers.answer(kind, request.key, used), Outcome)


@contextlib.contextmanager
def in_processes(shared: FrameWorld) -> Generator[None]:
    """Patch the code of frames to use the world's time, random numbers and database, and to record its turns."""
    world = shared.world
    with contextlib.ExitStack() as stack:
        for owner, name, instead in (
            (call_log, "time", SimpleNamespace(time_ns=lambda: world.now * 1_000_000)),
            (attempt_end, "random", world.chance),
            (frame, "LoopMachine", _machine_of_process),
            (segment_writer, "SEGMENT_ENTRIES", shared.segment_entries),
            (logging.getLogger("noetl_temporal.value_store"), "disabled", True),
            (logging.getLogger("temporalio.activity"), "disabled", True),
        ):
            stack.enter_context(patch.object(owner, name, instead))
        yield


def _machine_of_process(given: ChunkInput, state: Any = None, *, limit: int) -> LoopMachine:
    attempt: _Attempt = current_process().owner
    return attempt.machine_of(given, state, limit)


class _RecordingMachine(LoopMachine):
    """Records its turns in the trace of its frame."""

    def __init__(self, attempt: _Attempt, given: ChunkInput, state: Any, limit: int) -> None:
        super().__init__(given, state, limit=limit)
        self._attempt = attempt

    def feed(self, fact: Fact) -> list[Command]:
        return self._attempt.fed(self, fact, super().feed)

    @property
    def digest(self) -> str:
        """A digest of its snapshot."""
        return hashlib.sha256(json.dumps(self.snapshot(), sort_keys=True).encode()).hexdigest()


class _Attempt:
    """One attempt of a frame in its process. ``last`` is its latest heartbeat, which may not have arrived yet."""

    def __init__(self, owner: Frame, number: int, details: FrameDetails | None) -> None:
        self.owner = owner
        self.loop = ProcessLoop(owner.world, self)  # type: ignore[abstract]
        self.last = details
        self._anew = False
        self._waits_since: int | None = None
        self._begun_late = 0
        self.environment = ActivityEnvironment()
        self.environment.on_heartbeat = self._beat
        heartbeat = [] if details is None else [msgspec.to_builtins(details)]
        info = dataclasses.replace(self.environment.info, attempt=number, heartbeat_details=heartbeat)
        self.environment.info = info

    def start(self, given: ChunkInput, ended: Callable[[asyncio.Task[Any]], None]) -> None:
        """Run the activity."""
        self.loop.run(
            self.environment.run(self.owner.shared.run, FrameInput(given, limit=self.owner.world.store.limit)),
            ended,
        )

    def interrupt(self, why: str) -> None:
        """Cancel the activity, as the response to a heartbeat or the shutdown of its worker does."""
        if not self.loop.is_dead:
            self.environment.cancel(ActivityCancellationDetails(**{why: True}))
            self.loop.pump()

    def stop_worker(self) -> None:
        """Signal that the worker shuts down; its grace period begins."""
        if not self.loop.is_dead:
            self.environment.worker_shutdown()
            self.loop.pump()

    # ---- what the activity does -------------------------------------------------------------------------------------

    def machine_of(self, given: ChunkInput, state: Any, limit: int) -> LoopMachine:
        """The attempt's machine; truncates the trace to its state."""
        machine = _RecordingMachine(self, given, state, limit)
        self.owner.truncate_trace(None if state is None else machine.digest)
        self._anew = state is not None
        return machine

    def fed(self, machine: _RecordingMachine, fact: Fact, feed: Callable[[Fact], list[Command]]) -> list[Command]:
        """Feed a fact, and record the turn."""
        self.loop.mark_active()
        turn = Turn(fact, [], self._anew)
        self._anew = False
        self.owner.trace.turns.append(turn)
        turn.commands = feed(fact)
        turn.left_over, turn.spent = machine.has_work, machine.budget.is_spent()
        self.owner.digests.append(machine.digest)
        self._check_patience(sum(isinstance(command, CallTool) for command in turn.commands))
        return turn.commands

    def stores(self, since: int | None) -> None:
        """A segment has been waiting for the store ``since`` then; None when it is stored."""
        self._waits_since, self._begun_late = since if self._waits_since is None else self._waits_since, 0
        if since is None:
            self._waits_since = None

    def _check_patience(self, begun: int) -> None:
        """Check that few calls begin while a segment is late: only the turn that notices it may begin some."""
        if self._waits_since is not None and self.owner.world.now > self._waits_since + PATIENCE_MS:
            self._begun_late += begun
            if self._begun_late > self.owner.given.max_in_flight:
                waited = self.owner.world.now - self._waits_since
                raise Finding("calls begin while a segment waits", f"{self._begun_late} calls, after {waited} ms")

    def called(self, key: str) -> None:
        """Note that a tool runs for the call."""
        self.loop.mark_active()
        self.owner.called(key)

    def _beat(self, details: FrameDetails) -> None:
        if not self.loop.is_dead:
            self.last = details
            self.owner.deliver_heartbeat(self, details)


class Frame:
    """One frame, as Temporal's server knows it. ``ended`` is called with the loop's report."""

    def __init__(
        self,
        shared: FrameWorld,
        trace: MachineTrace,
        given: ChunkInput,
        ended: Callable[[ChunkReport, ChunkReport | None], None],
    ) -> None:
        self.shared, self.world, self.trace, self.given, self._ended = shared, shared.world, trace, given, ended
        self.is_over = False
        self.digests: list[str] = []
        self._attempt: _Attempt | None = None
        self._number = 0
        self._beats = itertools.count()
        self._heard = -1
        self._is_cancelled = False
        self._is_paused = False
        self._details: FrameDetails | None = None
        self._named = shared.payloads.contents(None)

    @property
    def pending(self) -> list[str]:
        """What it waits for, for messages."""
        return [f"attempt {self._number}"] if self._attempt else ["the next attempt"]

    # ---- attempts ---------------------------------------------------------------------------------------------------

    def begin(self, ms: int) -> None:
        """Start the next attempt after ``ms`` milliseconds."""
        self.world.later(ms, self._begin)

    def _begin(self) -> None:
        if self.is_over or self._is_paused or self._attempt is not None:
            return
        self._number += 1
        self._attempt = _Attempt(self, self._number, self._details)
        self._attempt.start(self.given, self._attempt_ended)

    def _attempt_ended(self, task: asyncio.Task[Any]) -> None:
        attempt, error = self._take_attempt(), None if task.cancelled() else task.exception()
        if isinstance(error, Finding):
            self.shared.finding = error
        elif isinstance(error, ApplicationError):
            self._details = attempt.last
            self._name(attempt.last)
            delay = error.next_retry_delay.total_seconds() if error.next_retry_delay else 1.0
            self._retry_later(int(delay * 1000))
        elif task.cancelled() or error is not None:
            self.shared.finding = Finding("a frame raises", f"{type(error).__name__}: {error}")
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
            self._end_without_report("error", "loop_lost")
        else:
            self.begin(ms)

    def _finish(self, end: FrameEnd) -> None:
        report = msgspec.convert(msgspec.to_builtins(end.report, str_keys=True), ChunkReport, str_keys=True)
        events = self.shared.payloads.contents(end.segments).events
        if list(events) != msgspec.json.decode(msgspec.json.encode(self.trace.events)):
            self.shared.finding = Finding(
                "the events of the segments differ", f"{len(events)} events of {len(self.trace.events)}"
            )
        self.is_over = True
        self._ended(report, report)

    def _end_without_report(self, status: str, kind: str) -> None:
        """End the frame as the shell does when the server ends the activity without a result (performer.py)."""
        total = len(self.given.items)
        failure = error_outcome(kind, "the frame was lost") if kind else None
        stats = {"total": total, "success": 0, "failed": 0, "skipped": total}
        self.is_over = self.trace.terminated = True
        results = [None] * total if kind else []
        report: Any = ChunkReport(status, results, stats, failure=failure)  # type: ignore[arg-type]
        self._ended(report, None)

    # ---- reported by an attempt -------------------------------------------------------------------------------------

    def truncate_trace(self, digest: str | None) -> None:
        """Truncate the trace to the turn after which the machine had this digest; None for a new machine."""
        if digest is None:
            count = 0
        elif digest in self.digests:
            count = self.digests.index(digest) + 1
        else:
            raise Finding("a frame goes on from where it never was", f"attempt {self._number}")
        del self.trace.turns[count:], self.digests[count:]

    def deliver_heartbeat(self, attempt: _Attempt, details: FrameDetails) -> None:
        """Deliver a heartbeat after a delay; the server keeps the latest."""
        number = next(self._beats)

        def deliver() -> None:
            if attempt is self._attempt and number > self._heard:
                self._heard, self._details = number, details
                self._name(details)

        self.world.later(self.world.draw(0, LONGEST_BEAT_MS), deliver)

    def _name(self, details: FrameDetails | None) -> None:
        if details is not None:
            self._named = self.shared.payloads.contents(details.head)

    def called(self, key: str) -> None:
        """Check that no heartbeat reported the call, or its item, as ended."""
        item = next((call.call.iteration for call in self._calls() if call.call.key == key), None)
        if key in self._named.calls or item in self._named.items:
            self.shared.finding = Finding("what a heartbeat named is called again", f"{key}, attempt {self._number}")

    def _calls(self) -> list[CallTool]:
        return [command for turn in self.trace.turns for command in turn.commands if isinstance(command, CallTool)]

    # ---- faults -----------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Cancel, as the parent does: a running attempt learns it from a heartbeat; without one, the frame ends."""
        self.trace.stop_requested = self._is_cancelled = True
        attempt = self._attempt
        if attempt is None:
            self.world.later(self.world.draw(0, 30), self._stop)
        else:
            self._later(attempt, LONGEST_BEAT_MS, lambda: attempt.interrupt("cancel_requested"))

    def _stop(self) -> None:
        """Cancel the attempt that has started meanwhile, or else end the frame."""
        if self._attempt is not None:
            self._attempt.interrupt("cancel_requested")
        elif not self.is_over:
            self._end_without_report("cancelled", "")

    def kill(self) -> None:
        """Kill the worker; the server retries after the heartbeat timeout."""
        if self._attempt is not None:
            self._take_attempt()
            self._retry_later(int(HEARTBEAT_TIMEOUT.total_seconds() * 1000) + self.world.draw(1, LONGEST_RETRY_MS))

    def stop_worker(self) -> None:
        """Shut down the worker; some time later its grace period is over."""
        attempt = self._attempt
        if attempt is not None:
            attempt.stop_worker()
            self._later(attempt, LONGEST_GRACE_MS, lambda: attempt.interrupt("worker_shutdown"))

    def pause(self) -> None:
        """Pause the activity, and unpause it later."""
        attempt = self._attempt
        if attempt is None or self._is_paused:
            return
        self._is_paused = True
        self._later(attempt, LONGEST_BEAT_MS, lambda: attempt.interrupt("paused"))
        self.world.later(LONGEST_BEAT_MS + self.world.draw(0, LONGEST_PAUSE_MS), self._unpause)

    def _unpause(self) -> None:
        self._is_paused = False
        if self._attempt is None and not self.is_over:
            self._begin()

    def _later(self, attempt: _Attempt, longest: int, act: Callable[[], None]) -> None:
        def acts() -> None:
            if attempt is self._attempt:
                act()

        self.world.later(self.world.draw(0, longest), acts)
