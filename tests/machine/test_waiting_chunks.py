"""Waits of a loop's items: the playbook's machine and the chunk's, with messages between them that may be late."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_temporal.machine.commands import AnswerWait
from noetl_temporal.machine.facts import (
    CancelRequested,
    Signalled,
    WaitClosed,
)
from noetl_temporal.machine.waits.wait import Signal

from .paired import Pair

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
    pair = Pair(ITEMS)
    for name, *args in actions:
        getattr(pair, name)(*args)
    for _ in range(12):  # enough for whatever still waits
        pair.settle()
        pair.signal(None)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "completed"
    kept_data = [signal.data for queue in pair.parent.state.queued_signals.values() for signal in queue]
    results = pair.parent.state.records["start"].outcome["result"]["results"]
    others = [pair.parent.state.records[name].outcome["result"] for name in ("after", "then")]
    received_results = [chunk for chunk in (*results, *others) if chunk is not None]
    assert sorted([*received_results, *kept_data]) == list(range(1, pair.requests + 1))
    assert pair.events.count("wait.started") == sum(
        pair.events.count(f"wait.{ending}") for ending in ("done", "timed_out", "cancelled")
    )


def test_a_signal_that_comes_too_late_for_an_item_goes_to_the_next_wait() -> None:
    pair = Pair(ITEMS)
    for _ in range(3):
        pair.deliver_up()
    pair.signal(0)
    assert len(pair.down) == 1
    pair.time_out(0)  # while the answer is on its way
    pair.settle()
    assert [(signal.data, signal.key) for signal in pair.parent.state.queued_signals["paid"]] == [(1, "0")]
    for _ in range(3):
        pair.time_out(0)
    pair.settle()
    assert [wait.name for wait in pair.parent.state.waits.values()] == ["then"]
    assert pair.parent.state.records["after"].outcome["result"] == 1


def test_a_chunk_that_reports_its_waits_again_gets_no_second_answer() -> None:
    pair = Pair(ITEMS)
    pair.restore()
    pair.signal(0)
    pair.signal(0)
    pair.settle()
    assert [signal.data for signal in pair.parent.state.queued_signals["paid"]] == [2]
    assert pair.parent.state.sent_answers == {}


def test_a_message_of_a_chunk_that_somebody_repeats_makes_no_signal() -> None:
    pair = Pair(ITEMS)
    for _ in range(3):
        pair.deliver_up()
    pair.signal(0)
    [handed_signal] = pair.down
    assert isinstance(handed_signal, AnswerWait)
    wait_id = f"{handed_signal.chunk_id} {handed_signal.wait_ids[0]}"
    pair.settle()
    pair.down.append(handed_signal)
    pair.settle()
    pair.feed(WaitClosed, wait_id, False, handed_signal.answer.signal)
    assert pair.parent.state.queued_signals == {}
    assert pair.parent.state.sent_answers == {}


def test_a_signal_that_an_item_took_before_a_reset_ends_no_other_wait() -> None:
    pair = Pair(ITEMS)
    for _ in range(3):
        pair.deliver_up()
    wait_id, *_ = pair.parent.state.waits
    pair.feed(WaitClosed, wait_id, True, None, 7)
    pair.feed(Signalled, 7, Signal("paid", "once"))
    assert (pair.parent.state.queued_signals, pair.parent.state.sent_answers, list(pair.down)) == ({}, {}, [])
    assert pair.events.count("signal.received") == 1
    pair.feed(Signalled, 8, Signal("paid", "next"))
    assert [answer.result for answer in pair.parent.state.sent_answers.values()] == ["next"]


def test_a_loop_that_is_cancelled_while_it_waits_ends() -> None:
    pair = Pair(ITEMS)
    pair.settle()
    pair.feed(CancelRequested)
    pair.feed_child(CancelRequested)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "cancelled"
    assert pair.events.count("wait.cancelled") == 3
    assert pair.parent.state.waits == {}
