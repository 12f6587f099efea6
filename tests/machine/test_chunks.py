"""Large loops: cut into chunks that share max_in_flight, and joined again (semantics.md 22c)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.commands import Cancel, Command, Emit, Finish, RunChunk
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    ChunkReport,
    Continued,
    IdleRequested,
    Started,
    TimerFired,
)
from noetl_temporal.machine.failure_log import Failure, FailureLog
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.loops.chunks import item_ranges
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.steps.loops import moved_slot

from .driver import Run, error, run_text
from .playbooks import playbook, step


@pytest.fixture(autouse=True)
def few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 4)


def loop_of(items: int, spec: str, following_steps: str = "", tool: str = 'message: "{{ iter.item }}"') -> str:
    spec = f"{{{spec}}}" if spec else "{mode: sequential}"
    return playbook(
        f"""
  - step: start
    spec: {{timeout: 1h}}
    loop: {{in: "{{{{ range({items}) | list }}}}", iterator: item, spec: {spec}}}
    tool: {{kind: noop, {tool}}}
"""
        + following_steps
    )


@given(st.integers(1, 1023), st.integers(0, 2**64))
def test_chunks_after_a_reset_have_other_slots_than_those_before(first: int, seed: int) -> None:
    before = {(first - 1 + place) % 1023 + 1 for place in range(64)}
    next_slot = moved_slot(first, seed)
    after = {(next_slot - 1 + place) % 1023 + 1 for place in range(64)}
    assert not before & after
    assert before | after <= set(range(1, 1024))


class WatchedRun:
    """The playbook's machine, whose chunks report what the test says."""

    def __init__(self, items: int, spec: str, seed: int | None = None) -> None:
        """``seed`` is that of a run that was reset to its first workflow task."""
        text = loop_of(items, spec, "    next: {arcs: [{step: after}]}\n" + step("after"))
        self.machine = PlaybookMachine(compile_or_raise(text), execution_id=1)
        if seed is not None:
            self.machine.move_slots(seed)
        self.now = EPOCH_MS
        self.commands: list[Command] = []
        self.feed(Started, {})

    def feed(self, fact: Any, *args: Any) -> list[Command]:
        self.now += 10
        self.machine = PlaybookMachine(self.machine.graph, execution_id=1, state=self.machine.snapshot())
        commands = self.machine.feed(fact(self.now, *args))
        self.commands += commands
        return commands

    def chunks(self) -> list[tuple[str, int, int, int]]:
        """(id, first, size, share) of those begun, in order."""
        chunks_started = [
            (command.chunk_id, command.input) for command in self.commands if isinstance(command, RunChunk)
        ]
        return [
            (id_, chunk_input.first, len(chunk_input.items), chunk_input.max_in_flight)
            for id_, chunk_input in chunks_started
        ]

    def done(self, id_: str, size: int, **fields: Any) -> list[Command]:
        """A chunk's report; every item's result is the chunk's id."""
        stats = {"total": size, "success": size, "failed": 0, "skipped": 0}
        report: dict[str, Any] = {
            "status": "ok",
            "results": [id_] * size,
            "stats": stats,
            "last_event_ms": self.now - EPOCH_MS,
            **fields,
        }
        return self.feed(ChunkFinished, id_, ChunkReport(**report))

    def finish(self) -> Finish:
        last = self.commands[-1]
        assert isinstance(last, Finish)
        return last


@pytest.mark.parametrize(
    ("items", "max_in_flight", "ranges"),
    [
        (1, 9, [(0, 1)]),
        (4, 9, [(0, 4)]),
        (5, 9, [(0, 3), (3, 2)]),
        (9, 1, [(0, 3), (3, 3), (6, 3)]),
        (9, 9, [(0, 3), (3, 2), (5, 2), (7, 2)]),
    ],
)
def test_ranges_are_even_and_as_many_as_keep_two_chunks_busy(
    items: int, max_in_flight: int, ranges: list[tuple[int, int]]
) -> None:
    assert item_ranges(list(range(items)), max_in_flight, 10**6) == ranges


def test_items_that_are_large_make_short_chunks() -> None:
    items = ["x" * size for size in (10, 10, 90, 10, 200, 10, 10)]
    chunks = item_ranges(items, 1, 100)
    assert [item for first, size in chunks for item in items[first : first + size]] == items
    assert all(sum(map(len, items[first : first + size])) <= 100 or size == 1 for first, size in chunks)


def test_no_loop_has_more_chunks_than_its_history_holds() -> None:
    assert len(item_ranges([0] * 1_000_000, 100, 10**9)) == chunks.MAX_CHUNKS


def test_a_loop_that_may_wait_is_one_chunk_while_a_run_can_take_its_requests() -> None:
    max_items = chunks.WHOLE_ITEMS
    assert item_ranges([0] * max_items, 5, 10**6, is_whole=True) == [(0, max_items)]
    assert max(size for _, size in item_ranges([0] * (max_items + 1), 5, 10**6, is_whole=True)) <= chunks.CHUNK_ITEMS


def test_two_chunks_share_what_may_be_in_flight() -> None:
    run = WatchedRun(16, "mode: parallel, max_in_flight: 5")
    assert run.chunks() == [("start/1", 0, 4, 3), ("start/1/4", 4, 4, 2)]
    run.done("start/1", 4)
    assert run.chunks()[2:] == [("start/1/8", 8, 4, 3)]
    run.done("start/1/8", 4)
    run.done("start/1/4", 4)
    assert run.chunks()[3:] == [("start/1/12", 12, 4, 3)]
    run.done("start/1/12", 4)
    [done] = [
        command.event for command in run.commands if isinstance(command, Emit) and command.event.type == "loop.done"
    ]
    assert done.meta["stats"] == {"total": 16, "success": 16, "failed": 0, "skipped": 0}


def test_items_that_a_chunk_returns_are_the_next_chunk() -> None:
    run = WatchedRun(12, "mode: parallel, max_in_flight: 4")
    stats = {"total": 1, "success": 1, "failed": 0, "skipped": 0}
    run.done("start/1", 1, unstarted=2, stats=stats)
    assert run.chunks()[2:] == [("start/1/1", 1, 2, 2)]


def test_a_sequential_loop_runs_one_chunk_at_a_time_and_hands_ctx_on() -> None:
    run = WatchedRun(9, "mode: sequential")
    assert [size for _, _, size, _ in run.chunks()] == [3]
    run.done("start/1", 3, ctx={"sum": 3})
    last = run.commands[-1]
    assert isinstance(last, RunChunk)
    assert (last.input.ctx, last.input.is_sequential, last.input.first) == ({"sum": 3}, True, 3)


@pytest.mark.parametrize("spec", ["mode: sequential", "mode: parallel, max_in_flight: 3"])
@pytest.mark.parametrize("items", [0, 1, 4, 5, 23])
def test_a_loop_in_chunks_is_the_loop(items: int, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, counts, what is set and what each item sees are the same as without chunks."""
    tool = 'message: "{{ [iter.item, iter.index, iter.count, iter.first, iter.last, ctx.sum | default(0)] }}", '
    tool += 'set: {ctx.sum: "{{ (ctx.sum | default(0)) + iter.item }}"}'
    following_steps = """\
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, message: "{{ start.results }} {{ ctx.sum | default(0) }}"}
"""
    text = loop_of(items, spec, following_steps, tool)

    def run() -> Run:
        return run_text(text, lambda call: call.config["message"])

    chunked_run = run()
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 1000)
    whole = run()
    assert (chunked_run.finish.result, chunked_run.finish.status) == (whole.finish.result, "completed")
    assert sorted(str(call.config) for call in chunked_run.calls) == sorted(str(call.config) for call in whole.calls)


def test_a_failure_under_fail_fast_ends_the_other_chunks() -> None:
    run = WatchedRun(16, "mode: parallel, max_in_flight: 4, on_error: fail_fast")
    failure = Failure("start", "boom", iteration=1, run="start#1", kind="tool")
    stats = {"total": 4, "success": 1, "failed": 1, "skipped": 2}
    run.done("start/1", 4, status="error", failures=FailureLog().with_item_failure(failure), stats=stats)
    assert run.commands[-1] == Cancel("start/1/4")
    cut_off = {"total": 4, "success": 0, "failed": 0, "skipped": 4}
    run.done("start/1/4", 4, status="cancelled", results=[None] * 4, stats=cut_off)
    assert len(run.chunks()) == 2
    assert (run.finish().status, [failure.message for failure in run.finish().failures.detailed]) == (
        "failed",
        ["boom"],
    )


@pytest.mark.parametrize("stop", ["cancel", "timeout"])
def test_a_stop_begins_no_further_chunk(stop: str) -> None:
    run = WatchedRun(16, "mode: parallel, max_in_flight: 4")
    commands = run.feed(CancelRequested, "enough") if stop == "cancel" else run.feed(TimerFired, "start#1:timeout")
    assert [command.id for command in commands if isinstance(command, Cancel)][:2] == ["start/1", "start/1/4"]
    for id_ in ("start/1", "start/1/4"):
        run.done(id_, 4)
    assert len(run.chunks()) == 2
    assert run.finish().status == ("cancelled" if stop == "cancel" else "failed")


def test_a_chunk_that_is_cancelled_from_outside_fails_the_loop_and_ends_the_others() -> None:
    run = WatchedRun(16, "mode: parallel, max_in_flight: 4")
    stats = {"total": 4, "success": 1, "failed": 0, "skipped": 3}
    run.done("start/1", 4, status="cancelled", stats=stats)
    assert run.commands[-1] == Cancel("start/1/4")
    run.done("start/1/4", 4)
    assert run.finish().status == "failed"
    assert [(failure.step, failure.kind) for failure in run.finish().failures.detailed] == [("start", "cancelled")]


def test_a_chunk_that_waits_for_a_hold_to_end_is_dropped_with_its_loop() -> None:
    run = WatchedRun(16, "mode: parallel, max_in_flight: 4")
    run.feed(IdleRequested)
    run.done("start/1", 4)
    assert len(run.chunks()) == 2
    stats = {"total": 4, "success": 1, "failed": 0, "skipped": 3}
    run.done("start/1/4", 4, status="cancelled", stats=stats)
    run.feed(Continued)
    assert len(run.chunks()) == 2
    assert run.finish().status == "failed"


def test_failures_of_items_are_reported_for_every_chunk() -> None:
    text = loop_of(10, "mode: parallel, max_in_flight: 3")
    run = run_text(text, lambda call: error("odd") if call.config["message"] % 3 == 0 else 1)
    assert [failure.iteration for failure in run.finish.failures.detailed] == [0, 3, 6, 9]
    [failed] = run.of("loop.failed")
    assert failed.meta["stats"] == {"total": 10, "success": 6, "failed": 4, "skipped": 0}


def test_a_run_that_was_reset_begins_its_chunks_in_other_slots() -> None:
    """The run before may have begun chunks that this one does not know, and that go on for a while."""
    before = WatchedRun(16, "mode: parallel, max_in_flight: 4")
    reset = WatchedRun(16, "mode: parallel, max_in_flight: 4", seed=7)
    slots = [
        [command.input.slot for command in run.commands if isinstance(command, RunChunk)] for run in (before, reset)
    ]
    assert slots[0] == [1, 2]
    assert slots[1] == [moved_slot(1, 7), moved_slot(1, 7) + 1]
    reset.done(next(command.chunk_id for command in reset.commands if isinstance(command, RunChunk)), 4)
    [*_, third] = (command.input.slot for command in reset.commands if isinstance(command, RunChunk))
    assert third == slots[1][0], "a slot is given again, and a continued run goes on with the same"
