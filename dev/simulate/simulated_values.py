"""The stored values of a simulated run: random results of calls, and values of loops above a random size."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from noetl_temporal.limits import INLINE_BYTES, STORE_FROM_BYTES, STORED_BYTES
from noetl_temporal.machine import large_values
from noetl_temporal.machine.call import Part, PlainOutcome, StoredRef, ToolReport
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.facts import PayloadRef
from noetl_temporal.machine.loops import offload
from noetl_temporal.machine.stored import assemble_result, reference_in, with_result
from noetl_temporal.workflows.loop_run import with_items

__all__ = ["SimulatedValues"]

PAGE_ROWS = 7
"""The number of rows in a page of a stored list of the request."""


class SimulatedValues:
    """``limit`` is the maximum size of a value in bytes; INLINE_BYTES means that no payload store is available. Frames
    need one.
    """

    def __init__(self, rng: random.Random, *, has_frames: bool = False) -> None:
        limit = rng.choice((INLINE_BYTES, STORED_BYTES, STORED_BYTES))
        self.limit = STORED_BYTES if has_frames else limit
        self._kept_from = rng.choice((1, 40, offload.STORE_RESULTS_FROM_BYTES))
        self._stored_from = rng.choice((1, 200, STORE_FROM_BYTES))
        self._likely = rng.choice((0.0, 0.3, 1.0)) if self.limit > INLINE_BYTES else 0.0
        self._rng = rng
        self._values: dict[str, bytes] = {}

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Patch the machine: inside the block it stores values above the sizes drawn for this run."""
        before = offload.STORE_RESULTS_FROM_BYTES, offload.LARGE_BYTES, large_values.LARGE_BYTES
        offload.STORE_RESULTS_FROM_BYTES, offload.LARGE_BYTES = self._kept_from, self._stored_from
        large_values.LARGE_BYTES = self._stored_from
        try:
            yield
        finally:
            offload.STORE_RESULTS_FROM_BYTES, offload.LARGE_BYTES, large_values.LARGE_BYTES = before

    def keep(self, value: Any) -> PayloadRef:
        """Store a value and return its reference."""
        data = msgspec.json.encode(value)
        return PayloadRef(self.put(data), len(data))

    def put(self, data: bytes) -> str:
        """Store an encoded value and return its key."""
        key = f"value {len(self._values)}"
        self._values[key] = data
        return key

    def data(self, key: str) -> bytes:
        """Return the encoded value with this key."""
        return self._values[key]

    def value(self, key: str) -> Any:
        """Return the decoded value with this key."""
        return msgspec.json.decode(self._values[key])

    def request(self, rows: int) -> tuple[dict[str, Any], dict[str, StoredRef]]:
        """Return the payload of a request with a list of ``rows`` rows, and its stored values."""
        if not self._likely:
            return {"given": 1, "rows": list(range(rows))}, {}
        pages = [list(range(rows))[start : start + PAGE_ROWS] for start in range(0, rows, PAGE_ROWS)]
        refs = [self.keep(page) for page in pages]
        parts = [Part(ref.key, 0, len(page)) for ref, page in zip(refs, pages, strict=True)]
        return {"given": 1, "rows": None}, {"/rows": StoredRef(tuple(parts), sum(ref.bytes for ref in refs))}

    def load(self, stored: StoredRef) -> Any:
        """Return a stored value."""
        if stored.is_one:
            return self.value(stored.parts[0].key)
        values: list[Any] = []
        for part in stored.parts:
            if not part.key:
                values += part.inline_items or [None] * part.count
            elif part.count:
                values += self.value(part.key)[part.start : part.start + part.count]
            else:
                values.append(self.value(part.key))
        return values

    def offload_result(self, report: ToolReport) -> ToolReport:
        """Return the report of an activity, with some probability with its result moved to the store."""
        outcome = report.outcome
        if "result" not in outcome or self._rng.random() >= self._likely:
            return report
        ref = self.keep(outcome["result"])
        without_result = {name: value for name, value in outcome.items() if name != "result"}
        return replace(report, outcome=without_result, stored=StoredRef((Part(ref.key),), ref.bytes, is_one=True))

    def loaded_outcome(self, outcome: PlainOutcome) -> PlainOutcome:
        """Return the outcome with its result, which is loaded if it is stored."""
        stored = reference_in(outcome)
        if stored is None:
            return outcome
        return with_result(outcome, assemble_result(stored, self.load(stored)))

    def with_items(self, chunk_input: ChunkInput) -> ChunkInput:
        """Return the input of a chunk with its items, which are loaded if they are stored."""
        if chunk_input.stored_items is None:
            return chunk_input
        items = cast("list[Any]", self.value(chunk_input.stored_items.key))
        scope = self.value(chunk_input.scope_key) if chunk_input.scope_key else chunk_input.scope
        return with_items(chunk_input, items, scope)
