"""A frame in the simulated world: the real activity (noetl_temporal/frames) in simulated processes, and its server.

How it works. ``Frame`` stands where a loop's workflow would: it is what Temporal's server knows of the activity. It
begins attempts, each in a process of its own (process.py), hears their heartbeats some time after they were sent, and
decides what follows when a process dies, leaves, or ends. The activity runs as it is, on simulated time, tools and
stores; only its machine is one that writes its turns into the tale.

A process that dies takes with it what it did since the last segment that a heartbeat named. So the tale is cut back to
the turn after which the machine was as the next attempt finds it: there must be one. From then on it is the story of
one machine, and every law for such stories holds for it.

Laws of frames alone: a call, and an item, that a heartbeat named is never called again; the segments tell the tale; and
no call begins while a segment waits long for its store.
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
from dev.simulate.process import ProcessLoop
from dev.simulate.storage import Database, Payloads, here
from dev.simulate.story import Finding, Tale, Turn
from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal import attempt_end, call_log
from noetl_temporal.frames import activity as frame
from noetl_temporal.frames import keeper
from noetl_temporal.frames.segments import FrameDetails
from noetl_temporal.frames.wire import FrameEnd, FrameInput
from noetl_temporal.machine.commands import CallTool, ChunkInput, Command
from noetl_temporal.machine.events import ChunkReport, Event
from noetl_temporal.machine.failing import error_outcome
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.performer import HEARTBEAT_TIMEOUT

__all__ = ["Frame", "Place", "in_processes"]

KINDS = ("noop", "http", "python", "postgres")
"""Tools of the playbooks, and of calls that are nothing but their sinks."""

LONGEST_BEAT_MS = 2_000
LONGEST_GRACE_MS = 5_000
LONGEST_PAUSE_MS = 60_000
LONGEST_RETRY_MS = 30_000
PATIENCE_MS = int(keeper.SEGMENT_SECONDS * 2_600)
"""How long a segment may wait for its store until nothing begins any more: until another is due, and one look more."""


class Place:
    """What frames of one world share. ``longest_ms`` is the longest that a tool takes; ``finding`` what broke."""

    def __init__(self, world: Any, answers: Answers, longest_ms: int, sink_fails: float, rows: list[str]) -> None:
        self.world, self.answers, self.longest_ms = world, answers, longest_ms
        self.payloads = Payloads(world)
        self.segment_entries = world.chance.choice((5, 30, keeper.SEGMENT_ENTRIES))
        self.database = Database(world, sink_fails, rows)
        self.tools = {kind: FakeTool(kind, functools.partial(self._answer, kind)) for kind in KINDS}
        with patch.object(frame, "SinkBatches", lambda: self.database):
            self.run = frame.frame_activity(self.tools, CredentialSource(environment={}), self.payloads)
        self.finding: Finding | None = None

    async def _answer(self, kind: str, request: Request, context: ToolContext) -> Outcome:
        here().owner.called(request.key)
        used: int = getattr(context, "_log").used  # noqa: B009 - answers differ by what counts, not by lost attempts
        await asyncio.sleep(max(1, int(self.longest_ms * self.world.chance.random() ** 3)) / 1000)
        here().news()
        return msgspec.convert(self.answers.answer(kind, request.key, used), Outcome)


@contextlib.contextmanager
def in_processes(place: Place) -> Generator[None]:
    """Let the real code of frames use the world's time, chance and database, and write its turns into tales."""
    world = place.world
    with contextlib.ExitStack() as stack:
        for owner, name, instead in (
            (call_log, "time", SimpleNamespace(time_ns=lambda: world.now * 1_000_000)),
            (attempt_end, "random", world.chance),
            (frame, "LoopMachine", _machine_of_process),
            (keeper, "SEGMENT_ENTRIES", place.segment_entries),
            (logging.getLogger("noetl_temporal.value_store"), "disabled", True),
            (logging.getLogger("temporalio.activity"), "disabled", True),
        ):
            stack.enter_context(patch.object(owner, name, instead))
        yield


def _machine_of_process(given: ChunkInput, state: Any = None, *, limit: int) -> LoopMachine:
    attempt: _Attempt = here().owner
    return attempt.machine_of(given, state, limit)


class _ToldMachine(LoopMachine):
    """Writes its turns into a frame's tale."""

    def __init__(self, attempt: _Attempt, given: ChunkInput, state: Any, limit: int) -> None:
        super().__init__(given, state, limit=limit)
        self._attempt = attempt

    def feed(self, event: Event) -> list[Command]:
        return self._attempt.fed(self, event, super().feed)

    @property
    def digest(self) -> str:
        """Of its snapshot."""
        return hashlib.sha256(json.dumps(self.snapshot(), sort_keys=True).encode()).hexdigest()


class _Attempt:
    """One attempt of a frame in its process. ``last`` is what it told in heartbeats that may not have arrived yet."""

    def __init__(self, owner: Frame, number: int, details: FrameDetails | None) -> None:
        self.owner = owner
        self.loop = ProcessLoop(owner.world, self)  # type: ignore[abstract]
        self.last = details
        self._anew = False
        self._waits_since: int | None = None
        self._begun_late = 0
        self.environment = ActivityEnvironment()
        self.environment.on_heartbeat = self._beat
        told = [] if details is None else [msgspec.to_builtins(details)]
        info = dataclasses.replace(self.environment.info, attempt=number, heartbeat_details=told)
        self.environment.info = info

    def start(self, given: ChunkInput, ended: Callable[[asyncio.Task[Any]], None]) -> None:
        """Run the activity."""
        self.loop.run(
            self.environment.run(self.owner.place.run, FrameInput(given, limit=self.owner.world.store.limit)), ended
        )

    def interrupt(self, why: str) -> None:
        """As the answer to a heartbeat, or a worker's end, does."""
        if not self.loop.is_dead:
            self.environment.cancel(ActivityCancellationDetails(**{why: True}))
            self.loop.pump()

    def stop_worker(self) -> None:
        """The worker is told to stop; its grace has not ended."""
        if not self.loop.is_dead:
            self.environment.worker_shutdown()
            self.loop.pump()

    # ---- what the activity does -------------------------------------------------------------------------------------

    def machine_of(self, given: ChunkInput, state: Any, limit: int) -> LoopMachine:
        """Its machine, and the tale cut back to where that is."""
        machine = _ToldMachine(self, given, state, limit)
        self.owner.cut_back(None if state is None else machine.digest)
        self._anew = state is not None
        return machine

    def fed(self, machine: _ToldMachine, fact: Event, feed: Callable[[Event], list[Command]]) -> list[Command]:
        """Feed a fact, and write the turn down."""
        self.loop.news()
        turn = Turn(fact, [], self._anew)
        self._anew = False
        self.owner.tale.turns.append(turn)
        turn.commands = feed(fact)
        turn.left_over = machine.has_work
        self.owner.digests.append(machine.digest)
        self._check_patience(sum(isinstance(one, CallTool) for one in turn.commands))
        return turn.commands

    def stores(self, since: int | None) -> None:
        """A segment is being stored, for the first time ``since``; None when it is."""
        self._waits_since, self._begun_late = since if self._waits_since is None else self._waits_since, 0
        if since is None:
            self._waits_since = None

    def _check_patience(self, begun: int) -> None:
        """The turn that notices that a segment is late may begin calls, once."""
        if self._waits_since is not None and self.owner.world.now > self._waits_since + PATIENCE_MS:
            self._begun_late += begun
            if self._begun_late > self.owner.given.max_in_flight:
                waited = self.owner.world.now - self._waits_since
                raise Finding("calls begin while a segment waits", f"{self._begun_late} calls, after {waited} ms")

    def called(self, key: str) -> None:
        """A tool is run."""
        self.loop.news()
        self.owner.called(key)

    def _beat(self, details: FrameDetails) -> None:
        if not self.loop.is_dead:
            self.last = details
            self.owner.heard_later(self, details)


class Frame:
    """What Temporal knows of one frame. ``ended`` hears the report of the loop."""

    def __init__(
        self, place: Place, tale: Tale, given: ChunkInput, ended: Callable[[ChunkReport, ChunkReport | None], None]
    ) -> None:
        self.place, self.world, self.tale, self.given, self._ended = place, place.world, tale, given, ended
        self.is_over = False
        self.digests: list[str] = []
        self._attempt: _Attempt | None = None
        self._number = 0
        self._beats = itertools.count()
        self._heard = -1
        self._is_cancelled = False
        self._is_paused = False
        self._details: FrameDetails | None = None
        self._named = place.payloads.told(None)

    @property
    def pending(self) -> list[str]:
        """What it waits for, in words."""
        return [f"attempt {self._number}"] if self._attempt else ["the next attempt"]

    # ---- attempts ---------------------------------------------------------------------------------------------------

    def begin(self, ms: int) -> None:
        """Begin the next attempt in so many milliseconds."""
        self.world.later(ms, self._begin)

    def _begin(self) -> None:
        if self.is_over or self._is_paused or self._attempt is not None:
            return
        self._number += 1
        self._attempt = _Attempt(self, self._number, self._details)
        self._attempt.start(self.given, self._came_to_an_end)

    def _came_to_an_end(self, task: asyncio.Task[Any]) -> None:
        attempt, error = self._left(), None if task.cancelled() else task.exception()
        if isinstance(error, Finding):
            self.place.finding = error
        elif isinstance(error, ApplicationError):
            self._details = attempt.last
            self._name(attempt.last)
            delay = error.next_retry_delay.total_seconds() if error.next_retry_delay else 1.0
            self._again(int(delay * 1000))
        elif task.cancelled() or error is not None:
            self.place.finding = Finding("a frame raises", f"{type(error).__name__}: {error}")
        else:
            self._finish(task.result())

    def _left(self) -> _Attempt:
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        attempt.loop.die()
        return attempt

    def close(self) -> None:
        """Leave nothing running."""
        if self._attempt is not None:
            self._left()

    def _again(self, ms: int) -> None:
        """One that was asked to stop is not run again: then the server tells of a failure."""
        if self._is_cancelled:
            self._unheard("error", "loop_lost")
        else:
            self.begin(ms)

    def _finish(self, end: FrameEnd) -> None:
        report = msgspec.convert(msgspec.to_builtins(end.report, str_keys=True), ChunkReport, str_keys=True)
        told = self.place.payloads.told(end.segments).events
        if list(told) != msgspec.json.decode(msgspec.json.encode(self.tale.events)):
            self.place.finding = Finding(
                "segments tell another story", f"{len(told)} events of {len(self.tale.events)}"
            )
        self.is_over = True
        self._ended(report, report)

    def _unheard(self, status: str, kind: str) -> None:
        """The server ends the activity without its result, as the shell then reports it (performer.py)."""
        total = len(self.given.items)
        failure = error_outcome(kind, "the frame was lost") if kind else None
        stats = {"total": total, "success": 0, "failed": 0, "skipped": total}
        self.is_over = self.tale.terminated = True
        results = [None] * total if kind else []
        report: Any = ChunkReport(status, results, stats, failure=failure)  # type: ignore[arg-type]
        self._ended(report, None)

    # ---- what an attempt tells --------------------------------------------------------------------------------------

    def cut_back(self, digest: str | None) -> None:
        """To the turn after which the machine was as it is now, None for a new one."""
        if digest is None:
            count = 0
        elif digest in self.digests:
            count = self.digests.index(digest) + 1
        else:
            raise Finding("a frame goes on from where it never was", f"attempt {self._number}")
        del self.tale.turns[count:], self.digests[count:]

    def heard_later(self, attempt: _Attempt, details: FrameDetails) -> None:
        """A heartbeat is on its way; the server keeps the latest."""
        number = next(self._beats)

        def heard() -> None:
            if attempt is self._attempt and number > self._heard:
                self._heard, self._details = number, details
                self._name(details)

        self.world.later(self.world.draw(0, LONGEST_BEAT_MS), heard)

    def _name(self, details: FrameDetails | None) -> None:
        if details is not None:
            self._named = self.place.payloads.told(details.head)

    def called(self, key: str) -> None:
        """A tool is run: for a call, and an item, that no heartbeat named as ended."""
        item = next((one.call.iteration for one in self._calls() if one.call.key == key), None)
        if key in self._named.calls or item in self._named.items:
            self.place.finding = Finding("what a heartbeat named is called again", f"{key}, attempt {self._number}")

    def _calls(self) -> list[CallTool]:
        return [one for turn in self.tale.turns for one in turn.commands if isinstance(one, CallTool)]

    # ---- what befalls it --------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """What a parent's cancel comes to: told with the answer to a heartbeat, at once where no worker has it."""
        self.tale.asked_to_stop = self._is_cancelled = True
        attempt = self._attempt
        if attempt is None:
            self.world.later(self.world.draw(0, 30), self._stop)
        else:
            self._later(attempt, LONGEST_BEAT_MS, lambda: attempt.interrupt("cancel_requested"))

    def _stop(self) -> None:
        """An attempt may have begun meanwhile."""
        if self._attempt is not None:
            self._attempt.interrupt("cancel_requested")
        elif not self.is_over:
            self._unheard("cancelled", "")

    def kill(self) -> None:
        """SIGKILL of its worker; the server notices when no heartbeat comes."""
        if self._attempt is not None:
            self._left()
            self._again(int(HEARTBEAT_TIMEOUT.total_seconds() * 1000) + self.world.draw(1, LONGEST_RETRY_MS))

    def stop_worker(self) -> None:
        """Its worker is told to stop, and some time later its grace is over."""
        attempt = self._attempt
        if attempt is not None:
            attempt.stop_worker()
            self._later(attempt, LONGEST_GRACE_MS, lambda: attempt.interrupt("worker_shutdown"))

    def pause(self) -> None:
        """A person pauses the activity, and lets it go on."""
        attempt = self._attempt
        if attempt is None or self._is_paused:
            return
        self._is_paused = True
        self._later(attempt, LONGEST_BEAT_MS, lambda: attempt.interrupt("paused"))
        self.world.later(LONGEST_BEAT_MS + self.world.draw(0, LONGEST_PAUSE_MS), self._go_on)

    def _go_on(self) -> None:
        self._is_paused = False
        if self._attempt is None and not self.is_over:
            self._begin()

    def _later(self, attempt: _Attempt, longest: int, act: Callable[[], None]) -> None:
        def acts() -> None:
            if attempt is self._attempt:
                act()

        self.world.later(self.world.draw(0, longest), acts)
