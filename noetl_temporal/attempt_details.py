"""The records of a call's attempts, as heartbeat details of at most 4 KB.

Larger details would go to the payload store, and if it were unavailable, the activity would be cancelled. So the
details contain the last records, and counts of the earlier ones. The earlier records are in *segments* in the payload
store, each of which refers to the previous one. Pure: the workflow reads details as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from noetl_temporal.machine.call import AttemptCounts, AttemptRecord

__all__ = [
    "DETAIL_BYTES",
    "Details",
    "Segment",
    "attempt_counts",
    "attempts_in",
    "details_within_limit",
    "excess_count",
    "shortened_record",
]

DETAIL_BYTES = 3_500
"""The most bytes of records in one heartbeat, which keeps the details under 4 KB."""

SHORT_MESSAGE = 200
"""Characters to which an error is truncated if a single record is too large."""


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The details of a heartbeat: the records of a call's attempts.

    ``records`` are the last attempts, in order; ``before`` counts the earlier ones. ``first`` is the first attempt,
    unless it is in ``records`` or stored. ``older`` is the key of the last stored segment. ``temporal`` is the number
    that Temporal gave the last attempt; it restarts at 1 when the activity is reset.
    """

    records: tuple[AttemptRecord, ...]
    before: AttemptCounts = AttemptCounts()
    first: AttemptRecord | None = None
    older: str | None = None
    temporal: int = 0


class Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Records that were stored together; ``older`` is the key of the segment before."""

    records: tuple[AttemptRecord, ...]
    older: str | None = None


def attempts_in(details: Sequence[Any]) -> tuple[AttemptRecord, ...]:
    """Return the attempts that are recorded in the heartbeat details themselves."""
    if not details:
        return ()
    heartbeat = msgspec.convert(details[0], Details)
    return heartbeat.records if heartbeat.first is None else (heartbeat.first, *heartbeat.records)


def attempt_counts(records: Iterable[AttemptRecord], before: AttemptCounts | None = None) -> AttemptCounts:
    """Count the records, and add the counts ``before`` them."""
    total, used, ok, lost, interrupted = msgspec.structs.astuple(before or AttemptCounts())
    for record in records:
        total += 1
        used += record.status in ("ok", "error")
        ok += record.status == "ok"
        lost += record.status == "lost"
        interrupted += record.status in ("shutdown", "paused", "reset") and record.is_called
    return AttemptCounts(total, used, ok, lost, interrupted)


def excess_count(records: Sequence[AttemptRecord], limit: int = DETAIL_BYTES) -> int:
    """Return how many records to drop from the start so that the others have at most ``limit`` bytes."""
    size = 0
    for index in range(len(records) - 1, -1, -1):
        size += len(msgspec.json.encode(records[index])) + 1
        if size > limit:
            return index + 1
    return 0


def details_within_limit(details: Details) -> Details:
    """Return the details within the size limit: older records are only counted, the last is shortened if necessary."""
    limit = DETAIL_BYTES - len(msgspec.json.encode(details.first))
    excess = excess_count(details.records, limit)
    records = details.records[excess:] or tuple(map(shortened_record, details.records[-1:]))
    before = attempt_counts(details.records[: len(details.records) - len(records)], details.before)
    return msgspec.structs.replace(details, records=records, before=before)


def shortened_record(record: AttemptRecord) -> AttemptRecord:
    """Return a record of about 1 KB: without its sinks, and with its error truncated."""
    error = record.error
    if error is not None:
        error = {"kind": str(error.get("kind"))[:40], "message": str(error.get("message"))[:SHORT_MESSAGE]}
    return msgspec.structs.replace(record, error=error, sinks=(), indeterminate=(), worker=record.worker[:100])
