"""What a framed loop sends, and a loop's machine that begins no further item."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph
from noetl_temporal.limits import STORED_BYTES
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.commands import (
    CallTool,
    ChunkInput,
    Command,
    Emit,
    Finish,
    FrameLimits,
    RunChunk,
    StoreValues,
)
from noetl_temporal.machine.facts import (
    CancelRequested,
    PayloadRef,
    ReturnRequested,
    Started,
    ToolFinished,
    ValuesStored,
)
from noetl_temporal.machine.loops.frames import MAX_ROWS
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

from .playbooks import playbook

NOW = 1_800_000_000_000


def graph_of(frame: str, spec: str = "mode: parallel, max_in_flight: 32") -> Graph:
    step = (
        f'  - step: start\n    loop: {{in: "{{{{ range(5) | list }}}}", iterator: item, spec: {{{spec}, {frame}}}}}\n'
        "    tool: {kind: noop}\n"
    )
    return compile_or_raise(playbook(step, "workload: {rows: 7, word: many}\n"), "p.yaml")


def chunk_input_of(frame: str, spec: str = "mode: parallel, max_in_flight: 32") -> ChunkInput:
    return started_chunks(PlaybookMachine(graph_of(frame, spec), execution_id=1, limit=STORED_BYTES))[0]


def started_chunks(machine: PlaybookMachine) -> list[ChunkInput]:
    """The first chunks of a run, whose items are stored where they are several."""
    commands = machine.feed(Started(NOW))
    for keep in [command for command in commands if isinstance(command, StoreValues)]:
        refs = tuple(PayloadRef(f"key {n}", 10) for n, _ in enumerate(keep.values))
        commands += machine.feed(ValuesStored(NOW, keep.id, refs))
    return [command.input for command in commands if isinstance(command, RunChunk)]


@pytest.mark.parametrize(
    ("frame", "limits"),
    [
        ("frame: {}", FrameLimits(1000, 60.0, 16_000_000, 16)),
        ('frame: {max_rows: "{{ workload.rows }}", max_seconds: 1m}', FrameLimits(7, 60.0, 16_000_000, 16)),
        ("frame: {row_concurrency: 64, max_bytes: 5}", FrameLimits(1000, 60.0, 5, 32)),
        ('frame: {max_rows: "{{ none }}"}', FrameLimits(1000, 60.0, 16_000_000, 16)),
        ("frame: {max_rows: 1000000}", FrameLimits(MAX_ROWS, 60.0, 16_000_000, 16)),
    ],
)
def test_the_limits_of_a_frame_are_rendered(frame: str, limits: FrameLimits) -> None:
    sent_fields = chunk_input_of(frame)
    assert sent_fields.frame == limits
    assert sent_fields.max_in_flight == limits.row_concurrency


@pytest.mark.parametrize(
    ("frame", "ranges"),
    [
        ("frame: {max_rows: 2, row_concurrency: 16}", [(0, 2), (2, 2), (4, 1)]),
        ("frame: {}", [(0, 3), (3, 2)]),
        ("frame: {row_concurrency: 32}", [(0, 5)]),
    ],
)
def test_a_loop_is_split_into_frames(frame: str, ranges: list[tuple[int, int]]) -> None:
    """As many run at once as ``max_in_flight`` has places for their items."""
    machine = PlaybookMachine(graph_of(frame), execution_id=1, limit=STORED_BYTES)
    chunks = started_chunks(machine)
    [run] = machine.state.runs.values()
    assert run.loop is not None
    cuts = [(chunk.first, chunk.size) for chunk in chunks]
    assert cuts == ranges[: 32 // chunks[0].max_in_flight]
    assert [*cuts, *run.loop.ranges] == ranges


def test_a_loop_has_no_frames_where_there_is_no_store() -> None:
    machine = PlaybookMachine(graph_of("frame: {max_rows: 2}"), execution_id=1)
    commands = machine.feed(Started(NOW))
    [chunk] = [command.input for command in commands if isinstance(command, RunChunk)]
    assert (chunk.frame, chunk.items, chunk.max_in_flight) == (None, [0, 1, 2, 3, 4], 32)
    [warning] = [command.event for command in commands if isinstance(command, Emit) and command.event.type == "warning"]
    assert "submitted without NOETL_POSTGRES" in str(warning.error)
    assert warning.meta["source"]["line"] == 7


def test_a_sequential_loop_has_one_item_at_a_time_in_its_frame() -> None:
    assert chunk_input_of("frame: {}", "mode: sequential").max_in_flight == 1


def test_a_loop_without_a_frame_has_no_limits() -> None:
    assert chunk_input_of("limit: 3").frame is None


@pytest.mark.parametrize("frame", ['frame: {max_rows: "{{ workload.word }}"}', 'frame: {max_rows: "{{ 0 }}"}'])
def test_limits_that_are_not_numbers_fail_the_step(frame: str) -> None:
    commands = PlaybookMachine(graph_of(frame), execution_id=1).feed(Started(NOW))
    [finish] = [command for command in commands if isinstance(command, Finish)]
    assert finish.status == "failed"
    assert "max_rows" in finish.failures.detailed[0].message


class _Loop:
    """A loop of five items, two at once, whose calls a test answers."""

    def __init__(self) -> None:
        self.machine = LoopMachine(chunk_input_of("frame: {}", "mode: parallel, max_in_flight: 2"))
        self.calls: list[str] = []
        self.finish: Finish | None = None
        self._take(self.machine.feed(Started(NOW)))

    def feed(self, event: Any) -> None:
        self._take(self.machine.feed(event))

    def answer(self) -> None:
        report = ToolReport({"status": "ok", "result": len(self.calls)})
        self.feed(ToolFinished(NOW, self.calls.pop(0), report))

    def _take(self, commands: list[Command]) -> None:
        self.calls += [command.call.id for command in commands if isinstance(command, CallTool)]
        self.finish = next((command for command in commands if isinstance(command, Finish)), self.finish)


def test_items_that_have_begun_end_and_the_others_are_returned() -> None:
    loop = _Loop()
    loop.answer()
    loop.feed(ReturnRequested(NOW))
    assert len(loop.calls) == 2
    loop.answer()
    loop.answer()
    assert loop.calls == []
    assert loop.machine.report is not None
    assert (loop.machine.report.status, loop.machine.report.unstarted, len(loop.machine.report.results)) == ("ok", 2, 3)
    assert loop.machine.report.stats == {"total": 3, "success": 3, "failed": 0, "skipped": 0}


def test_after_a_stop_no_items_are_returned() -> None:
    loop = _Loop()
    loop.feed(ReturnRequested(NOW))
    loop.feed(CancelRequested(NOW))
    while loop.calls:
        report = ToolReport({"status": "error", "error": {"kind": "cancelled", "message": "cancelled"}})
        loop.feed(ToolFinished(NOW, loop.calls.pop(0), report, cancelled=True))
    assert loop.machine.report is not None
    assert (loop.machine.report.unstarted, loop.machine.report.stats["skipped"]) == (0, 5)
