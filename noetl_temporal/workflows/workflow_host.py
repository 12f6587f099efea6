"""Drives one machine inside a workflow: feeds it facts, performs its commands, and decides when to continue as new.

How it works. At each turn, the host feeds the new facts, stops first, and performs the commands of the machine. It
checks at every turn whether a cancel was requested, and feeds it before other facts: Temporal delivers a cancel only
once, as an exception in whatever the workflow awaits. So neither a call that ends at the same time nor a
continue-as-new can lose it. The end of such a call is not lost either: the SDK drops the result of an activity that is
cancelled before its result was read, so after a cancel all results of the workflow task become facts before the next
turn. Without a cancel they are facts already, because the SDK wakes the host only when nothing else is left to run.

A workflow task has a budget (machine/budget.py). When work is left over, a timer of a millisecond starts the next one.

Continue-as-new. After the soft limit the host makes the machine *idle*: it begins nothing, but applies facts. If no
call and no loop is in flight then, the run continues as new from the snapshot, in which timers are deadlines, so they
start again. Otherwise the machine continues; the host waits only for values that are being stored or loaded. A chunk of
a loop first gives back the items that it has not begun, and so ends; it continues as new only because of the calls of a
single item. At the hard limit the machine idles until nothing is in flight, with a warning in the log and in the
details in the Temporal UI. A cancelled run never continues as new: only its cleanup is left, and the new run would not
know of the cancel.

The SDK delivers the end of a local activity early in a replay: in the task whose completion recorded it, not in the
next one, which may bring a request as well. The commands that follow from both would change places. So a run refuses
requests, which are sent again, while values are stored or loaded, and at its end, when it waits until all events are
recorded. Before it continues as new, a timer starts the next workflow task, in which cancels and messages that arrived
meanwhile are noticed.

While a run waits for a signal or a person, its events are recorded immediately: no command may follow that carries
them, and they show what the run waits for.

When another build is current (versioning.py), a run that waits only for timers continues as new as well, even when a
timer has just fired: it fires again in the new run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from temporalio import workflow

from noetl_temporal.machine.commands import CallTool, Finish, LoadValue, RunChunk, StartTimer, StoreValues
from noetl_temporal.machine.facts import (
    Answered,
    CancelRequested,
    Continued,
    Decided,
    Fact,
    IdleRequested,
    LimitReached,
    PauseRequested,
    RetryRequested,
    ReturnRequested,
    Signalled,
    SkipRequested,
    UnpauseRequested,
    ValueLoaded,
    ValuesStored,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.workflows.current_workflow import now
from noetl_temporal.workflows.performer import Performer
from noetl_temporal.workflows.steady_time import add_command
from noetl_temporal.workflows.versioning import wants_upgrade

__all__ = ["WorkflowHost"]

SOFT_EVENTS = 2_000
"""History events after which a run continues as new at the next idle moment (dev/decisions/0015)."""

HARD_EVENTS = 10_000
HARD_BYTES = 20_000_000
"""Limits of history above which nothing begins until the run is idle. Temporal ends a run at 51,200 events or 50 MB."""

HARD_REQUESTS = 800
"""The limit of accepted requests, with the same effect. Temporal refuses more than 2,000 (loops/chunks.py)."""

_REQUESTS = (Signalled, Decided, PauseRequested, UnpauseRequested, RetryRequested, SkipRequested)
_NOT_RESENT = (*_REQUESTS, WaitOpened, WaitClosed, Answered)

_STARTS = (CallTool, Finish, LoadValue, RunChunk, StartTimer, StoreValues)
"""What becomes a command in history."""

_STEPS_TO_FACT = 4
"""Steps of the event loop between the arrival of a result and its fact: the future of the call is set, its task resumes
and ends, and its callback adds the fact. One is spare."""

NEXT_TASK_SECONDS = 0.001
"""Delay of the timer that brings the next workflow task."""


class WorkflowHost:
    """Drives a machine. ``limit``: the maximum size of a value in bytes; ``on_turn`` is called when facts were fed."""

    def __init__(
        self,
        machine: PlaybookMachine | LoopMachine,
        performer: Performer,
        limit: int,
        on_turn: Callable[[], None] = lambda: None,
    ) -> None:
        self._machine = machine
        self._performer = performer
        self._limit = limit
        self._on_turn = on_turn
        self._requests: list[str] = []
        self._updates: list[Fact] = []
        self._request_count = 0
        self._is_cancel_fed = False
        self._is_wait_logged = False
        self._needs_command = False
        self._soft_events = SOFT_EVENTS
        self._next_task_timer: asyncio.Task[None] | None = None
        self._is_reset = False
        self._must_repeat_pause = False
        self._is_ending = False

    def mark_reset(self) -> None:
        """Note that the run was reset: its next turn terminates the chunks that are not its own, and notifies its own
        whether it is paused, as they may have received a pause that this run does not have.
        """
        self._is_reset = True

    def request_cancel(self, reason: str) -> None:
        """Request a stop; the second request skips the cleanup."""
        self._requests.append(reason)

    def feed(self, fact: Fact) -> None:
        """Feed one fact and perform what follows from it."""
        self._performer.perform(self._machine.feed(fact))

    def receive(self, fact: Fact) -> None:
        """Receive the fact of a message; it is fed with the others."""
        self._request_count += isinstance(fact, _REQUESTS)
        self._performer.note(fact)

    def receive_update(self, fact: Fact) -> None:
        """Receive the fact of an update. It is fed after the facts of all messages of the workflow task: after a reset
        that delivers them again, a replay does not know its place between them.
        """
        self._request_count += 1
        self._updates.append(fact)
        self._performer.has_news = True

    @property
    def unapplied_facts(self) -> list[Fact]:
        """The facts that were not fed to the machine yet."""
        return [*self._performer.inbox, *self._updates]

    def busy_problem(self) -> str | None:
        """Return why the run accepts no request now; None if it does."""
        if self._is_ending:
            return "the run is about to end or to continue as new"
        if self._machine.uses_store:
            return "the run is storing or loading values"
        return None

    async def drive(self) -> Finish | None:
        """Run until the machine ends. Returns None if the run must continue as new from the machine's snapshot."""
        while True:
            finish = await self._drive()
            self._is_ending = True
            has_recorded = await self._performer.wait_until_recorded()
            if finish is None and has_recorded:
                await _wait_for_next_task()
            if finish is not None or not (self._has_requests() or self._requests or self._is_cancel_new()):
                return finish
            self._is_ending = False

    def _has_requests(self) -> bool:
        """Whether there is a fact that would be lost, as nobody sends it again. (A timer fires again.)"""
        return any(isinstance(fact, _NOT_RESENT) for fact in self.unapplied_facts)

    async def _drive(self) -> Finish | None:
        await _wait_for_facts()
        while not self._should_upgrade():
            self._take_turn()
            should_continue = self._performer.finish is None and self._prepare_continue_as_new()
            self._feed_inbox()
            self._on_turn()
            self._performer.start()
            if self._machine.is_waiting:
                self._performer.record_events()
            if self._performer.finish is not None:
                return self._performer.finish
            if (should_continue and self._machine.is_idle) or self._should_upgrade():
                return None
            if self._needs_command:
                self._needs_command = False
                add_command()
            self._start_next_task_timer()
            try:
                await workflow.wait_condition(self._has_news)
            except asyncio.CancelledError:
                await _wait_for_facts()
        return None

    def _has_news(self) -> bool:
        return self._performer.has_news or bool(self._requests) or self._is_cancel_new() or self._is_reset

    def _is_cancel_new(self) -> bool:
        return workflow.cancellation_reason() is not None and not self._is_cancel_fed

    # ---- a turn ---------------------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        self._machine.budget.renew()
        self._note_updates()
        self._performer.has_news = False
        self._performer.cancel_late()
        if self._is_reset:
            self._is_reset = False
            self._performer.terminate_orphans(self._machine.chunks_in_flight)
            self._must_repeat_pause = True
        self._feed_cancels()
        if self._may_continue_as_new() and not self._machine.state.is_idling and self._performer.finish is None:
            self._shorten_history()
        self._feed_inbox()
        if self._must_repeat_pause and not self._performer.inbox:
            self._must_repeat_pause = False
            self._performer.repeat_pause(self._machine.state.pause)

    def _note_updates(self) -> None:
        updates, self._updates = self._updates, []
        for fact in updates:
            self._performer.note(fact)

    def _shorten_history(self) -> None:
        """Act on a long history: a chunk gives back the items that it has not begun, other machines idle.

        They do not idle while stored values are loaded: the new run would load those again that arrive meanwhile.
        """
        if isinstance(self._machine, LoopMachine) and self._machine.may_return_items:
            self._soft_events = workflow.info().get_current_history_length() + SOFT_EVENTS
            self.feed(ReturnRequested(now()))
        elif not self._machine.is_loading or self._is_at_hard_limit():
            self.feed(IdleRequested(now()))

    def _feed_inbox(self) -> None:
        """Feed the facts of the inbox within the budget; the others wait for the next workflow task."""
        inbox = self._performer.inbox
        while inbox and self._performer.finish is None and not self._machine.budget.is_spent():
            if self._performer.is_sender_starting(inbox[0]):
                return
            fact = inbox.popleft()
            if self._performer.is_sender_known(fact):
                self._feed_received(fact)

    def _feed_received(self, fact: Fact) -> None:
        """Feed a fact from history, and note if the workflow task needs a command because of it (steady_time.py).

        A fact of a local activity needs none, as the activity has started with one. What is decided here must not
        depend on the workflow task that such a fact is in, which a replay may change.
        """
        commands = self._machine.feed(fact)
        if not isinstance(self._machine, LoopMachine) and not isinstance(fact, ValueLoaded | ValuesStored):
            self._needs_command |= not any(isinstance(command, _STARTS) for command in commands)
        self._performer.perform(commands)

    def _feed_cancels(self) -> None:
        if self._is_cancel_new() and self._performer.finish is None:
            self._is_cancel_fed = True
            self._feed_received(CancelRequested(now(), workflow.cancellation_reason() or ""))
        while self._requests and self._performer.finish is None:
            self._feed_received(CancelRequested(now(), self._requests.pop(0)))

    def _start_next_task_timer(self) -> None:
        inbox = self._performer.inbox
        has_facts = bool(inbox) and not self._performer.is_sender_starting(inbox[0])
        has_more = self._machine.has_work or has_facts or self._performer.has_late_cancels
        if has_more and self._next_task_timer is None:
            task = asyncio.create_task(workflow.sleep(NEXT_TASK_SECONDS, summary="next workflow task"))
            task.add_done_callback(self._on_next_task)
            self._next_task_timer = task

    def _on_next_task(self, _task: asyncio.Task[Any]) -> None:
        self._next_task_timer = None
        self._performer.note(Continued(now()))

    # ---- continue-as-new ------------------------------------------------------------------------------------------

    def _may_continue_as_new(self) -> bool:
        info = workflow.info()
        is_long = info.is_continue_as_new_suggested() or info.get_current_history_length() > self._soft_events
        return (is_long or self._has_many_requests()) and not self._machine.is_cancelled

    def _prepare_continue_as_new(self) -> bool:
        """Return whether the run continues as new once its machine is idle.

        If it is due but calls are in progress, feed the facts that keep the machine from beginning new calls.
        """
        if not self._may_continue_as_new():
            if self._machine.state.is_idling:
                self.feed(Continued(now()))
            return False
        if self._machine.is_idle and not self._performer.inbox:
            return self._fits()
        if self._machine.waits_only_for_store:
            return False
        if not self._is_at_hard_limit():
            self.feed(Continued(now()))
        elif not self._is_wait_logged:
            self._is_wait_logged = True
            self.feed(IdleRequested(now(), "the history is near its limit: waiting for calls in progress to end"))
        return False

    def _should_upgrade(self) -> bool:
        if not self._machine.is_idle or self._has_requests():
            return False
        is_stopping = self._machine.state.stop is not None or bool(self._requests) or self._is_cancel_new()
        return not is_stopping and wants_upgrade() and self._size() <= self._limit

    def _is_at_hard_limit(self) -> bool:
        info = workflow.info()
        is_long = info.get_current_history_length() > HARD_EVENTS or info.get_current_history_size() > HARD_BYTES
        return is_long or self._has_many_requests()

    def _has_many_requests(self) -> bool:
        return self._request_count >= HARD_REQUESTS

    def _fits(self) -> bool:
        """Whether the snapshot is within the limit. A larger one would hang the run, so the run is stopped."""
        size = self._size()
        if size <= self._limit:
            return True
        self.feed(LimitReached(now(), f"the state of the run has {size:,} bytes, over {self._limit:,}"))
        self.feed(Continued(now()))
        return False

    def _size(self) -> int:
        return self._performer.size_of(self._machine.snapshot())


async def _wait_for_next_task() -> None:
    timer = asyncio.create_task(workflow.sleep(NEXT_TASK_SECONDS, summary="next workflow task"))
    while not timer.done():
        with suppress(asyncio.CancelledError):  # the host checks whether there was a cancel
            await asyncio.shield(timer)


async def _wait_for_facts() -> None:
    """Wait until everything that this workflow task delivered is in the inbox."""
    for _ in range(_STEPS_TO_FACT):
        with suppress(asyncio.CancelledError):  # the turn checks whether there was a cancel
            await asyncio.sleep(0)
