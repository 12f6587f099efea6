"""The log of a call: the records of its attempts, in the process that runs the call."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import msgspec

from noetl_temporal.machine.call import AttemptCounts, AttemptRecord, AttemptStatus
from noetl_temporal.messages.attempt_details import attempt_counts

__all__ = ["CallLog", "now", "worker_name"]

MESSAGE_CHARACTERS = 500
"""The length to which the message of an error is truncated in the log. The outcome has the whole last message."""

_UNRECORDED = {"kind": "unrecorded", "message": "the attempt failed, and its record was lost", "retryable": True}
"""The error of an attempt that is known only from the ledger; a successful one would have left an entry."""


class CallLog:
    """The records of a call's attempts, that of the current attempt last. ``omitted_counts`` counts earlier attempts
    whose records are not in ``records``.

    A record has the status ``lost`` until its attempt has ended, so that a later attempt sees if it never reported.
    """

    def __init__(self, records: Iterable[AttemptRecord] = (), omitted_counts: AttemptCounts | None = None) -> None:
        self._records = list(records)
        self._omitted_counts = omitted_counts or AttemptCounts()

    def begin_attempt(self) -> None:
        """Add the record of a new attempt."""
        self._records.append(AttemptRecord(self._next_number, self.now(), "lost", worker=worker_name()))

    def now(self) -> int:
        """Return the current time for a record, in milliseconds since the epoch."""
        return now()

    @property
    def _next_number(self) -> int:
        return self._omitted_counts.total + len(self._records) + 1

    @property
    def interruption_reason(self) -> AttemptStatus | None:
        """Why this attempt is interrupted; None if it is not, or if the reason is unknown."""
        return None

    # ---- the attempts so far ----------------------------------------------------------------------------------------

    @property
    def attempt_number(self) -> int:
        """The number of this attempt, from 1."""
        return self._records[-1].number

    @property
    def earlier_counts(self) -> AttemptCounts:
        """The counts of the attempts before this one."""
        return (
            attempt_counts(self._records[:-1], self._omitted_counts) if len(self._records) > 1 else self._omitted_counts
        )

    @property
    def used_attempts(self) -> int:
        """The number of attempts that count against a rule, including this one (semantics.md 22a)."""
        return self.earlier_counts.used + 1

    @property
    def repetition(self) -> int:
        """The repetition of the call (tool.Request): one more than the successful attempts before this one."""
        return self.earlier_counts.ok + 1

    @property
    def is_in_doubt(self) -> bool:
        """Whether an attempt after the last successful one may have taken effect without reporting."""
        later_records = list(takewhile(lambda record: record.status != "ok", reversed(self._records[:-1])))
        has_success = len(later_records) < len(self._records) - 1
        attempts = attempt_counts(later_records, None if has_success else self._omitted_counts)
        return attempts.lost + attempts.interrupted > 0

    @property
    def follows_interruption(self) -> bool:
        """Whether the previous attempt was interrupted or lost."""
        return len(self._records) > 1 and self._records[-2].status not in ("ok", "error")

    @property
    def counts(self) -> AttemptCounts:
        """The counts of all attempts, including this one."""
        return attempt_counts(self._records, self._omitted_counts)

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """The records in memory: of this attempt and of those before it that are not omitted."""
        return tuple(self._records)

    async def all_records(self) -> tuple[AttemptRecord, ...]:
        """Return all records, also those that are not in memory."""
        return self.records

    # ---- this attempt -----------------------------------------------------------------------------------------------

    def send_heartbeat(self) -> None:
        """Send a heartbeat. Subclasses of calls in activities implement it."""

    def record_attempt(self) -> None:
        """Make the record durable before a call that must not be repeated. Frames make none (unsupported.py)."""

    def add_unrecorded_attempts(self, used_attempts: int) -> None:
        """Insert error records for attempts whose records were lost with a worker or by a reset: according to the
        ledger, there were ``used_attempts``. They count against the rule like any other.
        """
        last, missing = self._records[-1], max(0, used_attempts - self.used_attempts)
        number = last.number + missing
        self._records[-1:] = [
            *(
                AttemptRecord(missing_number, last.started, "error", ended=last.started, error=dict(_UNRECORDED))
                for missing_number in range(last.number, number)
            ),
            msgspec.structs.replace(last, number=number),
        ]

    def end_attempt(self, **fields: Any) -> None:
        """Complete this attempt's record."""
        fields["error"] = _truncated_error(fields.get("error"))
        self._records[-1] = msgspec.structs.replace(self._records[-1], ended=self.now(), **fields)

    async def save(self) -> None:
        """Save the log for the next attempt."""


def now() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@functools.cache
def worker_name() -> str:
    """Return the worker's name in Temporal's form: ``pid@host``."""
    return f"{os.getpid()}@{socket.gethostname()}"


def _truncated_error(error: dict[str, Any] | None) -> dict[str, Any] | None:
    if error is None or len(error["message"]) <= MESSAGE_CHARACTERS:
        return error
    return {**error, "message": error["message"][:MESSAGE_CHARACTERS] + "..."}
