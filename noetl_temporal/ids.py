"""Execution ids: 63-bit, rising with time, of the family of every NoETL id."""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, datetime, timedelta

from noetl_temporal.event_ids import EPOCH_MS

__all__ = [
    "LARGEST_ID",
    "LENGTHS",
    "SHORTEST_PREFIX",
    "exact_id",
    "execution_id_at",
    "new_execution_id",
    "scheduled_execution_id",
]

LARGEST_ID = 2**63 - 1
"""Execution ids are Postgres's bigint."""

LENGTHS = (18, 19)
"""Digits of execution ids: 19 from October 2027 on."""

SHORTEST_PREFIX = 6
"""Characters of an ID by which a run is looked up: fewer name too many runs."""

RANDOM_BITS = 23

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_execution_id() -> int:
    """40 bits of milliseconds since 2024, 23 random bits."""
    return execution_id_at(time.time_ns() // 1_000_000, secrets.randbits(RANDOM_BITS))


def execution_id_at(ms: int, bits: int, above: int = 0) -> int:
    """The id of a run that begins at ``ms``, milliseconds since the Unix epoch, with this many random ``bits``; the
    next one ``above`` another where it would not be larger."""
    return max((ms - EPOCH_MS) << RANDOM_BITS | bits, above + 1)


def scheduled_execution_id(began: datetime, first_run_id: str) -> int:
    """The id of a run that a schedule has started, from its first event: the same in the workflow and in the mirror,
    and after a reset, which keeps that event.
    """
    digest = hashlib.sha256(first_run_id.encode()).digest()
    bits = int.from_bytes(digest[:4], "big") >> (32 - RANDOM_BITS)
    return execution_id_at((began - _UNIX_EPOCH) // timedelta(milliseconds=1), bits)


def exact_id(text: str) -> int | None:
    """The execution id that the text is, without any look-up; None for what may be the beginning of several IDs."""
    return int(text) if text.isdecimal() and len(text) >= LENGTHS[0] else None
