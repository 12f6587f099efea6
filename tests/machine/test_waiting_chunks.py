"""Waits of a loop's items: the playbook's machine and the chunk's, with messages between them that may be late."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.commands import AnswerWait, CloseWait, Command, Emit, Finish, OpenWait, RunChunk, StartTimer
from noetl_temporal.machine.events import (
    Answered,
    CancelRequested,
    ChunkFinished,
    Continued,
    Event,
    Resumed,
    Signalled,
    Started,
    TimerFired,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.machine.waits.wait import Signal

from .playbooks import playbook

ITEMS = """\
  - step: start
    loop:
      in: [0, 1, 2, 3]
      iterator: n
      spec: {mode: parallel, max_in_flight: 3, policy: {failure: {mode: best_effort}}}
    tool: {kind: wait, signal: paid, key: "{{ n }}", timeout: 1h}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: wait, signal: paid}, next: {arcs: [{step: then}]}}
  - {step: then, tool: {kind: wait, signal: paid}}
"""


class Pair:
    """Both machines. Messages wait in order until they are delivered; facts are fed one at a time."""

    def __init__(self) -> None:
        self.graph = compile_or_raise(playbook(ITEMS))
        self.parent = Machine(self.graph, execution_id=7)
        self.child: LoopMachine | None = None
        self.input: Any = None
        self.up: deque[OpenWait | CloseWait] = deque()
        self.down: deque[AnswerWait] = deque()
        self.timers: dict[str, str] = {}
        self.now, self.requests = EPOCH_MS, 0
        self.events: list[str] = []
        self.finish: Finish | None = None
        self.feed(Started, {})

    def feed(self, event: type[Event], *args: Any) -> None:
        self.now += 1000
        self._perform(self.parent.feed(event(self.now, *args)))
        while self.parent.has_work and self.finish is None:
            self._perform(self.parent.feed(Continued(self.now)))

    def feed_child(self, event: type[Event], *args: Any) -> None:
        assert self.child is not None
        self.now += 1000
        self._perform(self.child.feed(event(self.now, *args)), chunk=True)
        while self.child.has_work:
            self._perform(self.child.feed(Continued(self.now)), chunk=True)

    def _perform(self, commands: list[Command], *, chunk: bool = False) -> None:
        for command in commands:
            match command:
                case Emit(event):
                    self.events.append(event.type)
                case StartTimer(timer_id) if chunk:
                    self.timers[timer_id] = timer_id
                case RunChunk(chunk_id, given_):
                    self.chunk_id, self.input = chunk_id, given_
                    self.child = LoopMachine(given_)
                    self.feed_child(Started)
                case OpenWait() | CloseWait():
                    self.up.append(command)
                case AnswerWait():
                    self.down.append(command)
                case Finish():
                    if not chunk:
                        self.finish = command
                case _:
                    pass

    # ---- what may happen, in any order ---------------------------------------------------------------------------

    def signal(self, key: int | None) -> None:
        if self.finish is None:
            self.requests += 1
            self.feed(Signalled, self.requests, Signal("paid", self.requests, None if key is None else str(key)))

    def deliver_up(self) -> None:
        if self.up and self.finish is None:
            match self.up.popleft():
                case OpenWait(wait):
                    self.feed(WaitOpened, wait)
                case CloseWait(wait_id, is_answered, returned):
                    self.feed(WaitClosed, wait_id, is_answered, returned)

    def deliver_down(self) -> None:
        """A chunk that is over gives back what it is handed."""
        if not self.down:
            return
        command = self.down.popleft()
        answered = Answered(self.now, command.wait_id, command.answer)
        if self.child is not None and self.child.report is None:
            self.feed_child(Answered, command.wait_id, command.answer)
        elif self.child is not None:
            self.up.append(self.child.returned(answered))

    def time_out(self, index: int) -> None:
        """An item's wait has its time over."""
        waits = list(self.child.state.waits.values()) if self.child is not None and not self.child.report else []
        if index < len(waits):
            self.feed_child(TimerFired, f"{waits[index].id}:timer")

    def restore(self) -> None:
        """Both continue as new; the chunk tells of its waits again."""
        state = msgspec.json.decode(msgspec.json.encode(self.parent.snapshot()))
        if self.finish is None:
            self.parent = Machine(self.graph, execution_id=7, state=state)
            self.feed(Resumed)
        if self.child is not None and self.child.report is None:
            kept = msgspec.json.decode(msgspec.json.encode(self.child.snapshot()))
            self.child = LoopMachine(self.input, kept)
            self.feed_child(Resumed)

    def end_chunk(self) -> None:
        """Its end arrives after all that it sent."""
        if self.child is not None and self.child.report is not None and not (self.up or self.down):
            report, self.child = self.child.report, None
            self.feed(ChunkFinished, self.chunk_id, report)

    def settle(self) -> None:
        while self.up or self.down:
            self.deliver_up()
            self.deliver_down()
            if self.finish is not None:
                return
        self.end_chunk()


ACTIONS = st.one_of(
    st.tuples(st.just("signal"), st.sampled_from([None, 0, 1, 2, 3, 9])),
    st.tuples(st.just("deliver_up")),
    st.tuples(st.just("deliver_down")),
    st.tuples(st.just("time_out"), st.integers(0, 2)),
    st.tuples(st.just("restore")),
    st.tuples(st.just("settle")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_no_signal_is_lost_or_taken_twice(actions: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    for name, *args in actions:
        getattr(pair, name)(*args)
    for _ in range(12):  # enough for whatever still waits
        pair.settle()
        pair.signal(None)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "completed"
    kept = [signal.data for queue in pair.parent.state.signals.values() for signal in queue]
    results = pair.parent.state.records["start"].outcome["result"]["results"]
    others = [pair.parent.state.records[name].outcome["result"] for name in ("after", "then")]
    taken = [one for one in (*results, *others) if one is not None]
    assert sorted([*taken, *kept]) == list(range(1, pair.requests + 1))
    assert pair.events.count("wait.started") == sum(
        pair.events.count(f"wait.{ending}") for ending in ("done", "timed_out", "cancelled")
    )


def test_a_signal_that_comes_too_late_for_an_item_is_the_next_waits() -> None:
    pair = Pair()
    for _ in range(3):
        pair.deliver_up()
    pair.signal(0)
    assert len(pair.down) == 1
    pair.time_out(0)  # while the answer is on its way
    pair.settle()
    assert [(one.data, one.key) for one in pair.parent.state.signals["paid"]] == [(1, "0")]
    for _ in range(3):
        pair.time_out(0)
    pair.settle()
    assert [wait.name for wait in pair.parent.state.waits.values()] == ["then"]
    assert pair.parent.state.records["after"].outcome["result"] == 1


def test_a_chunk_that_tells_of_its_waits_again_is_handed_no_second_answer() -> None:
    pair = Pair()
    pair.restore()
    pair.signal(0)
    pair.signal(0)
    pair.settle()
    assert [signal.data for signal in pair.parent.state.signals["paid"]] == [2]
    assert pair.parent.state.handed == {}


def test_a_message_of_a_chunk_that_somebody_repeats_makes_no_signal() -> None:
    pair = Pair()
    for _ in range(3):
        pair.deliver_up()
    pair.signal(0)
    [handed] = pair.down
    wait_id = f"{handed.chunk_id} {handed.wait_id}"
    pair.settle()
    pair.down.append(handed)
    pair.settle()
    pair.feed(WaitClosed, wait_id, False, handed.answer.signal)
    assert pair.parent.state.signals == {}
    assert pair.parent.state.handed == {}


def test_a_loop_that_is_cancelled_while_it_waits_ends() -> None:
    pair = Pair()
    pair.settle()
    pair.feed(CancelRequested)
    pair.feed_child(CancelRequested)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "cancelled"
    assert pair.events.count("wait.cancelled") == 3
    assert pair.parent.state.waits == {}
