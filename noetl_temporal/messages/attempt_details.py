"""The records of a call's attempts, as heartbeat details of at most 4 KB.

Larger details would go to the payload store, and if it were unavailable, the activity would be cancelled. So the
details contain the last records, and counts of the earlier ones. The earlier records are in *segments* in the payload
store, each of which refers to the previous one. Workflows read details as well, so this module does no I/O.
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
    "details_within_limit",
    "excess_count",
    "records_in_details",
    "shortened_record",
]

DETAIL_BYTES = 3_500
"""The maximum size of the records in one heartbeat, which keeps the details under 4 KB."""

SHORT_MESSAGE_CHARACTERS = 200
"""The length to which the message of an error is truncated if a single record is too large."""


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The details of a heartbeat: the records of a call's attempts.

    ``records`` are those of the last attempts, in order; ``omitted_counts`` counts the attempts before them. ``first``
    is the record of the first attempt, unless it is in ``records`` or in a segment. ``last_segment`` is the key of the
    last stored segment. ``temporal_attempt`` is the number that Temporal gave the last attempt; it restarts at 1 when
    the activity is reset.
    """

    records: tuple[AttemptRecord, ...]
    omitted_counts: AttemptCounts = AttemptCounts()
    first: AttemptRecord | None = None
    last_segment: str | None = None
    temporal_attempt: int = 0


class Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Records that were stored together. ``previous`` is the key of the previous segment, None for the first."""

    records: tuple[AttemptRecord, ...]
    previous: str | None = None


def records_in_details(details: Sequence[Any]) -> tuple[AttemptRecord, ...]:
    """Return the records in the details of a heartbeat, without those in segments."""
    if not details:
        return ()
    last_details = msgspec.convert(details[0], Details)
    return last_details.records if last_details.first is None else (last_details.first, *last_details.records)


def attempt_counts(records: Iterable[AttemptRecord], omitted_counts: AttemptCounts | None = None) -> AttemptCounts:
    """Count the attempts with these records, and add ``omitted_counts``."""
    total, used, ok, lost, interrupted = msgspec.structs.astuple(omitted_counts or AttemptCounts())
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
    """Return the details within DETAIL_BYTES: without the oldest records, which are only counted; if the last record is
    too large, it is shortened.
    """
    limit = DETAIL_BYTES - len(msgspec.json.encode(details.first))
    excess = excess_count(details.records, limit)
    records = details.records[excess:] or tuple(map(shortened_record, details.records[-1:]))
    omitted_records = details.records[: len(details.records) - len(records)]
    omitted_counts = attempt_counts(omitted_records, details.omitted_counts)
    return msgspec.structs.replace(details, records=records, omitted_counts=omitted_counts)


def shortened_record(record: AttemptRecord) -> AttemptRecord:
    """Return a record of about 1 KB: without its sinks, and with its error truncated."""
    error = record.error
    if error is not None:
        error = {"kind": str(error.get("kind"))[:40], "message": str(error.get("message"))[:SHORT_MESSAGE_CHARACTERS]}
    return msgspec.structs.replace(record, error=error, sinks=(), indeterminate=(), worker=record.worker[:100])
