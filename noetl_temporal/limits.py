"""Limits on the size of values. Exceeding Temporal's own limits would block or terminate a run."""

from __future__ import annotations

__all__ = ["INLINE_BYTES", "PREVIEW_BYTES", "STORED_BYTES", "STORE_FROM_BYTES", "UNPACKED_BYTES", "inline_bytes"]

INLINE_BYTES = 1_500_000
"""Bytes of one value in history, if nothing is stored elsewhere. Temporal's limit is 2 MB, with what we wrap around it.
"""

STORED_BYTES = 32_000_000
"""Bytes of one value, if large ones are stored in Postgres. A workflow task may take 10 s; on a machine with other load
one that reads a value of 64 MB took 9 to 11 s.
"""

STORE_FROM_BYTES = 64 * 1024
"""Payloads of this size or more are stored in Postgres."""

PREVIEW_BYTES = 500
"""Bytes of the beginning of a value, as JSON, that the log shows instead of the whole."""

UNPACKED_BYTES = 8 * STORED_BYTES
"""Bytes of a trail or a segment of a frame, decompressed. Ours are far smaller: a segment has some 4 MB and the calls
in flight. Larger ones are refused, as anyone with access to Temporal or the payload store may have written them."""


def inline_bytes(limit: int) -> int:
    """Return the size in bytes up to which a value is kept in history; ``limit`` is the largest value supported."""
    return STORE_FROM_BYTES if limit > INLINE_BYTES else limit
