"""The table noetl.log: what the code of tasks prints. Workers write it, `noetl logs` and `noetl run -v` read it.

Nothing depends on it: a row that cannot be written is lost, and one whose connection is lost may be there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import asyncpg
import msgspec

from noetl_temporal.connection_pools import Connection, run_on_pool
from noetl_temporal.mirror import sql
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.read import Database

__all__ = ["NOTICE_STREAM", "LogLine", "LogTail", "OutputSource", "PrintedText", "is_only_task", "store_printed"]

NOTICE_STREAM = "noetl"
"""The stream of the row that reports that the output of a call is truncated."""

PAGE_ROWS = 1000
"""Rows that are read at once."""

MAX_COMMIT_TIME = timedelta(seconds=5)
"""How long the transaction of a row may take without readers that follow the log missing the row."""


class OutputSource(NamedTuple):
    """The source of output: one attempt of a call. Iterations count from 0, as in the event log."""

    execution_id: int
    step: str
    task: str
    iteration: int | None
    page: int | None
    attempt: int
    worker_id: str


def is_only_task(step: str, task: str) -> bool:
    """Whether the task has the name of a step's only task, which says no more than the step."""
    return task in (step, f"{step}_task")


class PrintedText(NamedTuple):
    """Lines that were printed together, and the time of the first."""

    time: datetime
    stream: str
    text: str


class LogLine(msgspec.Struct, frozen=True):
    """One printed line, without its line break. ``stream`` is stdout, stderr or noetl (NOTICE_STREAM)."""

    execution_id: int
    time: datetime
    step: str
    task: str
    iteration: int | None
    page: int | None
    attempt: int
    stream: str
    text: str

    def text_with_source(self) -> str:
        """Return ``fetch/parse[2], attempt 2: the text``; another stream than stdout is named."""
        source = self.step if is_only_task(self.step, self.task) else f"{self.step}/{self.task}"
        source += "" if self.iteration is None else f"[{self.iteration}]"
        attempt = f", attempt {self.attempt}" if self.attempt > 1 else ""
        stream = "" if self.stream == "stdout" else f" ({self.stream})"
        return f"{source}{attempt}{stream}: {self.text}"


async def store_printed(dsn: str, source: OutputSource, texts: Sequence[PrintedText]) -> None:
    """Append rows; the table is created if there is none yet. Raises asyncpg's errors, OSError."""

    async def insert(connection: Connection) -> None:
        times, streams, lines = zip(*texts, strict=True)
        await connection.execute(sql.query("add_log"), *source, list(times), list(streams), list(lines))

    try:
        await run_on_pool(dsn, insert)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        await migrate(dsn)
        await run_on_pool(dsn, insert)


class LogTail:
    """The output of one execution's tasks as it is stored, each row once; only that of ``step``, if one is named.

    Positions are assigned before rows are committed, so each read repeats the positions of the last moments.
    """

    def __init__(self, execution_id: int, step: str | None = None) -> None:
        self._execution_id, self._step = execution_id, step
        self._read_to = 0
        self._recent: dict[int, datetime] = {}

    async def read(self, database: Database) -> list[LogLine]:
        """Return the lines of the next rows, at most PAGE_ROWS of them; none when all have been read.

        Raises asyncpg's errors."""
        parameters = self._execution_id, self._read_to, list(self._recent), self._step, PAGE_ROWS
        records = await database.fetch(sql.query("log"), *parameters)
        self._recent |= {record["position"]: record["stored_at"] for record in records}
        if self._recent:
            self._forget(max(self._recent.values()) - MAX_COMMIT_TIME)
        return [line for record in records for line in _lines(record)]

    def _forget(self, before: datetime) -> None:
        """Advance past the rows stored ``before``: no row with a smaller position can appear any more."""
        old = [position for position, stored in self._recent.items() if stored < before]
        self._read_to = max([self._read_to, *old])
        self._recent = {position: at for position, at in self._recent.items() if position > self._read_to}


def _lines(record: asyncpg.Record) -> list[LogLine]:
    columns = {name: record[name] for name in LogLine.__struct_fields__ if name != "text"}
    return [LogLine(text=line, **columns) for line in record["text"].removesuffix("\n").split("\n")]
