"""Execution ids: 63-bit, rising with time, of the family of every NoETL id."""

from __future__ import annotations

import secrets
import time

from noetl_temporal.event_ids import EPOCH_MS

__all__ = ["execution_id_at", "new_execution_id"]

RANDOM_BITS = 23


def new_execution_id() -> int:
    """40 bits of milliseconds since 2024, 23 random bits."""
    return execution_id_at(time.time_ns() // 1_000_000, secrets.randbits(RANDOM_BITS))


def execution_id_at(ms: int, bits: int, above: int = 0) -> int:
    """The id of a run that begins at ``ms``, milliseconds since the Unix epoch, with so many random ``bits``; the next
    one ``above`` another where it would not be larger."""
    return max((ms - EPOCH_MS) << RANDOM_BITS | bits, above + 1)
