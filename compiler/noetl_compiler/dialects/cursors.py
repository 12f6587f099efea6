"""Cursors: loops that claim rows of a database until none is left, a frame of them at a time.

loop:
  cursor: {kind: postgres, auth: pg, claim: "UPDATE ... FOR UPDATE SKIP LOCKED ... RETURNING *"}
  spec: {mode: cursor, max_in_flight: 10, frame: {max_rows: 100, lease_seconds: 120, process: row}}
"""

from __future__ import annotations

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Cursor, Value
from noetl_compiler.language.constructs.loops import CURSOR, FRAME
from noetl_compiler.nodes import MappingNode, ScalarNode, value_of

__all__ = ["read_cursor"]


def read_cursor(loop: Fields) -> Cursor | None:
    """``cursor`` of a loop, with the ``frame`` beside it in its config."""
    inner = ConstructFields.below(loop, "cursor", CURSOR)
    if inner is None:
        return None
    frame = _read_frame(loop)
    kind, auth = inner.required_name("kind"), inner.node_of("auth")
    entries = inner.rest({"claim", "params", "database"})
    if frame is not None:
        entries += ((ScalarNode("frame", "frame", frame.span, "plain"), frame),)
    inner.close()
    config: Value = value_of(MappingNode(entries, inner.span))
    stored = value_of(auth) if auth else None
    return Cursor(kind.text if kind else "", config, inner.span, stored)


def _read_frame(loop: Fields) -> MappingNode | None:
    frame = ConstructFields.below(loop, "frame", FRAME)
    if frame is None:
        return None
    if isinstance(frame.node.get("max_bytes"), ScalarNode):
        frame.node_of("max_bytes")  # which may have a unit
    frame.close()
    return frame.node
