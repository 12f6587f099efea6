"""The records of a call's attempts, carried from one attempt to the next in heartbeat details.

Temporal keeps the details of the last heartbeat and passes them to the next attempt, on any worker. The record of an
attempt is ``lost`` until the attempt has ended, so a later attempt can see that it never reported. An attempt that died
before its first heartbeat left no record; it is detected by the attempt number, and counts as lost as well.

A heartbeat costs the server as much as the start of an activity, and most calls end before they need one. So the first
attempt of a call that may be repeated sends none until it has run for HEARTBEAT_INTERVAL (dev/decisions/0021).

Records that do not fit in a heartbeat (attempt_details.py) are stored as segments. While the payload store is
unavailable they stay in memory, and the next attempt gets only their counts.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from functools import partial

import msgspec
from temporalio import activity

from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.heartbeats import heartbeating
from noetl_temporal.calls.interruptions import interruption_reason
from noetl_temporal.machine.call import AttemptRecord, AttemptStatus
from noetl_temporal.messages.attempt_details import (
    DETAIL_BYTES,
    Details,
    Segment,
    attempt_counts,
    details_within_limit,
    excess_count,
    shortened_record,
)
from noetl_temporal.payloads.value_store import ValueStore, retry_until_done

__all__ = ["AttemptLog"]

REMAINING_BYTES = DETAIL_BYTES // 4
"""Bytes of records that stay in the details when a segment is stored, so that some fit before the next one."""

STORE_SECONDS = 2.0
"""How long an attempt waits until a segment is stored."""

_log = logging.getLogger(__name__)


class AttemptLog(CallLog):
    """The log of a call in an activity of its own. Created at the start of an attempt."""

    def __init__(self, values: ValueStore) -> None:
        info = activity.info()
        previous = _previous_details(info)
        super().__init__(previous.records, previous.omitted_counts)
        self._values = values
        self._temporal_attempt = info.attempt
        self._first_record, self._last_segment = previous.first, previous.last_segment
        self._add_unreported_attempts(info, previous.temporal_attempt)
        self.begin_attempt()
        self._has_sent_heartbeat = False

    def _add_unreported_attempts(self, info: activity.Info, last_attempt: int) -> None:
        """Add a record for each attempt after the last one that reported, to which Temporal gave the number
        ``last_attempt``.

        If the number of the current attempt is not larger, the activity was reset: Temporal counts from 1 again. The
        attempt that was running during the reset, whose heartbeats Temporal ignores from then on, counts as the first.
        """
        last_reported = last_attempt
        if info.attempt <= last_attempt:
            last_reported = 0
            if self._records and self._records[-1].ended is None:
                self._records[-1] = msgspec.structs.replace(self._records[-1], status="reset")
                last_reported = 1
        schedule_time = int(info.scheduled_time.timestamp() * 1000)
        for _ in range(info.attempt - 1 - last_reported):
            last = self._records[-1] if self._records else None
            start_time = (last.ended or last.started) if last else schedule_time
            self._records.append(AttemptRecord(self._next_number, start_time, "lost"))

    @property
    def interruption_reason(self) -> AttemptStatus | None:
        """The reason why Temporal interrupts the activity."""
        return interruption_reason()

    # ---- heartbeats -------------------------------------------------------------------------------------------------

    def send_heartbeat(self) -> None:
        """Send a heartbeat with the log as its details."""
        self._has_sent_heartbeat = True
        activity.heartbeat(self._details())

    def record_attempt(self) -> None:
        """Send a heartbeat before a call that must not be repeated. When a person resets the activity, Temporal forgets
        its attempts: then only the heartbeat shows that there was one."""
        if not self._has_sent_heartbeat:
            self.send_heartbeat()

    def heartbeating(self) -> AbstractContextManager[None]:
        """Send heartbeats until the block ends; the first one immediately if there were earlier attempts."""
        return heartbeating(self.send_heartbeat, is_urgent=len(self._records) > 1 or bool(self._omitted_counts.total))

    def _details(self) -> Details:
        first = self._first_record
        if first is None and self._last_segment is None and excess_count(self._records):
            first = shortened_record(self._records[0])
        return details_within_limit(
            Details(tuple(self._records), self._omitted_counts, first, self._last_segment, self._temporal_attempt)
        )

    # ---- the end of the attempt -------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Save the log for the next attempt: store the records that do not fit in a heartbeat, and send a heartbeat."""
        if self._values.is_available and excess_count(self._records):
            await self._store_segment(excess_count(self._records, REMAINING_BYTES))
        self.send_heartbeat()

    async def _store_segment(self, count: int) -> None:
        """Store the first ``count`` records in a segment. If that fails, they stay in memory."""
        segment = Segment(tuple(self._records[:count]), self._last_segment)
        try:
            async with asyncio.timeout(STORE_SECONDS):
                key = await self._values.put(msgspec.json.encode(segment))
        except Exception as error:
            _log.warning("the records of %d attempts cannot be stored: %s: %s", count, type(error).__name__, error)
            return
        self._omitted_counts, self._last_segment = attempt_counts(segment.records, self._omitted_counts), key
        del self._records[:count]

    async def all_records(self) -> tuple[AttemptRecord, ...]:
        """Return all records, including those in segments, which are read with retries."""
        records, key = tuple(self._records), self._last_segment
        while key is not None:
            try:
                text = await retry_until_done("the records of attempts cannot be read", partial(self._values.get, key))
            except LookupError:
                break
            segment = msgspec.json.decode(text, type=Segment)
            records, key = (*segment.records, *records), segment.previous
        return records if self._first_record is None else (self._first_record, *records)


def _previous_details(info: activity.Info) -> Details:
    return msgspec.convert(info.heartbeat_details[0], Details) if info.heartbeat_details else Details(())
