"""Frames: how many items of a loop run in one activity (semantics.md 22d).

loop:
  in: "{{ workload.items }}"
  iterator: item
  spec: {mode: parallel, max_in_flight: 64, frame: {max_rows: 1000, max_seconds: 60s, row_concurrency: 16}}
"""

from __future__ import annotations

from noetl_compiler.dialects.cursors import FRAME_AMOUNTS, FRAME_WORDS
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.values import amount, seconds
from noetl_compiler.graph import Frame
from noetl_compiler.language import defaults

__all__ = ["read_frame"]


def read_frame(loop: Fields) -> Frame | None:
    """``frame`` of a loop over a collection; what it does not say is settled by lowering."""
    fields = loop.fields("frame", "a frame")
    if fields is None:
        return None
    report = loop.report
    frame = Frame(
        fields.node.span,
        max_rows=amount(fields.node_of("max_rows"), report),
        max_seconds=seconds(fields.node_of("max_seconds"), report),
        max_bytes=amount(fields.node_of("max_bytes"), report),
        row_concurrency=amount(fields.node_of("row_concurrency"), report),
    )
    for key in (*FRAME_AMOUNTS, *FRAME_WORDS):
        if key not in defaults.FRAME:
            fields.ignore(key, why="only the claimers of a cursor hold rows")
    fields.close()
    return frame
