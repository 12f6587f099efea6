"""Rows that a reset superseded: what is in no history of the run as it stands."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.api.common.v1 import ActivityType

from noetl_temporal.machine.steps.loops import moved_slot
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.store import ConflictError, Store, UnknownExecutionError, UnreadRunError
from noetl_temporal.naming import REPORTED
from tests.mirror.built import START, History, called_playbook, child, continue_as_new, payloads, playbook, reset
from tests.mirror.conftest import Log
from tests.mirror.resets import superseded_events
from tests.mirror.story import Story

Json = dict[str, Any]

LOOP = 1
"""Stands for the row of the loop under which chunks write."""


class Line:
    """A history to which notes are added: one row each, in a workflow task of its own."""

    def __init__(self, history: History, slot: int = 0) -> None:
        self.history, self.slot = history, slot

    def note(self, name: str) -> None:
        """Add a row of this node."""
        self.history.now += 10
        story = Story(self.history.now, self.slot)
        self.history.task()
        self.history.call(LOOP, [story.event("ctx.updated", name, "step", "COMPLETED", LOOP)])

    def chunk(self, name: str, slot: int) -> Line:
        """Begin a chunk, which adds a note."""
        self.history.now += 10
        self.history.task()
        child_line = Line(child(self.history, LOOP, self.history.starts_child([]), slot=slot), slot)
        child_line.note(name)
        return child_line

    def call(self, run_id: str) -> Line:
        """Call the playbook of the execution 1."""
        self.history.now += 10
        self.history.task()
        return Line(called_playbook(self.history, 1, run_id=run_id))

    def frame(self, name: str) -> None:
        """Run a frame, which adds a note."""
        self.history.now += 10
        self.history.task()
        loop = {"step": {"name": "fetch"}, "after": 0, "slot": 9, "loop_id": "fetch/2", "event_id": LOOP}
        input_payloads = payloads({"input": loop})
        scheduled_id = self.history.add(
            "ACTIVITY_TASK_SCHEDULED", input=input_payloads, activity_type=ActivityType(name="noetl.frame")
        )
        note = Story(self.history.now, 9).event("ctx.updated", name, "step", "COMPLETED", LOOP)
        result = payloads({"entries": [{"event": note}]})
        self.history.add("ACTIVITY_TASK_COMPLETED", result=result, scheduled_event_id=scheduled_id)

    @property
    def at(self) -> int:
        """The place to which the run is reset that has all until now."""
        return len(self.history.events) + 3

    def reset(self, run_id: str, at: int, now: int) -> Line:
        """The run that a reset to this place makes, at this time after the start."""
        return Line(reset(self.history, at=at, run_id=run_id, now=START + now), self.slot)

    def continue_as_new(self, run_id: str) -> Line:
        """The run that goes on as new."""
        self.history.now += 10
        self.history.task()
        return Line(continue_as_new(self.history, run_id=run_id), self.slot)


def _start_line() -> Line:
    return Line(playbook(1))


def _no_reset() -> tuple[list[Line], set[str]]:
    first = _start_line()
    first.note("a")
    return [first, first.chunk("in a chunk", 1)], set()


def _once() -> tuple[list[Line], set[str]]:
    first = _start_line()
    first.note("a")
    at = first.at
    first.note("b")
    second_line = first.reset("r2", at, 1000)
    second_line.note("c")
    return [first, second_line], {"b"}


def _chunks() -> tuple[list[Line], set[str]]:
    """The first chunk goes on in the new run, also with what it does after the reset; the second does not."""
    first = _start_line()
    kept_chunk = first.chunk("before", 1)
    at = first.at
    dropped_chunk = first.chunk("after", 2)
    dropped_chunk.note("after that")
    second_line = first.reset("r2", at, 1000)
    kept_chunk.history.now = START + 2000
    kept_chunk.note("before, and later")
    dropped_chunk.history.now = START + 1000
    dropped_chunk.note("not ended yet")
    return [first, kept_chunk, dropped_chunk, second_line, second_line.chunk("again", 3)], {
        "after",
        "after that",
        "not ended yet",
    }


def _frame() -> tuple[list[Line], set[str]]:
    first = _start_line()
    first.frame("in a frame")
    at = first.at
    first.frame("in a later frame")
    second_line = first.reset("r2", at, 1000)
    second_line.frame("in a frame again")
    return [first, second_line], {"in a later frame"}


def _further_back() -> tuple[list[Line], set[str]]:
    """The second reset also takes back the first, of the run that the first made."""
    first = _start_line()
    first.note("a")
    back = first.at
    first.note("b")
    chunk = first.chunk("in a chunk", 1)
    at = first.at
    first.note("c")
    second = first.reset("r2", at, 1000)
    second.note("d")
    third = second.reset("r3", back, 2000)
    third.note("e")
    return [first, chunk, second, third], {"b", "in a chunk", "c", "d", "playbook.resumed at 1000"}


def _further_on() -> tuple[list[Line], set[str]]:
    first = _start_line()
    first.note("a")
    at = first.at
    first.note("b")
    second = first.reset("r2", at, 1000)
    second.note("c")
    on = second.at
    second.note("d")
    chunk = second.chunk("in a chunk", 1)
    third = second.reset("r3", on, 2000)
    third.note("e")
    return [first, second, chunk, third], {"b", "d", "in a chunk"}


def _further_on_of_the_first() -> tuple[list[Line], set[str]]:
    """The second reset is of the first run, to a place after that of the first reset."""
    first = _start_line()
    first.note("a")
    at = first.at
    first.note("b")
    chunk = first.chunk("in a chunk", 1)
    on = first.at
    first.note("c")
    second = first.reset("r2", at, 1000)
    second.note("d")
    other = second.chunk("in another chunk", 2)
    third = first.reset("r3", on, 2000)
    third.note("e")
    return [first, chunk, second, other, third], {"c", "d", "in another chunk", "playbook.resumed at 1000"}


def _last_of_two() -> tuple[list[Line], set[str]]:
    """The run had continued as new: the reset is of the last run."""
    first = _start_line()
    first.note("a")
    then = first.continue_as_new("r2")
    then.note("b")
    at = then.at
    then.note("c")
    chunk = then.chunk("in a chunk", 1)
    second_line = then.reset("r3", at, 1000)
    second_line.note("d")
    on = second_line.continue_as_new("r4")
    on.note("e")
    return [first, then, chunk, second_line, on], {"c", "in a chunk"}


def _first_of_two() -> tuple[list[Line], set[str]]:
    """The reset is of the run before the one that continued it."""
    first = _start_line()
    first.note("a")
    at = first.at
    first.note("b")
    then = first.continue_as_new("r2")
    then.note("c")
    chunk = then.chunk("in a chunk", 1)
    second_line = first.reset("r3", at, 1000)
    second_line.note("d")
    on = second_line.continue_as_new("r4")
    on.note("e")
    return [first, then, chunk, second_line, on], {"b", "c", "in a chunk"}


def _of_a_loop() -> tuple[list[Line], set[str]]:
    """A chunk is reset by itself: nothing of the playbook's is superseded, nor another chunk."""
    first = _start_line()
    chunk = first.chunk("a", 1)
    at = chunk.at
    chunk.note("b")
    other = first.chunk("in another chunk", 2)
    second_line = chunk.reset("l3", at, 1000)
    second_line.note("c")
    first.note("in the playbook")
    return [first, chunk, other, second_line], {"b"}


def _of_an_ended_loop() -> tuple[list[Line], set[str]]:
    """A chunk is reset after its playbook has its report: the playbook takes no other, so the first run counts."""
    first = _start_line()
    chunk = first.chunk("a", 1)
    at = chunk.at
    chunk.note("b")
    chunk.history.task()
    chunk.history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({}))
    second_line = chunk.reset("l3", at, 1000)
    second_line.note("b again")
    second_line.history.add("WORKFLOW_EXECUTION_TERMINATED", reason=REPORTED)
    return [first, chunk, second_line], {"b again", "loop.resumed at 1000"}


def _of_a_loop_and_its_playbook() -> tuple[list[Line], set[str]]:
    first = _start_line()
    first.note("a")
    at = first.at
    chunk = first.chunk("in a chunk", 1)
    place = chunk.at
    chunk.note("and that")
    second_line = chunk.reset("l3", place, 1000)
    second_line.note("again")
    second = first.reset("r2", at, 2000)
    return [first, chunk, second_line, second], {"in a chunk", "and that", "again", "loop.resumed at 1000"}


def _called_again() -> tuple[list[Line], set[str]]:
    """The caller is reset to a place before the call, and calls the playbook again: the same execution."""
    caller = Line(playbook(2, run_id="p1"))
    caller.note("before the call")
    at = caller.at
    first = caller.call("r1")
    first.note("a")
    chunk = first.chunk("in a chunk", 1)
    caller.note("after the call")
    second_line = caller.reset("p2", at, 1000)
    second = second_line.call("r2")
    second.note("a again")
    return [caller, first, chunk, second_line, second], {"a", "in a chunk"}


def _called_again_in_vain() -> tuple[list[Line], set[str]]:
    """Another reset takes the first run of the caller up again, after the call."""
    caller = Line(playbook(2, run_id="p1"))
    caller.note("before the call")
    at = caller.at
    first = caller.call("r1")
    first.note("a")
    on = caller.at
    caller.note("after the call")
    second_line = caller.reset("p2", at, 1000)
    second = second_line.call("r2")
    second.note("a again")
    return [caller, first, second_line, second, caller.reset("p3", on, 2000)], {"a again"}


SCENARIOS = (
    _no_reset,
    _once,
    _chunks,
    _frame,
    _further_back,
    _further_on,
    _further_on_of_the_first,
    _last_of_two,
    _first_of_two,
    _of_a_loop,
    _of_an_ended_loop,
    _of_a_loop_and_its_playbook,
    _called_again,
    _called_again_in_vain,
)


async def _read(store: Store, lines: list[Line]) -> None:
    """Read the runs in this order, but each after those that have to be read before it."""
    left = [line.history for line in lines]
    while left:
        history = left.pop(0)
        try:
            await store.ingest(history.run, history.events)
        except (UnknownExecutionError, UnreadRunError):
            left.append(history)


async def _marked_texts(store: Store, log: Log) -> set[str]:
    """The nodes of the superseded rows, of the row of a reset its type and its moment after the start."""
    ids = await superseded_events(store.pool, 1)
    rows = [row for row in await log.rows(1) if row["event_id"] in ids]
    assert len(ids) == len(rows)
    return {_name(row) for row in rows}


def _name(row: Json) -> str:
    moment = round(row["event_time"].timestamp() * 1000) - START
    return f"{row['event_type']} at {moment}" if "reset" in row["meta"] else row["node_name"]


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "the latest run first"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__.strip("_"))
async def test_rows_that_the_history_of_the_run_no_longer_has_are_superseded(
    scenario: Callable[[], tuple[list[Line], set[str]]], is_reversed: bool, dsn: str, store: Store, log: Log
) -> None:
    lines, expected = scenario()
    await _read(store, lines[::-1] if is_reversed else lines)
    assert await _marked_texts(store, log) == expected
    await log.database.execute("UPDATE noetl.cursor SET first_run_id = NULL, base_run_id = NULL, parent_run_id = NULL")
    await rebuild(dsn)
    assert await _marked_texts(store, log) == expected


async def test_a_chunk_that_continues_after_a_reset_shares_no_ids_with_the_new_run(
    dsn: str, store: Store, log: Log
) -> None:
    """Both write in the same milliseconds; in the same slot the second could not be read."""
    with pytest.raises(ConflictError, match="has the id"):
        await _read(store, _beside_an_orphan(1))
    orphan, second_line = "not terminated yet", "in a chunk of the new run"
    for slot in {moved_slot(1, seed) for seed in (0, 1, 894, 895, 2**63)}:
        await log.database.execute("TRUNCATE noetl.event, noetl.execution, noetl.cursor, noetl.history")
        await _read(store, _beside_an_orphan(slot))
        names = Counter(row["node_name"] for row in await log.rows(1))
        assert (names[orphan], names[second_line]) == (5, 5)
        assert await _marked_texts(store, log) == {"in the chunk that it drops", orphan}
    await rebuild(dsn)
    assert await _marked_texts(store, log) == {"in the chunk that it drops", orphan}


def _beside_an_orphan(slot: int) -> list[Line]:
    """A chunk in the slot 1, begun after the point of a reset, beside one in this slot that the new run begins."""
    first = _start_line()
    first.note("a")
    at = first.at
    dropped_chunk = first.chunk("in the chunk that it drops", 1)
    second_line = first.reset("r2", at, 1000)
    new = second_line.chunk("in a chunk of the new run", slot)
    new.history.run = new.history.run._replace(run_id="l of r2")
    new.history.events[0].workflow_execution_started_event_attributes.first_execution_run_id = "l of r2"
    dropped_chunk.history.now = new.history.now - 10
    for _ in range(5):
        dropped_chunk.note("not terminated yet")
    for _ in range(4):
        new.note("in a chunk of the new run")
    return [first, dropped_chunk, second_line, new]


async def test_a_rebuild_derives_the_rows_of_a_run_before_those_of_its_reset(dsn: str, store: Store, log: Log) -> None:
    """Whatever their run ids are: a row is of the run that was read first."""
    first = Line(playbook(1, run_id="z"))
    first.note("a")
    at = first.at
    first.note("b")
    await _read(store, [first, first.reset("a", at, 1000)])
    before = await log.everything()
    await rebuild(dsn)
    assert await log.everything() == before


async def test_without_a_reset_no_event_is_read(store: Store) -> None:
    """However long the log is, the answer comes at once."""
    await _read(store, _no_reset()[0])
    async with store.pool.acquire() as other, other.transaction(), store.pool.acquire() as reader:
        await other.execute("LOCK TABLE noetl.event IN ACCESS EXCLUSIVE MODE")
        assert await asyncio.wait_for(superseded_events(reader, 1), 30) == frozenset()


async def test_readers_of_events_may_query_superseded_ones(store: Store) -> None:
    await _read(store, _once()[0])
    role = f"reader_{secrets.token_hex(4)}"
    async with store.pool.acquire() as connection:
        await connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA noetl TO {role}; SET ROLE {role}")
        assert len(await superseded_events(connection, 1)) == 1
        await connection.execute(f"RESET ROLE; REVOKE USAGE ON SCHEMA noetl FROM {role}; DROP ROLE {role}")
