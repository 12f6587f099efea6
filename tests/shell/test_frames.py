"""A frame on a real payload store: its report, what is repeated after a loss or a stop, and a store that is away."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from temporalio.exceptions import ApplicationError

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.calls.run_tool import MAX_LOST
from noetl_temporal.frames import segment_writer
from noetl_temporal.frames.segments import read_progress
from noetl_temporal.machine.call import Part
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.messages.frame import FrameDetails
from noetl_temporal.stack.addresses import Addresses
from tests.shell.framed import Frame, chunk_of, input_of
from tests.shell.servers import proxy_to

BUSY = Outcome("error", error=ErrorInfo("http", "busy", retryable=True))


def number(request: Request, _context: ToolContext) -> Any:
    return {"n": request.input["n"]}


def call(rules: str) -> str:
    """A task with a policy."""
    return f"{{kind: noop, input: {{n: '{{{{ item }}}}'}}, spec: {{policy: {{rules: [{rules}]}}}}}}"


class Gate:
    """A tool that answers at once, but for some numbers only when it is let go."""

    def __init__(self, *held: int) -> None:
        self._held = set(held)
        self.waiting, self.let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Request, _context: ToolContext) -> Any:
        if request.input["n"] in self._held:
            self.waiting.set()
            await self.let_go.wait()
        return {"n": request.input["n"]}


async def until_stored(frame: Frame, end_count: int) -> None:
    """Wait until a heartbeat names a segment with so many items."""
    while frame.details.ended < end_count:
        await asyncio.sleep(0.02)


async def test_the_report_is_that_of_the_loop(servers: Addresses) -> None:
    frame = Frame(input_of(chunk_of(50)), servers.postgres, number)
    end = await frame.start()
    assert end.report.status == "ok"
    assert end.report.results == [{"n": n} for n in range(50)]
    assert end.report.stats == {"total": 50, "success": 50, "failed": 0, "skipped": 0}
    assert (end.report.attempts, end.report.unstarted) == (50, 0)
    entries = await frame.entries(end)
    types = Counter(entry["event"]["type"] for entry in entries if "event" in entry)
    assert types["loop.iteration.started"] == types["loop.iteration.done"] == types["task.started"] == 50
    assert sum("call" in entry for entry in entries) == 50


async def test_row_concurrency_items_run_at_once(servers: Addresses) -> None:
    running, max_running = 0, 0

    async def answer(_request: Request, _context: ToolContext) -> Any:
        nonlocal running, max_running
        running += 1
        max_running = max(max_running, running)
        await asyncio.sleep(0.01)
        running -= 1

    await Frame(input_of(chunk_of(30, at_once=4)), servers.postgres, answer).start()
    assert max_running == 4


async def test_retries_wait_inside_the_frame(servers: Addresses) -> None:
    call_counts: Counter[int] = Counter()

    def answer(request: Request, _context: ToolContext) -> Any:
        call_counts[request.input["n"]] += 1
        return BUSY if request.input["n"] == 3 and call_counts[3] < 3 else 1

    rule = "{when: '{{ output.status == \"error\" }}', then: {do: retry, attempts: 5, delay: 0.01}}"
    tool = (
        "{kind: noop, input: {n: '{{ item }}'}, spec: {policy: {rules: ["
        + rule
        + ", {else: {then: {do: continue}}}]}}}"
    )
    frame = Frame(input_of(chunk_of(6, tool)), servers.postgres, answer)
    end = await frame.start()
    assert end.report.status == "ok"
    assert call_counts == {0: 1, 1: 1, 2: 1, 3: 3, 4: 1, 5: 1}
    [call] = [entry for entry in await frame.entries(end) if "call" in entry and entry["call"]["input"]["n"] == 3]
    assert [attempt.get("status", "ok") for attempt in call["report"]["attempts"]] == ["error", "error", "ok"]


async def test_a_lost_frame_repeats_no_item_that_a_heartbeat_named(servers: Addresses) -> None:
    gate = Gate(40)
    frame = Frame(input_of(chunk_of(60, at_once=1)), servers.postgres, gate)
    running = frame.start()
    await gate.waiting.wait()
    await until_stored(frame, 40)
    await frame.lose(running)
    gate.let_go.set()
    end = await frame.start()
    assert end.report.results == [{"n": n} for n in range(60)]
    assert Counter(frame.called_items) == {**dict.fromkeys(range(60), 1), 40: 2}
    [call] = [
        frame_entry
        for frame_entry in await frame.entries(end)
        if "call" in frame_entry and frame_entry["call"]["input"]["n"] == 40
    ]
    assert [attempt.get("status", "ok") for attempt in call["report"]["attempts"]] == ["lost", "ok"]
    ids = [entry["event"]["id"] for entry in await frame.entries(end) if "event" in entry]
    assert ids == sorted(set(ids))


async def test_a_lost_frame_without_a_heartbeat_begins_again(servers: Addresses) -> None:
    gate = Gate(0)
    frame = Frame(input_of(chunk_of(3)), servers.postgres, gate)
    running = frame.start()
    await gate.waiting.wait()
    await frame.lose(running)
    gate.let_go.set()
    assert (await frame.start()).report.stats["success"] == 3


async def test_a_call_that_kills_its_workers_fails_and_the_others_continue(servers: Addresses) -> None:
    gate = Gate(2)
    tolerant = ", policy: {failure: {mode: best_effort}}"
    frame = Frame(input_of(chunk_of(4, spec=tolerant, at_once=1)), servers.postgres, gate)
    for _ in range(MAX_LOST + 1):
        gate.waiting.clear()
        running, head = frame.start(), frame.details.head
        await gate.waiting.wait()
        while frame.details.head == head:  # until the segment with the lost call is stored
            await asyncio.sleep(0.02)
        await frame.lose(running)
    end = await asyncio.wait_for(frame.start(), 60)
    assert end.report.stats == {"total": 4, "success": 3, "failed": 1, "skipped": 0}
    assert [failure.kind for failure in end.report.failures.detailed] == ["worker_lost"]
    assert frame.called_items.count(2) == MAX_LOST + 1


async def test_a_frame_without_progress_makes_no_more_calls(servers: Addresses) -> None:
    gate = Gate(0)
    frame = Frame(input_of(chunk_of(4)), servers.postgres, gate)
    for _ in range(MAX_LOST + 1):
        gate.waiting.clear()
        running = frame.start()
        await gate.waiting.wait()
        await frame.lose(running)
    call_count = len(frame.called_items)
    end = await asyncio.wait_for(frame.start(), 60)
    assert end.report.stats["failed"] == 4
    assert len(frame.called_items) == call_count


async def test_a_cancelled_frame_reports_what_it_did(servers: Addresses) -> None:
    gate = Gate(5)
    frame = Frame(input_of(chunk_of(20, at_once=1)), servers.postgres, gate)
    running = frame.start()
    await gate.waiting.wait()
    frame.interrupt("cancel_requested")
    end = await running
    assert end.report.status == "cancelled"
    assert end.report.stats == {"total": 20, "success": 5, "failed": 0, "skipped": 15}
    [call] = [entry for entry in await frame.entries(end) if "call" in entry and entry["call"]["input"]["n"] == 5]
    assert [attempt.get("status", "ok") for attempt in call["report"]["attempts"]] == ["cancelled"]


async def test_a_cancelled_frame_ends_with_its_process(servers: Addresses) -> None:
    """A process that ends cancels all of its tasks, also those of a frame that was cancelled and has not ended yet."""
    gate = Gate(0)

    async def answer(request: Request, context: ToolContext) -> Any:
        try:
            return await gate(request, context)
        except asyncio.CancelledError:
            await gate.let_go.wait()
            raise

    frame = Frame(input_of(chunk_of(3, at_once=1)), servers.postgres, answer)
    before = asyncio.all_tasks()
    running = frame.start()
    await gate.waiting.wait()
    frame.interrupt("cancel_requested")
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    gate.let_go.set()


async def test_a_failed_item_stops_the_frame_under_fail_fast(servers: Addresses) -> None:
    never = asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        if request.input["n"] != 2:
            await never.wait()
        return BUSY

    frame = Frame(input_of(chunk_of(9, spec=", on_error: fail_fast", at_once=4)), servers.postgres, answer)
    end = await asyncio.wait_for(frame.start(), 30)
    assert end.report.status == "error"
    assert len(frame.called_items) == 4


async def test_a_stopping_worker_finishes_items_that_have_begun_and_returns_the_others(servers: Addresses) -> None:
    gate = Gate(5)
    frame = Frame(input_of(chunk_of(20, at_once=1)), servers.postgres, gate)
    running = frame.start()
    await gate.waiting.wait()
    frame.stop_worker()
    gate.let_go.set()
    end = await running
    assert (end.report.status, end.report.unstarted) == ("ok", 14)
    assert end.report.results == [{"n": n} for n in range(6)]
    assert end.report.stats["total"] == 6


@pytest.mark.parametrize(("why", "status"), [("worker_shutdown", "shutdown"), ("paused", "paused")])
async def test_an_interrupted_frame_continues_where_it_was(why: str, status: str, servers: Addresses) -> None:
    gate = Gate(5)
    frame = Frame(input_of(chunk_of(20, at_once=1)), servers.postgres, gate)
    running = frame.start()
    await gate.waiting.wait()
    frame.interrupt(why)
    with pytest.raises(ApplicationError) as failure:
        await running
    assert failure.value.next_retry_delay is not None
    assert frame.details.ended == 5
    gate.let_go.set()
    end = await frame.start()
    assert end.report.results == [{"n": n} for n in range(20)]
    assert Counter(frame.called_items) == {**dict.fromkeys(range(20), 1), 5: 2}
    [call] = [entry for entry in await frame.entries(end) if "call" in entry and entry["call"]["input"]["n"] == 5]
    assert [attempt.get("status", "ok") for attempt in call["report"]["attempts"]] == [status, "ok"]


async def test_after_max_seconds_no_further_item_begins(servers: Addresses) -> None:
    async def answer(request: Request, _context: ToolContext) -> Any:
        await asyncio.sleep(0.1)
        return request.input["n"]

    frame = Frame(input_of(chunk_of(500, at_once=1, frame="max_seconds: 1")), servers.postgres, answer)
    end = await frame.start()
    assert 0 < end.report.unstarted < 500
    assert len(end.report.results) == end.report.stats["success"] == 500 - end.report.unstarted


async def test_after_max_bytes_no_further_item_begins(servers: Addresses) -> None:
    frame = Frame(
        input_of(chunk_of(50, at_once=1, frame="max_bytes: 10000")),
        servers.postgres,
        lambda _request, _context: "x" * 1000,
    )
    end = await frame.start()
    assert 5 <= 50 - end.report.unstarted <= 15


async def test_a_store_that_is_unavailable_stops_the_frame_from_beginning_more_and_loses_nothing(
    servers: Addresses,
) -> None:
    async with proxy_to(servers.postgres) as proxy:
        cut = asyncio.Event()

        async def answer(request: Request, _context: ToolContext) -> Any:
            if request.input["n"] == 50:
                await proxy.disconnect()
                cut.set()
            await asyncio.sleep(0.01)
            return request.input["n"]

        frame = Frame(input_of(chunk_of(2000, at_once=4)), proxy.dsn, answer)
        running = frame.start()
        await cut.wait()
        count = -1
        while count != len(frame.called_items):
            count = len(frame.called_items)
            await asyncio.sleep(2)
        assert count < 2000
        await proxy.restore()
        end = await asyncio.wait_for(running, 120)
    assert end.report.results == list(range(2000))
    assert len(frame.called_items) == 2000


async def test_a_frame_interrupted_while_its_last_segment_waits_reports_everything(
    servers: Addresses, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_to(servers.postgres) as proxy:

        async def answer(request: Request, _context: ToolContext) -> Any:
            if request.input["n"] == 2:
                await proxy.disconnect()
            return request.input["n"]

        frame = Frame(input_of(chunk_of(3, at_once=1)), proxy.dsn, answer)
        running = frame.start()
        while "the progress of a frame cannot be stored" not in caplog.text:
            await asyncio.sleep(0.02)
        frame.interrupt("paused")
        await asyncio.sleep(0)
        await proxy.restore()
        with pytest.raises(ApplicationError):
            await running
        end = await frame.start()
        types = Counter(entry["event"]["type"] for entry in await frame.entries(end) if "event" in entry)
    assert types["loop.iteration.started"] == types["loop.iteration.done"] == 3


async def test_a_heartbeat_is_small_and_names_what_is_stored(servers: Addresses) -> None:
    frame = Frame(input_of(chunk_of(1500)), servers.postgres, number)
    end = await frame.start()
    assert max(len(msgspec.json.encode(beat)) for beat in frame.beats) < 300
    assert frame.beats[-1].head == end.last_segment
    assert len(await frame.segments(end)) >= 3
    assert all(len(segment.state.get("results", {})) == 0 for segment in await frame.segments(end))


async def test_a_segment_of_a_frame_that_has_ended_has_its_report(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the next attempt could neither continue the machine nor report its outcome."""
    monkeypatch.setattr(segment_writer, "SEGMENT_ENTRIES", 1)

    async def answer(request: Request, _context: ToolContext) -> Any:
        beat_count = len(frame.beats)
        while len(frame.beats) == beat_count:  # until nothing is being stored
            await asyncio.sleep(0.01)
        return request.input["n"]

    frame = Frame(input_of(chunk_of(2, at_once=1)), servers.postgres, answer)
    segments = await frame.segments(await frame.start())
    ended_segments = [segment for segment in segments if segment.state["phase"] == "ended"]
    assert [segment.report is not None for segment in ended_segments] == [True]


async def test_a_snapshot_that_a_segment_restores_is_the_machine_s(servers: Addresses) -> None:
    """An item that failed, and names that were set, are there again."""
    gate = Gate(7)

    async def answer(request: Request, context: ToolContext) -> Any:
        return BUSY if request.input["n"] == 3 else await gate(request, context)

    tool = call("{else: {then: {do: continue, set: {ctx.seen: '{{ item }}'}}}}")
    frame = Frame(input_of(chunk_of(10, tool, at_once=1)), servers.postgres, answer)
    running = frame.start()
    await gate.waiting.wait()
    await until_stored(frame, 7)
    await frame.lose(running)
    assert frame.details.head is not None
    progress = await read_progress(frame.values, frame.details.head)
    machine = LoopMachine(input_of(chunk_of(10, tool, at_once=1)), progress.state)
    assert sorted(machine.state.results) == [0, 1, 2, 3, 4, 5, 6]
    assert sorted(machine.state.assigns) == [0, 1, 2, 3, 4, 5, 6]
    assert [frame_call.call.iteration for frame_call in progress.calls] == [7]


@pytest.mark.parametrize("missing", ["input", "progress"])
async def test_a_frame_with_missing_values_ends_and_names_them(servers: Addresses, missing: str) -> None:
    chunk_input = input_of(chunk_of(3))
    frame = Frame(chunk_input, servers.postgres, number)
    if missing == "input":
        frame = Frame(
            msgspec.structs.replace(chunk_input, items=[], stored_items=Part("gone", 0, 3)), servers.postgres, number
        )
    else:
        frame.details = FrameDetails(head="gone")
        frame.beats.append(frame.details)
    with pytest.raises(
        ApplicationError, match=f"the frame's {missing} cannot be read: noetl.payload has no .*gone"
    ) as failure:
        await frame.start()
    assert failure.value.non_retryable
    assert "run the playbook again" in failure.value.message
    assert frame.called_items == []
