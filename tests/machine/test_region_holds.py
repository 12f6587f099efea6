"""Failed steps of an iteration that wait for a person (semantics 42)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_temporal.machine.commands import OpenWait
from noetl_temporal.machine.control import RefusedError, find_held_run
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    ChunkReport,
    RetryRequested,
    TimerFired,
    WaitOpened,
)

from .driver import error
from .paired import Pair

EACH = "  - step: each\n    loop: {in: [a, b], iterator: x, spec: {mode: parallel, max_in_flight: 2}}\n"
STEPS = """\
    next: {arcs: [{step: first}]}
  - step: first
    on_failure: {do: hold, for: 2h}
    tool: {kind: noop, input: {x: "{{ x }}"}}
    set: {iter.n: "{{ output.data }}"}
    next: {arcs: [{step: second}]}
  - {step: second, tool: {kind: noop, message: "{{ iter.n }}"}, next: {arcs: [{step: done}]}}
  - step: done
    spec: {end_loop: each}
"""
REGION = EACH + STEPS
ROUTE = """\
  - step: each
    loop: {in: [a, b], iterator: x, spec: {mode: parallel}, next: {arcs: [{step: first}]}}
    tool: {kind: noop}
  - {step: first, on_failure: hold, tool: {kind: noop}}
"""
NESTED_LOOPS = """\
  - {step: each, timeout: 50s, loop: {in: [a, b], iterator: x}, next: {arcs: [{step: inner}]}}
  - step: inner
    timeout: 20s
    on_failure: hold
    loop: {in: [1, 2, 3], iterator: y, spec: {mode: parallel, max_in_flight: 3}}
    next: {arcs: [{step: first}]}
  - {step: first, on_failure: HOLD, tool: {kind: noop, input: {y: "{{ y }}"}}, next: {arcs: [{step: met}]}}
  - {step: met, spec: {end_loop: inner}, next: {arcs: [{step: done}]}}
  - {step: done, spec: {end_loop: each}}
"""
TIMED = "executor: {spec: {timeout: 100s}}\n"
with_and_without_restore = pytest.mark.parametrize("restored", [False, True], ids=["in memory", "restored"])


def start_count(pair: Pair, step: str) -> int:
    return sum(event.type == "step.started" and event.node == step for event in pair.emitted_events)


@with_and_without_restore
def test_a_retry_is_the_next_run_of_the_step_in_its_iteration(restored: bool) -> None:
    pair = Pair(REGION)
    pair.ends("first", error("no table"), iteration=1)
    pair.settle()
    assert pair.parent.is_suspended
    assert pair.held() == pair.held("first") == pair.held("first[1]") == "each/1/1/first#1"
    if restored:
        pair.restore()
    pair.retry("first[1]")
    pair.settle()
    assert not pair.parent.is_suspended
    pair.ends("first", 5, iteration=1)
    pair.ends("first", 4, iteration=0)
    pair.ends("second", iteration=1)
    pair.ends("second", iteration=0)
    pair.settle()
    assert pair.finish is not None
    assert (pair.finish.status, pair.finish.failures.unhandled) == ("completed", 0)
    assert start_count(pair, "first") == 3
    ends = [event.meta["action"] for event in pair.emitted_events if event.type == "step.released"]
    assert ends == ["retry"]


@with_and_without_restore
def test_a_skipped_step_has_the_result_that_is_given(restored: bool) -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.settle()
    pair.skip("first", 7)
    if restored:
        pair.restore()
    pair.settle()
    [second] = [call for call in pair.calls.values() if call.step == "second"]
    assert (second.iteration, second.config["message"]) == (0, 7)


def test_the_other_iterations_continue() -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.ends("first", 4, iteration=1)
    pair.ends("second", iteration=1)
    assert pair.events.count("loop.iteration.done") == 1
    assert pair.child is not None
    assert pair.child.report is None


def test_fail_fast_of_the_loop_waits_for_the_decision() -> None:
    pair = Pair(REGION.replace("max_in_flight: 2", "max_in_flight: 2, on_error: fail_fast"))
    pair.ends("first", error(), iteration=0)
    assert pair.child is not None
    assert pair.child.state.stop is None
    pair.feed_child(TimerFired, "each/1/0/first#1:hold")
    assert pair.child.state.stop is not None


@pytest.mark.parametrize("seconds", [0, 30])
def test_timeouts_of_the_playbook_and_of_the_loop_do_not_count(seconds: int) -> None:
    pair = Pair(REGION.replace("  - step: each\n", "  - step: each\n    timeout: 50s\n"), TIMED)
    assert set(pair.parent_timers) == {"playbook:timeout", "each#1:timeout"}
    pair.ends("first", error(), iteration=0)
    pair.settle()
    assert pair.parent_timers == {}
    pair.now += seconds * 1000
    pair.retry()
    assert set(pair.parent_timers) == {"playbook:timeout", "each#1:timeout"}
    assert 40 < pair.parent_timers["each#1:timeout"] < 50


def test_the_timeout_of_a_loop_inside_does_not_count() -> None:
    pair = Pair(NESTED_LOOPS.replace("HOLD", "hold"))
    pair.ends("first", error(), iteration=1)
    assert set(pair.timers) == {"each/1/0/inner/1/1/first#1:hold"}
    pair.settle()
    pair.retry()
    pair.settle()
    assert set(pair.timers) == {"each/1/0/inner#1:timeout"}


def test_a_route_of_an_item_can_be_held() -> None:
    pair = Pair(ROUTE)
    pair.ends("each", iteration=0)
    pair.ends("first", error("no table"), iteration=0)
    pair.settle()
    assert pair.held("first[0]") == "each/1/0/first#1"


@with_and_without_restore
def test_a_retried_loop_inside_runs_the_items_that_did_not_succeed(restored: bool) -> None:
    pair = Pair(NESTED_LOOPS.replace("HOLD", "fail"))
    for index in range(3):
        pair.ends("first", error() if index == 1 else index, iteration=index)
    pair.settle()
    assert pair.held() == "each/1/0/inner#1"
    if restored:
        pair.restore()
    pair.retry("inner")
    pair.settle()
    assert [call.iteration for call in pair.calls.values()] == [1]
    pair.ends("first", 10, iteration=1)
    for index in range(3):
        pair.ends("first", index, iteration=index)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "completed"
    inner = pair.parent.state.records["each"].outcome["result"]["results"][0]["inner"]
    assert [result["first"] for result in inner["results"]] == [0, 10, 2]


@with_and_without_restore
def test_a_cancel_fails_held_steps(restored: bool) -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.settle()
    if restored:
        pair.restore()
    pair.cancel()
    pair.ends("first", error("cancelled", "cancelled"), iteration=1)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "cancelled"
    assert [event.meta["action"] for event in pair.emitted_events if event.type == "step.released"] == ["stop"]


def test_a_decision_that_comes_too_late_has_no_effect() -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.deliver_up()
    pair.retry()
    pair.feed_child(TimerFired, "each/1/0/first#1:hold")
    pair.settle()
    assert pair.parent.state.sent_answers == {}
    assert start_count(pair, "first") == 2
    assert not pair.parent.is_suspended


def test_a_decision_is_applied_once() -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.settle()
    run = pair.held()
    pair.retry()
    pair.feed(RetryRequested, pair.requests, (run,), "ann")
    with pytest.raises(RefusedError, match="no step is held"):
        pair.held()
    pair.restore()
    pair.settle()
    assert start_count(pair, "first") == 3


@with_and_without_restore
def test_a_retry_that_reaches_a_paused_chunk_begins_after_the_pause(restored: bool) -> None:
    """The decision and the pause are messages about different things, which may overtake each other."""
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.settle()
    pair.retry()
    pair.pause()
    pair.down.rotate(1)
    pair.deliver_down()
    pair.deliver_down()
    assert start_count(pair, "first") == 2
    if restored:
        pair.restore()
    pair.resume()
    pair.settle()
    assert start_count(pair, "first") == 3
    assert any(call.iteration == 0 for call in pair.calls.values())


def test_a_decision_that_arrives_together_with_the_news_of_the_hold_is_accepted() -> None:
    """As where a worker died with the news, and the next one gets both in one workflow task."""
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    [message] = pair.up
    assert isinstance(message, OpenWait)
    unapplied_facts = [WaitOpened(pair.now, message.wait)]
    assert find_held_run(pair.graph, pair.parent.state, "first", unapplied_facts).run == "each/1/0/first#1"


@pytest.mark.parametrize("restored", [False, True])
def test_all_held_items_are_retried_with_one_message_to_their_chunk(restored: bool) -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.ends("first", error(), iteration=1)
    pair.settle()
    if restored:
        pair.restore()
        pair.settle()
    pair.retry_all("first")
    assert len(pair.down) == 1
    pair.settle()
    assert sorted(call.iteration or 0 for call in pair.calls.values())[:2] == [0, 1]
    assert pair.parent.state.sent_answers == {}
    assert not [wait for wait in pair.parent.state.waits.values() if wait.kind == "held"]


def test_an_ambiguous_decision_lists_the_held_runs() -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.ends("first", error(), iteration=1)
    pair.settle()
    with pytest.raises(RefusedError, match=r"held: name one of 'first\[0\]', 'first\[1\]', or decide"):
        pair.held("first")
    with pytest.raises(RefusedError, match=r"'first\[7\]' is not held: held are 'first\[0\]', 'first\[1\]'"):
        pair.held("first[7]")
    assert pair.held("each/1/1/first#1") == "each/1/1/first#1"


ACTIONS = st.one_of(
    st.tuples(st.just("retry_one")),
    st.tuples(st.just("skip_one")),
    st.tuples(st.just("pause_or_resume")),
    st.tuples(st.just("deliver_up")),
    st.tuples(st.just("deliver_down")),
    st.tuples(st.just("restore")),
    st.tuples(st.just("end_call"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("time_out_hold"), st.integers(0, 3)),
)


class ManagedPair(Pair):
    """A run that somebody manages; requests are those that a validator lets through."""

    def retry_one(self) -> None:
        if self.parent.is_suspended and not self.parent.is_paused:
            self.retry(next(wait.run for wait in self.parent.state.waits.values()))

    def skip_one(self) -> None:
        if self.parent.state.waits:
            self.skip(next(wait.run for wait in self.parent.state.waits.values()), 1)

    def pause_or_resume(self) -> None:
        if self.finish is None:
            self.resume() if self.parent.is_paused else self.pause()

    def end_call(self, index: int, fails: bool) -> None:
        calls = list(self.calls.values())
        if calls and self.child is not None and self.child.report is None:
            call = calls[index % len(calls)]
            self.ends(call.step, error() if fails and call.step == "first" else 1, call.iteration)

    def time_out_hold(self, index: int) -> None:
        holds = [id_ for id_ in self.timers if id_.endswith(":hold")]
        if holds and self.child is not None and self.child.report is None:
            id_ = holds[index % len(holds)]
            del self.timers[id_]
            self.feed_child(TimerFired, id_)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_every_held_run_ends_once_in_any_order_of_requests(actions: list[tuple[Any, ...]]) -> None:
    pair = ManagedPair(REGION)
    for name, *args in actions:
        getattr(pair, name)(*args)
    for _ in range(60):
        if pair.finish is not None:
            break
        if pair.parent.is_paused:
            pair.resume()
        pair.settle()
        pair.skip_one()
        pair.end_call(0, False)
    pair.settle()
    assert pair.finish is not None
    assert not pair.parent.state.waits
    assert not pair.parent.state.sent_answers
    held = [event.meta["step_run_id"] for event in pair.emitted_events if event.type == "step.held"]
    let_go = [event.meta["step_run_id"] for event in pair.emitted_events if event.type == "step.released"]
    ended_ids = [
        event.meta["step_run_id"] for event in pair.emitted_events if event.type in ("step.done", "step.failed")
    ]
    assert sorted(held) == sorted(let_go)
    assert len(set(held)) == len(held)
    assert set(held) <= set(ended_ids)
    assert len(set(ended_ids)) == len(ended_ids)
    assert pair.events.count("loop.iteration.started") == 2
    ends = sum(pair.events.count(f"loop.iteration.{word}") for word in ("done", "failed", "cancelled"))
    assert ends == 2


def test_a_run_whose_chunk_is_terminated_is_no_longer_held() -> None:
    pair = Pair(REGION, TIMED)
    pair.ends("first", error(), iteration=0)
    pair.settle()
    pair.retry()
    stats = {"total": 2, "success": 0, "failed": 0, "skipped": 2}
    pair.child = None
    pair.feed(ChunkFinished, pair.chunk_id, ChunkReport("error", [None, None], stats, failure=error("lost").outcome))
    assert pair.finish is not None
    assert pair.finish.status == "failed"


def test_a_cancel_of_the_chunk_alone_fails_held_steps() -> None:
    pair = Pair(REGION)
    pair.ends("first", error(), iteration=0)
    pair.ends("first", 1, iteration=1)
    pair.feed_child(CancelRequested)
    pair.ends("second", error("cancelled", "cancelled"), iteration=1)
    pair.settle()
    assert pair.finish is not None
    assert pair.finish.status == "failed"
    assert not pair.parent.state.waits
