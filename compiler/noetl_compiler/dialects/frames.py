"""Read frames: how many items of a loop run in one activity (semantics.md 22d).

loop:
  in: "{{ workload.items }}"
  iterator: item
  spec: {mode: parallel, max_in_flight: 64, frame: {max_rows: 1000, max_seconds: 60s, row_concurrency: 16}}
"""

from __future__ import annotations

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Frame
from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.loops import FRAME

__all__ = ["read_frame"]


def read_frame(loop: Fields) -> Frame | None:
    """Read the ``frame`` of a loop over a collection; lowering adds the defaults."""
    fields = ConstructFields.nested(loop, "frame", FRAME)
    if fields is None:
        loop.warn_of_null("frame", "write frame: {} for frames with the default limits")
        return None
    frame = Frame(
        fields.node.span,
        max_rows=fields.count("max_rows"),
        max_seconds=fields.seconds("max_seconds"),
        max_bytes=fields.amount("max_bytes"),
        row_concurrency=fields.count("row_concurrency"),
    )
    cursor_keys = (key.name for key in FRAME.keys if key.name not in defaults.FRAME)
    fields.ignore(*cursor_keys, reason="only the claimers of a cursor hold rows")
    fields.check_keys()
    return frame
