"""Cursors: loops that claim rows of a database until none is left, a frame of them at a time.

loop:
  cursor: {kind: postgres, auth: pg, claim: "UPDATE ... FOR UPDATE SKIP LOCKED ... RETURNING *"}
  spec: {mode: cursor, max_in_flight: 10, frame: {max_rows: 100, lease_seconds: 120, process: row}}
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.values import amount, seconds
from noetl_compiler.graph import Cursor, Value
from noetl_compiler.language.defaults import FRAME
from noetl_compiler.nodes import MappingNode, ScalarNode, value_of

__all__ = ["FRAME_AMOUNTS", "FRAME_WORDS", "read_cursor"]

FRAME_AMOUNTS = (*FRAME, "lease_seconds", "heartbeat_seconds", "max_attempts")
"""How much a claimer takes at a time, for how long it holds it, and how often it tries."""

FRAME_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "process": MappingProxyType({"row": "row", "frame": "frame"}),
        "retry_mode": MappingProxyType({"whole_frame": "whole_frame", "row": "row"}),
    }
)
"""Whether an iteration takes a row or the whole frame, and which of them is done again after a failure."""


def read_cursor(loop: Fields) -> Cursor | None:
    """``cursor`` of a loop, with the ``frame`` beside it in its config."""
    inner = loop.fields("cursor", "a cursor")
    if inner is None:
        return None
    frame = _read_frame(loop)
    kind, auth = inner.required_name("kind"), inner.node_of("auth", "credential")
    if "claim" not in inner:
        inner.missing("claim")
    entries = inner.rest({"claim", "params", "database"})
    if frame is not None:
        entries += ((ScalarNode("frame", "frame", frame.span, "plain"), frame),)
    inner.close()
    config: Value = value_of(MappingNode(entries, inner.span))
    stored = value_of(auth) if auth else None
    return Cursor(kind.text if kind else "", config, inner.span, stored)


def _read_frame(loop: Fields) -> MappingNode | None:
    frame = loop.fields("frame", "a frame")
    if frame is None:
        return None
    for key in FRAME_AMOUNTS:
        node = frame.node_of(key)
        if key == "max_seconds":
            seconds(node, loop.report)
        elif key != "max_bytes" or not isinstance(node, ScalarNode):  # which may have a unit
            amount(node, loop.report)
    for key, meanings in FRAME_WORDS.items():
        frame.choice(key, meanings)
    frame.close()
    return frame.node
