"""The records of a call's attempts, in the process that runs the call."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import msgspec

from noetl_temporal.attempt_details import attempt_counts
from noetl_temporal.machine.call import AttemptCounts, AttemptRecord, AttemptStatus

__all__ = ["CallLog", "now", "worker_name"]

MESSAGE_CHARACTERS = 500
"""The most characters of an error in the log. The outcome has the full text of the last error."""

_UNRECORDED = {"kind": "unrecorded", "message": "the attempt failed, and its record was lost", "retryable": True}
"""The error of an attempt that is known only from the ledger; a successful one would have left an entry."""


class CallLog:
    """The attempts of a call so far, in memory. ``before`` counts the attempts that ``records`` does not contain.

    A record is ``lost`` until its attempt has ended, so a later attempt can see that it never reported.
    """

    def __init__(self, records: Iterable[AttemptRecord] = (), before: AttemptCounts | None = None) -> None:
        self._records = list(records)
        self._before = before or AttemptCounts()

    def begin(self) -> None:
        """Begin the record of an attempt."""
        self._records.append(AttemptRecord(self._next_number, self.now(), "lost", worker=worker_name()))

    def now(self) -> int:
        """Return the time in the records: milliseconds since the epoch."""
        return now()

    @property
    def _next_number(self) -> int:
        return self._before.total + len(self._records) + 1

    @property
    def stop_reason(self) -> AttemptStatus | None:
        """Why this attempt is interrupted; None if it is not, or if the reason is unknown."""
        return None

    # ---- what is known of the attempts ------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of this attempt, from 1."""
        return self._records[-1].number

    @property
    def earlier(self) -> AttemptCounts:
        """The attempts before this one."""
        return attempt_counts(self._records[:-1], self._before) if len(self._records) > 1 else self._before

    @property
    def used_attempts(self) -> int:
        """The number of attempts that count against a rule, including this one (semantics.md 22a)."""
        return self.earlier.used + 1

    @property
    def repetition(self) -> int:
        """The repetition of the call (tool.Request): one more than the successful attempts before this one."""
        return self.earlier.ok + 1

    @property
    def is_in_doubt(self) -> bool:
        """Whether an attempt since the last successful one may have taken effect without reporting."""
        later_records = list(takewhile(lambda record: record.status != "ok", reversed(self._records[:-1])))
        has_success = len(later_records) < len(self._records) - 1
        attempts = attempt_counts(later_records, None if has_success else self._before)
        return attempts.lost + attempts.interrupted > 0

    @property
    def follows_interruption(self) -> bool:
        """Whether the previous attempt was interrupted or lost."""
        return len(self._records) > 1 and self._records[-2].status not in ("ok", "error")

    @property
    def counts(self) -> AttemptCounts:
        """The counts of all attempts, including this one."""
        return attempt_counts(self._records, self._before)

    @property
    def latest(self) -> tuple[AttemptRecord, ...]:
        """The last records, this attempt's among them."""
        return tuple(self._records)

    async def all_records(self) -> tuple[AttemptRecord, ...]:
        """Return all records that are known."""
        return self.latest

    # ---- this attempt -----------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Send a heartbeat; implemented by the host of the call."""

    def record_attempt(self) -> None:
        """Record the attempt before a call that must not be repeated. Frames make no such calls (unsupported.py)."""

    def add_unrecorded_attempts(self, used_attempts: int) -> None:
        """Insert error records for attempts whose records were lost with a worker or by a reset: the ledger counts
        ``used_attempts``. They count against the rule like any other.
        """
        last, missing = self._records[-1], max(0, used_attempts - self.used_attempts)
        number = last.number + missing
        self._records[-1:] = [
            *(
                AttemptRecord(earlier, last.started, "error", ended=last.started, error=dict(_UNRECORDED))
                for earlier in range(last.number, number)
            ),
            msgspec.structs.replace(last, number=number),
        ]

    def end(self, **fields: Any) -> None:
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
