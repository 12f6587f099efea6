"""Limits on the size of values. Exceeding Temporal's own limits would block or terminate a run."""

from __future__ import annotations

__all__ = ["INLINE_BYTES", "PREVIEW_BYTES", "STORED_BYTES", "STORE_FROM_BYTES", "UNPACKED_BYTES", "inline_bytes"]

INLINE_BYTES = 1_500_000
"""The maximum size of a value in history without a payload store. Temporal's limit for the whole payload is 2 MB."""

STORED_BYTES = 32_000_000
"""The maximum size of a value with a payload store. A workflow task may take 10 s, and on a loaded machine one that
reads a value of 64 MB took 9 to 11 s.
"""

STORE_FROM_BYTES = 64 * 1024
"""The size from which payloads are stored in Postgres."""

PREVIEW_BYTES = 500
"""The size of the preview, the beginning of the JSON, that the log shows instead of a large value."""

UNPACKED_BYTES = 8 * STORED_BYTES
"""The maximum size of a trail or of a segment of a frame after decompression. Ours are far smaller: a segment has some
4 MB and the calls in flight. Larger ones are refused, as anyone with access to Temporal or the payload store may have
written them."""


def inline_bytes(limit: int) -> int:
    """Return the maximum size of a value in history, in bytes. ``limit`` is that of a value at all: over INLINE_BYTES
    if there is a payload store.
    """
    return STORE_FROM_BYTES if limit > INLINE_BYTES else limit
