"""Makes execution ids: 63 bits, like every NoETL id. The ids of submitted and scheduled runs rise with time."""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, datetime, timedelta

from noetl_temporal.event_ids import EPOCH_MS

__all__ = [
    "ID_LENGTHS",
    "MAX_EXECUTION_ID",
    "MIN_ID_CHARACTERS",
    "called_execution_id",
    "exact_id",
    "new_execution_id",
    "scheduled_execution_id",
]

MAX_EXECUTION_ID = 2**63 - 1
"""The largest bigint of Postgres."""

ID_LENGTHS = (18, 19)
"""The possible numbers of digits of execution ids: 19 from October 2027 on."""

MIN_ID_CHARACTERS = 6
"""The minimum length of the prefix of an ID by which a run is looked up: a shorter one matches too many runs."""

RANDOM_BITS = 23

CALLED_BITS = 50
"""Bits of the difference between the ids of a called run and of its caller: 37 hours, so that the ids of a million
calls of one run differ.
"""

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_execution_id() -> int:
    """Return an id of 40 bits of milliseconds since 2024 and 23 random bits."""
    return _execution_id_at(time.time_ns() // 1_000_000, secrets.randbits(RANDOM_BITS))


def _execution_id_at(ms: int, bits: int) -> int:
    return (ms - EPOCH_MS) << RANDOM_BITS | bits


def scheduled_execution_id(start_time: datetime, first_run_id: str) -> int:
    """Return the id of a run that a schedule has started. It depends only on the run's first event, so it is the same
    in the workflow, in the mirror, and after a reset.
    """
    digest = hashlib.sha256(first_run_id.encode()).digest()
    bits = int.from_bytes(digest[:4], "big") >> (32 - RANDOM_BITS)
    return _execution_id_at((start_time - _UNIX_EPOCH) // timedelta(milliseconds=1), bits)


def called_execution_id(caller: int, key: str) -> int:
    """Return the id of the run that the call with this ``key`` starts, in the run ``caller``. It is the same if the
    call is repeated, and below the caller's, so that the largest id is that of a submitted run. Its time bits are not
    the time of the call.
    """
    digest = hashlib.sha256(key.encode()).digest()
    return caller - 1 - (int.from_bytes(digest[:8], "big") >> (64 - CALLED_BITS))


def exact_id(text: str) -> int | None:
    """Return the execution id that the text is; None if the text may be the prefix of several IDs."""
    return int(text) if text.isdecimal() and len(text) >= ID_LENGTHS[0] else None
