"""The records of a call's attempts, carried from one attempt to the next in heartbeat details.

Temporal keeps the details of the last heartbeat and gives them to the next attempt, on whatever worker. An attempt's
record is sent before the tool runs and says ``lost`` until the attempt has ended: whoever finds it so knows that
nobody reported. An attempt that died before its first heartbeat left nothing, and is lost as well.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
from temporalio import activity

from noetl_temporal.machine.call import AttemptRecord, Outcome, SinkRecord
from noetl_temporal.machine.policy import Decision

__all__ = ["BEAT", "AttemptLog", "now", "told_by_heartbeat"]

BEAT = timedelta(seconds=2)
"""A call learns that it is cancelled by the answer to a heartbeat: this is how long a person waits for it."""

MESSAGE_CHARACTERS = 500
"""Of each error in the log: it travels with every heartbeat. The outcome has the whole text of the last one."""


class AttemptLog:
    """The attempts so far, this one's record last. Made at the start of an attempt."""

    def __init__(self) -> None:
        info = activity.info()
        self._records = _earlier(info)
        self._records.append(AttemptRecord(len(self._records) + 1, now(), "lost", worker=_worker()))

    @property
    def number(self) -> int:
        """This attempt's, from 1."""
        return self._records[-1].number

    @property
    def lost(self) -> int:
        """Earlier attempts that were lost with their worker."""
        return sum(1 for record in self._records[:-1] if record.status == "lost")

    @property
    def used(self) -> int:
        """Attempts that count against a rule, this one included: all but the lost (semantics.md 22a)."""
        return len(self._records) - self.lost

    def beat(self) -> None:
        """Tell Temporal that the attempt lives, and leave it the log."""
        activity.heartbeat(self._records)

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """Beat at once and regularly until the block ends."""
        self.beat()
        task = asyncio.create_task(self._keep_beating())
        try:
            yield
        finally:
            task.cancel()

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT.total_seconds())
            self.beat()

    def end(self, outcome: Outcome, decision: Decision, sinks: tuple[SinkRecord, ...]) -> tuple[AttemptRecord, ...]:
        """Complete this attempt's record; all records."""
        self._records[-1] = msgspec.structs.replace(
            self._records[-1],
            status="ok" if outcome["status"] == "ok" else "error",
            ended=now(),
            error=_abridged(outcome.get("error")),
            rule=decision.rule,
            do=decision.do,
            delay=decision.delay if decision.do == "retry" else None,
            exhausted=decision.exhausted,
            indeterminate=decision.indeterminate,
            sinks=sinks,
        )
        return tuple(self._records)


def told_by_heartbeat(details: Sequence[Any]) -> tuple[AttemptRecord, ...]:
    """The records that a heartbeat left."""
    return tuple(msgspec.convert(one, AttemptRecord) for one in details[0]) if details else ()


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _worker() -> str:
    """As Temporal itself names it: ``pid@host``."""
    return f"{os.getpid()}@{socket.gethostname()}"


def _earlier(info: activity.Info) -> list[AttemptRecord]:
    """The records that came with the heartbeat, and one for each attempt before this that left none."""
    details = info.heartbeat_details
    told = [msgspec.convert(one, AttemptRecord) for one in details[0]] if details else []
    by_number = {record.number: record for record in told}
    records: list[AttemptRecord] = []
    started = int(info.scheduled_time.timestamp() * 1000)
    for number in range(1, max([info.attempt - 1, *by_number]) + 1):
        records.append(by_number.get(number) or AttemptRecord(number, started, "lost"))
        started = records[-1].ended or records[-1].started
    return records


def _abridged(error: dict[str, Any] | None) -> dict[str, Any] | None:
    if error is None or len(error["message"]) <= MESSAGE_CHARACTERS:
        return error
    return {**error, "message": error["message"][:MESSAGE_CHARACTERS] + "..."}
