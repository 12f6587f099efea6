"""Execution ids: 63-bit, rising with time, of the family of every NoETL id."""

from __future__ import annotations

import secrets
import time

from noetl_temporal.event_ids import EPOCH_MS

__all__ = ["new_execution_id"]


def new_execution_id() -> int:
    """40 bits of milliseconds since 2024, 23 random bits."""
    return (time.time_ns() // 1_000_000 - EPOCH_MS) << 23 | secrets.randbits(23)
