"""What failed, counted whole and kept in part: in a log, in the chunks of a loop, in the state of a large run."""

from __future__ import annotations

import random
from collections import Counter
from functools import reduce
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.commands import CallTool, ChunkInput, Command, Finish, RunChunk
from noetl_temporal.machine.facts import ChunkFinished, ChunkReport, Continued, Started, ToolFinished
from noetl_temporal.machine.failure_log import (
    MAX_DETAILED,
    MAX_KINDS,
    OTHER,
    Failure,
    FailureCount,
    FailureLog,
    format_counts,
)
from noetl_temporal.machine.failures import MESSAGE_LENGTH
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import error, ok, run_text
from .playbooks import playbook, step


def item(index: int, kind: str = "http", **fields: Any) -> Failure:
    return Failure("load", f"item {index}", kind=kind, iteration=index, **fields)


def log_of(failures: list[Failure]) -> FailureLog:
    return reduce(FailureLog.with_failure, failures, FailureLog())


def messages(log: FailureLog) -> list[str]:
    return [failure.message for failure in log.detailed]


# ---- the log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, MAX_DETAILED, MAX_DETAILED + 1, 2 * MAX_DETAILED, 2 * MAX_DETAILED + 1, 1000])
def test_the_first_and_the_last_are_kept_and_all_are_counted(count: int) -> None:
    every = [item(index) for index in range(count)]
    log = log_of(every)
    assert (log.total, log.unhandled) == (count, count)
    assert list(log.first) == every[:MAX_DETAILED]
    assert list(log.last) == every[MAX_DETAILED:][-MAX_DETAILED:]
    assert log.cause == (every[0] if every else None)


def test_counts_report_steps_kinds_and_what_was_handled() -> None:
    failures = [
        Failure("b", "1", kind="http"),
        Failure("a", "2", kind="http", handled=True),
        Failure("b", "3", kind="http", handled=True),
        Failure("b", "4", kind="sql"),
    ]
    log = log_of(failures)
    assert log.counts == (FailureCount("a", "http", 1, 1), FailureCount("b", "http", 2, 1), FailureCount("b", "sql", 1))
    assert (log.total, log.unhandled, log.cause) == (4, 2, failures[0])
    assert log.as_handled().counts == tuple(
        FailureCount(count.step, count.kind, count.count, count.count) for count in log.counts
    )
    assert log.as_handled().cause is None
    assert all(failure.handled for failure in log.as_handled().detailed)


def test_the_first_unhandled_failure_is_kept_whole_among_many_handled_ones() -> None:
    around = [item(index, handled=True) for index in range(1000)]
    cause = Failure("after", "boom", kind="tool")
    log = log_of([*around, cause, *around])
    assert cause not in log.detailed
    assert (log.cause, log.unhandled, log.total) == (cause, 1, 2001)


def test_kinds_beyond_the_limit_are_counted_together_for_each_step() -> None:
    kinds = [f"kind {number:03}" for number in range(MAX_KINDS + 5)]
    log = log_of([item(index, kind) for index, kind in enumerate(reversed(kinds))]).with_failure(
        Failure("after", "x", kind="z")
    )
    assert [count.kind for count in log.counts if count.step == "load"] == [*kinds[:MAX_KINDS], OTHER]
    assert {count.kind: count.count for count in log.counts}[OTHER] == 5
    assert FailureCount("after", "z", 1) in log.counts
    assert log.total == MAX_KINDS + 6


def test_counts_in_words() -> None:
    counts = [FailureCount("load", "timeout", 2), FailureCount("load", "http", 999_998), FailureCount("load", "", 2)]
    assert format_counts(counts) == "999,998 http, 2 of no kind, 2 timeout"


KINDS = st.sampled_from([f"k{number}" for number in range(MAX_KINDS + 4)] + ["", OTHER])


@given(
    st.dictionaries(st.integers(0, 5000), KINDS, max_size=400),
    st.lists(st.integers(0, 5000), max_size=8),
    st.randoms(use_true_random=False),
)
def test_logs_of_chunks_give_in_any_order_what_one_log_gives(
    kinds: dict[int, str], cuts: list[int], chance: Any
) -> None:
    whole = log_of([item(index, kinds[index]) for index in sorted(kinds)])
    edges = [0, *sorted(cuts), 5001]
    chunks: list[FailureLog] = []
    for first, after in pairwise(edges):
        own_failures = [item(index, kind) for index, kind in kinds.items() if first <= index < after]
        chance.shuffle(own_failures)
        chunks.append(reduce(FailureLog.with_item_failure, own_failures, FailureLog()))
    chance.shuffle(chunks)
    while len(chunks) > 1:
        chunks.append(
            chunks.pop(chance.randrange(len(chunks))).merged_by_index(chunks.pop(chance.randrange(len(chunks))))
        )
    assert chunks[0] == whole
    assert whole.total == len(kinds) == sum(count.count for count in whole.counts)
    indices = sorted(kinds)
    assert [failure.iteration for failure in whole.detailed] == [
        *indices[:MAX_DETAILED],
        *indices[MAX_DETAILED:][-MAX_DETAILED:],
    ]
    counter = Counter({count.kind: count.count for count in whole.counts})
    told_apart = {kind for kind in counter if kind != OTHER}
    assert {kind: counter[kind] for kind in told_apart} == {
        kind: list(kinds.values()).count(kind) for kind in told_apart
    }


@given(st.lists(st.tuples(st.booleans(), KINDS), max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_a_log_in_parts_gives_the_same_result(story: list[tuple[bool, str]], cuts: list[int]) -> None:
    failures = [Failure("a", str(at), kind=kind, handled=handled) for at, (handled, kind) in enumerate(story)]
    edges = [0, *sorted(cuts), len(failures)]
    parts = [log_of(failures[first:after]) for first, after in pairwise(edges)]
    assert reduce(FailureLog.followed_by, parts) == log_of(failures)
    assert log_of(failures).unhandled == sum(not handled for handled, _ in story)


# ---- loops ----------------------------------------------------------------------------------------------------------

LOOP = """\
  - step: load
    loop: {{in: "{{{{ range({items}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 50{more}}}}}
    tool: {{kind: http, url: "http://x/{{{{ iter.n }}}}"}}
"""
BEST_EFFORT = ", policy: {failure: {mode: best_effort}}"


def loop_of(items: int, more: str = "", following_steps: str = "") -> str:
    return playbook(LOOP.format(items=items, more=more) + following_steps)


def number_of(call: Any) -> int:
    return int(call.config["url"].rsplit("/", 1)[1])


def test_failures_of_items_are_in_the_order_of_the_items() -> None:
    def answer(call: Any) -> ToolReport:
        return error(f"no {number_of(call)}", "http" if number_of(call) % 3 else "timeout")

    for seed in range(3):
        finish = run_text(loop_of(900), answer, pick=random.Random(seed).randrange).finish
        assert [failure.iteration for failure in finish.failures.detailed] == [
            *range(MAX_DETAILED),
            *range(900 - MAX_DETAILED, 900),
        ]
        assert finish.failures.counts == (FailureCount("load", "http", 600), FailureCount("load", "timeout", 300))
        assert finish.failures.cause == finish.failures.first[0]


@pytest.mark.parametrize(
    ("more", "following_steps", "handled"),
    [
        ("", "", False),
        (BEST_EFFORT, "", True),
        ("", '    next: {arcs: [{when: "{{ error }}", step: after}]}\n' + step("after"), True),
    ],
)
def test_the_failures_of_a_loop_are_handled_all_or_none(more: str, following_steps: str, handled: bool) -> None:
    finished_run = run_text(
        loop_of(300, more, following_steps), lambda call: error("no") if call.kind == "http" else ok()
    )
    log = finished_run.finish.failures
    assert finished_run.finish.status == ("completed" if handled else "failed")
    assert (log.total, log.unhandled) == (300, 0 if handled else 300)
    assert {failure.handled for failure in log.detailed} == {handled}


def test_an_unhandled_failure_between_large_loops_is_the_error_of_the_run() -> None:
    first = LOOP.format(items=200, more=BEST_EFFORT) + "    next: {arcs: [{step: middle}]}\n"
    middle = step("middle", tool="python").replace("python}", "python, code: x}") + "    next: {arcs: []}\n"
    finished_run = run_text(playbook(first + middle), lambda call: error(f"no {call.step}", call.kind))
    assert (finished_run.finish.status, finished_run.finish.failures.total) == ("failed", 201)
    [failure_event] = finished_run.of("playbook.failed")
    assert failure_event.error == "no middle"
    assert failure_event.meta["failed_steps"] == ["middle"]
    assert failure_event.meta["failures"] == [
        {"step": "load", "kind": "http", "count": 200, "handled": 200},
        {"step": "middle", "kind": "python", "count": 1},
    ]


def test_messages_of_failures_are_truncated() -> None:
    finished_run = run_text(loop_of(300), lambda _: error("long " * 10_000, "k" * 10_000))
    assert {len(failure.message) for failure in finished_run.finish.failures.detailed} == {MESSAGE_LENGTH}
    assert len(msgspec.json.encode(finished_run.finish.failures)) < 2 * MAX_DETAILED * (MESSAGE_LENGTH + 300)


# ---- large runs -----------------------------------------------------------------------------------------------------


def report_chunk(chunk_input: ChunkInput, report: ToolReport) -> tuple[ChunkReport, int]:
    """What a chunk comes to whose calls all end with the report, and the bytes of its state at its largest."""
    machine, now, largest = LoopMachine(chunk_input), EPOCH_MS, 0
    commands: list[Command] = machine.feed(Started(now))
    while machine.report is None:
        now += 1
        calls = [command.call.id for command in commands if isinstance(command, CallTool)]
        commands = [command for id_ in calls for command in machine.feed(ToolFinished(now, id_, report))]
        if machine.has_work:
            commands += machine.feed(Continued(now))
        largest = max(largest, len(msgspec.json.encode(machine.snapshot())))
    return machine.report, largest


def report_of_chunk(report: ChunkReport, chunk_input: ChunkInput) -> ChunkReport:
    """The same for another chunk, so that not every item of a large loop must be run."""
    size = len(chunk_input.items)
    failed = range(chunk_input.first, chunk_input.first + size) if report.stats["failed"] else ()
    like = report.failures.first[:1]
    log = reduce(
        FailureLog.with_item_failure, (msgspec.structs.replace(like[0], iteration=at) for at in failed), FailureLog()
    )
    stats = {"total": size, "success": size - log.total, "failed": log.total, "skipped": 0}
    return msgspec.structs.replace(report, results=[None] * size, stats=stats, failures=log)


def largest_state(items: int, report: ToolReport) -> tuple[int, Finish]:
    """The bytes of the playbook's state at its largest, and its end."""
    machine, now = PlaybookMachine(compile_or_raise(loop_of(items, BEST_EFFORT)), execution_id=1), EPOCH_MS
    waiting: list[RunChunk] = []
    largest, ended_count, like = 0, 0, None
    commands = machine.feed(Started(now))
    while not (commands and isinstance(commands[-1], Finish)):
        waiting += [command for command in commands if isinstance(command, RunChunk)]
        now += 100_000
        if machine.has_work:
            commands = machine.feed(Continued(now))
            continue
        chunk = waiting.pop()
        like = like or report_chunk(chunk.input, report)[0]
        commands = machine.feed(ChunkFinished(now, chunk.chunk_id, report_of_chunk(like, chunk.input)))
        ended_count += 1
        if ended_count % 50 == 0:
            largest = max(largest, len(msgspec.json.encode(machine.snapshot())))
    return largest, commands[-1]


def test_a_loop_with_100_000_failed_items_has_a_state_as_small_as_one_that_succeeds() -> None:
    items = 100_000
    failed, end = largest_state(items, error("no such host", "http"))
    assert (end.status, end.failures.total, end.failures.unhandled) == ("completed", items, 0)
    assert [failure.iteration for failure in end.failures.detailed] == [
        *range(MAX_DETAILED),
        *range(items - MAX_DETAILED, items),
    ]
    well, _ = largest_state(items, ok())
    assert failed - well < 60_000


def test_a_chunk_of_failing_items_stays_small() -> None:
    graph = compile_or_raise(loop_of(400, BEST_EFFORT))
    [chunk] = [
        command
        for command in PlaybookMachine(graph, execution_id=1).feed(Started(EPOCH_MS))
        if isinstance(command, RunChunk)
    ]
    chunk_input = msgspec.structs.replace(chunk.input, items=[*range(3000)], total=3000)
    failed, state = report_chunk(chunk_input, error("no such host", "http"))
    assert failed.failures.total == 3000
    assert len(msgspec.json.encode(failed.failures)) < 60_000
    assert state < 120_000
