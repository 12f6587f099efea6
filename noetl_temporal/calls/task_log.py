"""Writes and reads noetl.log, the table of the output that the code of tasks prints.

Workers write it, `noetl logs` and `noetl run -v` read it. Rows are written with best effort: a row that cannot be
written is lost, and a row whose connection is lost may be written twice.
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

__all__ = [
    "NOTICE_STREAM",
    "LogLine",
    "LogTail",
    "OutputSource",
    "PrintedText",
    "is_default_task_name",
    "store_printed",
]

NOTICE_STREAM = "noetl"
"""The stream of the row that reports that the output of a call is truncated."""

PAGE_ROWS = 1000
"""The maximum number of rows that one query reads."""

MAX_COMMIT_TIME = timedelta(seconds=5)
"""The maximum duration of the transaction that writes a row. Readers that follow the log may miss rows that take
longer.
"""


class OutputSource(NamedTuple):
    """The source of output: one attempt of a call. ``iteration`` counts from 0, as in the event log."""

    execution_id: int
    step: str
    task: str
    iteration: int | None
    page: int | None
    attempt: int
    worker_id: str


def is_default_task_name(step: str, task: str) -> bool:
    """Whether the task has the default name of a step's only task, which is not worth showing beside the step."""
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
        """Return ``STEP/TASK[ITERATION], attempt NUMBER (STREAM): TEXT``, without the parts that are usual: the default
        name of a task, attempt 1, stdout.
        """
        source = self.step if is_default_task_name(self.step, self.task) else f"{self.step}/{self.task}"
        source += "" if self.iteration is None else f"[{self.iteration}]"
        attempt = f", attempt {self.attempt}" if self.attempt > 1 else ""
        stream = "" if self.stream == "stdout" else f" ({self.stream})"
        return f"{source}{attempt}{stream}: {self.text}"


async def store_printed(dsn: str, source: OutputSource, texts: Sequence[PrintedText]) -> None:
    """Append rows. If the table does not exist yet, it is created. Raises asyncpg's errors, OSError."""

    async def insert(connection: Connection) -> None:
        times, streams, lines = zip(*texts, strict=True)
        await connection.execute(sql.query("add_log"), *source, list(times), list(streams), list(lines))

    try:
        await run_on_pool(dsn, insert)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        await migrate(dsn)
        await run_on_pool(dsn, insert)


class LogTail:
    """Reads the output of one execution's tasks as it is stored, each row once; with a ``step``, only that of this
    step.

    Positions are assigned before rows are committed, so a row may appear after rows with larger positions. So each
    query includes the positions of the last MAX_COMMIT_TIME, except those that were read.
    """

    def __init__(self, execution_id: int, step: str | None = None) -> None:
        self._execution_id, self._step = execution_id, step
        self._read_to = 0
        self._recent: dict[int, datetime] = {}

    async def read(self, database: Database) -> list[LogLine]:
        """Return the lines of the next rows, at most PAGE_ROWS; none if all have been read.

        Raises asyncpg's errors."""
        parameters = self._execution_id, self._read_to, list(self._recent), self._step, PAGE_ROWS
        records = await database.fetch(sql.query("log"), *parameters)
        self._recent |= {record["position"]: record["stored_at"] for record in records}
        if self._recent:
            self._forget(max(self._recent.values()) - MAX_COMMIT_TIME)
        return [line for record in records for line in _lines(record)]

    def _forget(self, cutoff: datetime) -> None:
        """Advance past the rows stored before ``cutoff``: no row with a smaller position can appear any more."""
        old_positions = [position for position, stored_at in self._recent.items() if stored_at < cutoff]
        self._read_to = max([self._read_to, *old_positions])
        self._recent = {position: at for position, at in self._recent.items() if position > self._read_to}


def _lines(record: asyncpg.Record) -> list[LogLine]:
    columns = {name: record[name] for name in LogLine.__struct_fields__ if name != "text"}
    return [LogLine(text=line, **columns) for line in record["text"].removesuffix("\n").split("\n")]
