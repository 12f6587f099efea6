"""A loop over many items copies its collection nowhere: what it needs beside the items does not grow with them."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Loop
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.limits import INLINE_BYTES, STORED_BYTES
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.facts import Started
from noetl_temporal.machine.loops.chunks import item_ranges
from noetl_temporal.machine.loops.items import collection_of, select_items
from noetl_temporal.machine.playbook import PlaybookMachine

from .playbooks import playbook

ITEMS = 200_000


def _loop(more: str = "") -> Loop:
    text = playbook(
        f"""
  - step: start
    loop: {{in: "{{{{ workload.found }}}}", iterator: item{more}}}
    tool: {{kind: noop}}
"""
    )
    loop = compile_or_raise(text).steps["start"].loop
    assert loop is not None
    return loop


def _peak(work: Callable[[], Any]) -> int:
    """Bytes that the work allocates at most at one time."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("more", ["", ", spec: {frame: {}}"], ids=["chunks", "frames"])
def test_a_collection_that_is_taken_whole_is_not_copied(more: str) -> None:
    loop, scope = _loop(more), {"workload": {"found": list(range(ITEMS))}}

    def open_loop() -> None:
        items = select_items(loop, scope, collection_of(loop, scope), Budget(INLINE_BYTES))
        assert items is not None
        item_ranges(items, 16, 16_000_000)

    open_loop()
    assert _peak(open_loop) < 10 * ITEMS, "8 bytes an item are the list that the template gives"


def test_a_stored_list_costs_the_machine_the_references_to_its_ranges() -> None:
    text = """
  - step: start
    loop: {in: "{{ workload.found }}", iterator: item, spec: {frame: {max_rows: 2000}}}
    tool: {kind: noop}
"""
    graph = compile_or_raise(playbook(text))
    pages = tuple(Part(f"{page:064x}", 0, 10_000) for page in range(ITEMS // 10_000))
    references = {"/found": StoredRef(pages, 7 * ITEMS)}

    def start_loop() -> None:
        machine = PlaybookMachine(graph, execution_id=1, limit=STORED_BYTES)
        machine.feed(Started(EPOCH_MS, {"found": None}, stored_payload=references))
        progress = machine.state.runs["start#1"].loop
        assert progress is not None
        assert len(progress.ranges) == ITEMS // 2_000 - 1

    start_loop()
    assert _peak(start_loop) < ITEMS
