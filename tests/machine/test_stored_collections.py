"""A loop over a stored list gives its chunks references to parts of the list; only what reads the items loads them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.limits import STORED_BYTES
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.commands import CallTool, Command, FrameLimits, LoadValue, RunChunk, StoreValues
from noetl_temporal.machine.facts import (
    ChunkFinished,
    ChunkReport,
    Continued,
    PayloadRef,
    Started,
    ValueLoaded,
    ValuesStored,
)
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.loops.chunks import stored_list_ranges
from noetl_temporal.machine.playbook import PlaybookMachine

from .playbooks import playbook

PAGES = StoredRef((Part("a", 0, 6), Part("b", 0, 6)), 100)
LOOP = """
  - step: start
    loop: {{in: "{{{{ {collection} }}}}", iterator: item, spec: {{{options}mode: parallel, max_in_flight: 4}}}}
    tool: {{kind: noop, message: "{{{{ {read} }}}}"}}
    next: {{arcs: [{{step: again}}]}}
  - step: again
    loop: {{in: "{{{{ start.results }}}}", iterator: item, spec: {{mode: parallel, max_in_flight: 4}}}}
    tool: {{kind: noop}}
"""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 4)


class Run:
    """A run whose request has a stored list of twelve items; its machine is restored before every fact."""

    def __init__(self, collection: str, options: str = "", read: str = "item", **payload: Any) -> None:
        self.graph = compile_or_raise(playbook(LOOP.format(collection=collection, options=options, read=read)))
        self.now = EPOCH_MS
        self.machine = PlaybookMachine(self.graph, execution_id=1, limit=STORED_BYTES)
        references = {"/items": PAGES, "/deep/items": PAGES}
        start = Started(
            self.now, {"items": None, "deep": {"items": None, "n": 1}, **payload}, stored_payload=references
        )
        self.commands = self.machine.feed(start)

    def feed(self, fact: Any, *arguments: Any) -> list[Command]:
        self.now += 10
        state = self.machine.snapshot()
        self.machine = PlaybookMachine(self.graph, execution_id=1, state=state, limit=STORED_BYTES)
        self.commands = self.machine.feed(fact(self.now, *arguments))
        return self.commands

    @property
    def parts(self) -> list[Part | None]:
        """Of the chunks that began with the last fact."""
        return [command.input.stored_items for command in self.commands if isinstance(command, RunChunk)]

    def end_chunk(self, size: int, key: str, number: int) -> None:
        [first, *_] = [id_ for id_, pending in self.machine.state.pending.items() if pending.kind == "chunk"]
        stats = {"total": size, "success": size, "failed": 0, "skipped": 0}
        reference = StoredRef((Part(key, 0, size),), 50)
        self.feed(ChunkFinished, first, ChunkReport("ok", [], stats, last_event_ms=self.now + number, stored=reference))


def loads(commands: list[Command]) -> list[LoadValue]:
    return [command for command in commands if isinstance(command, LoadValue)]


@pytest.mark.parametrize("collection", ["workload.items", "payload.items", "workload.deep.items", "payload.deep.items"])
def test_chunks_get_parts_of_the_pages_and_nothing_is_loaded(collection: str) -> None:
    run = Run(collection)
    assert run.parts == [Part("a", 0, 3), Part("a", 3, 3)]
    assert loads(run.commands) == []
    assert not any(isinstance(command, StoreValues) for command in run.commands)
    [first, second] = [command.input for command in run.commands if isinstance(command, RunChunk)]
    assert [(chunk.first, chunk.size, chunk.total, chunk.items) for chunk in (first, second)] == [
        (0, 3, 12, []),
        (3, 3, 12, []),
    ]


@pytest.mark.parametrize(
    ("collection", "options", "first"),
    [
        ("workload.items | reverse | list", "", 11),
        ("workload.items", "limit: 5, ", 0),
        ("workload.items", "where: '{{ item > 4 }}', ", 5),
        ("workload.items", "order_by: '{{ -item }}', ", 11),
    ],
)
def test_a_list_that_is_not_taken_as_it_is_is_loaded(collection: str, options: str, first: int) -> None:
    run = Run(collection, options)
    [load] = loads(run.commands)
    run.feed(ValueLoaded, load.id, list(range(12)))
    [keep] = [command for command in run.commands if isinstance(command, StoreValues)]
    assert keep.values[0][0] == first


def test_an_item_of_the_list_is_not_taken_for_the_list() -> None:
    run = Run("workload.items.0")
    [load] = loads(run.commands)
    run.feed(ValueLoaded, load.id, [[7], *range(11)])
    [chunk] = [command.input for command in run.commands if isinstance(command, RunChunk)]
    assert chunk.items == [7]


def test_a_body_that_reads_the_whole_list_gets_it() -> None:
    run = Run("workload.items", read="workload.items | length")
    [load] = loads(run.commands)
    run.feed(ValueLoaded, load.id, list(range(12)))
    inputs = [command.input for command in run.commands if isinstance(command, RunChunk)]
    assert {len(input_.scope["workload"]["items"]) for input_ in inputs} == {12}
    assert run.parts == [Part("a", 0, 3), Part("a", 3, 3)]


def test_a_mapping_that_is_read_whole_has_the_list_in_it() -> None:
    run = Run("workload.items", read="workload.deep")
    [load] = loads(run.commands)
    run.feed(ValueLoaded, load.id, list(range(12)))
    inputs = [command.input for command in run.commands if isinstance(command, RunChunk)]
    assert [one.scope["workload"]["deep"] for one in inputs] == [{"items": list(range(12)), "n": 1}] * 2


def test_values_beside_the_list_are_read_without_loading_it() -> None:
    run = Run("workload.deep.items", read="workload.deep.n")
    assert loads(run.commands) == []
    assert [command.input.scope["workload"] for command in run.commands if isinstance(command, RunChunk)] == [
        {"deep": {"n": 1}}
    ] * 2


def test_a_large_scope_is_stored_once_for_all_chunks() -> None:
    run = Run("workload.items", read="workload.text", text="x" * 70_000)
    [keep] = [command for command in run.commands if isinstance(command, StoreValues)]
    assert keep.values == ({"workload": {"text": "x" * 70_000}},)
    run.feed(ValuesStored, keep.id, (PayloadRef("scope", 70_020),))
    inputs = [command.input for command in run.commands if isinstance(command, RunChunk)]
    assert {(input_.scope_key, len(input_.scope)) for input_ in inputs} == {("scope", 0)}
    assert run.parts == [Part("a", 0, 3), Part("a", 3, 3)]


def test_items_that_a_chunk_returns_are_the_next_of_its_part() -> None:
    run = Run("workload.items")
    stats = {"total": 1, "success": 1, "failed": 0, "skipped": 0}
    run.feed(ChunkFinished, "start/1/3", ChunkReport("ok", [1], stats, unstarted=2, last_event_ms=run.now))
    assert run.parts == [Part("a", 4, 2)]


def test_a_loop_over_the_results_of_a_loop_has_their_parts() -> None:
    run = Run("workload.items")
    for number in range(4):
        run.end_chunk(3, f"result{number}", number)
    assert run.parts == [Part("result0", 0, 3), Part("result1", 0, 3)]
    assert loads(run.commands) == []


def test_the_first_call_waits_for_no_list_that_it_does_not_read() -> None:
    graph = compile_or_raise(playbook("  - step: start\n    tool: {kind: noop, message: '{{ workload.name }}'}\n"))
    machine = PlaybookMachine(graph, execution_id=1, limit=STORED_BYTES)
    commands = machine.feed(Started(EPOCH_MS, {"items": None, "name": "x"}, stored_payload={"/items": PAGES}))
    assert any(isinstance(command, CallTool) for command in commands)
    assert machine.feed(Continued(EPOCH_MS + 1)) == []


@pytest.mark.parametrize(
    "frame", [None, FrameLimits(max_rows=7, max_seconds=60, max_bytes=1_000_000, row_concurrency=3)]
)
def test_ranges_are_within_parts_and_cover_the_list(frame: FrameLimits | None) -> None:
    rng = random.Random(0)
    for _ in range(300):
        counts = [rng.randint(1, 30) for _ in range(rng.randint(1, 6))]
        starts = [rng.randint(0, 5) for _ in counts]
        parts = tuple(Part(f"k{n}", start, count) for n, (start, count) in enumerate(zip(starts, counts, strict=True)))
        total, size = sum(counts), rng.randint(1, 2_000)
        limit = rng.randint(1, 2_000)
        chunks = stored_list_ranges(StoredRef(parts, size), rng.randint(1, 9), limit, frame)
        assert list(chunks) == sorted(chunks)
        items = [(part.key, place) for part in parts for place in range(part.start, part.start + part.count)]
        ranges = [(part.key, place) for part in chunks.values() for place in range(part.start, part.start + part.count)]
        assert ranges == items
        assert list(chunks) == [sum(part.count for part in list(chunks.values())[:n]) for n in range(len(chunks))]
        assert max(part.count for part in chunks.values()) <= max(1, limit * total // size)
