"""One check for every log: whatever a run did, its rows are consistent.

``audit`` takes the rows of one execution as read from noetl.event and lists what is wrong with them. Nothing in it
knows what the playbook was; so any test that has a log may ask it.

Rows that resets superseded are left out by whoever reads the log; ``audit_execution`` does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import asyncpg
import msgspec

__all__ = ["audit", "audit_everything", "audit_execution"]

Row = Mapping[str, Any]

TERMINAL = ("playbook.completed", "playbook.failed", "playbook.cancelled")
OPEN = ("RUNNING", "PAUSED")
STOPPED_STATUSES = ("TERMINATED", "TIMED_OUT")
"""Statuses of executions that were ended from outside."""

_TYPES = {
    "COMPLETED": "playbook.completed",
    "PARTIAL": "playbook.completed",
    "FAILED": "playbook.failed",
    "CANCELLED": "playbook.cancelled",
    "TERMINATED": "playbook.cancelled",
    "TIMED_OUT": "playbook.failed",
}

_NO_STEP_FAILED = ("timeout", "limit", "budget")
"""What stops a run that no step has failed."""

_AFTER = ("next.evaluated", "ctx.updated", "warning", "playbook.resumed", "loop.resumed")
"""What comes of an end and stands after it, under what has ended."""

_STANDING = """
SELECT event_id, parent_event_id, event_type, status, node_name, node_type, duration, meta
FROM noetl.event e WHERE execution_id = $1
  AND NOT EXISTS (SELECT FROM noetl.superseded_events($1) s WHERE s.event_id = e.event_id)
"""
"""The columns that are read here: others may be large."""


async def audit_execution(dsn: str, execution_id: int) -> list[str]:
    """``audit`` of an execution in the database at ``dsn``; a problem too when it is not there."""
    connection = await asyncpg.connect(dsn)
    try:
        query = "SELECT status FROM noetl.execution WHERE execution_id = $1"
        status = await connection.fetchval(query, execution_id)
        if status is None:
            return [f"execution {execution_id} is not in the log"]
        return await _audit_rows(connection, execution_id, status)
    finally:
        await connection.close()


async def audit_everything(dsn: str) -> dict[str, list[str]]:
    """What is wrong with the executions in the database at ``dsn``: path and id -> problems, without the good ones."""
    connection = await asyncpg.connect(dsn)
    try:
        query = "SELECT execution_id, status, path FROM noetl.execution JOIN noetl.catalog USING (catalog_id)"
        audits = {
            f"{path} {execution_id}": await _audit_rows(connection, execution_id, status)
            for execution_id, status, path in await connection.fetch(query)
        }
    finally:
        await connection.close()
    return {name: problems for name, problems in audits.items() if problems}


async def _audit_rows(connection: asyncpg.Connection, execution_id: int, status: str) -> list[str]:
    records = await connection.fetch(_STANDING, execution_id)
    return audit([dict(record) for record in records], status=status, stopped=status in STOPPED_STATUSES)


def audit(rows: Sequence[Row], *, status: str, stopped: bool) -> list[str]:
    """What is wrong with the rows of one execution, none is good; one line each, the row's id first.

    ``status`` is that of noetl.execution. ``stopped`` says that the run was ended from outside (terminated, out of its
    time): then loops may have learned of it after the playbook's last row. A run that is open is asked for no ends.
    """
    log = _Log(sorted(map(_decode, rows), key=lambda row: row["event_id"]))
    if not log.rows:
        return ["the log is empty"]
    checks = [_ids(log), _parents(log), _ends(log, is_over=status not in OPEN), _durations(log)]
    checks += [
        _inside(log, stopped=stopped),
        _attempts(log),
        _calls(log),
        _last_row(log, status, stopped),
        _failures(log, status),
        _whys(log, status),
        _iterations(log),
    ]
    return [problem for check in checks for problem in check]


class _Log:
    """``ends`` maps the id of a beginning to the rows that end it; ``by_id`` has the first row of each id."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.by_id: dict[int, Row] = {}
        self.ends: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            self.by_id.setdefault(row["event_id"], row)
            if "ends" in row["meta"]:
                self.ends[int(row["meta"]["ends"])].append(row)

    def start_rows(self) -> Iterator[Row]:
        return (row for row in self.rows if row["status"] == "STARTED")

    def within(self, row: Row) -> Row | None:
        """The beginning within which a row stands. A row may follow an end: then it stands where that stands."""
        parent = self.by_id.get(row["parent_event_id"] or 0)
        while parent is not None and parent["status"] != "STARTED":
            parent = self.by_id.get(int(parent["meta"].get("ends", 0)), parent)
            parent = self.by_id.get(parent["parent_event_id"] or 0)
        return parent

    def end_of(self, row: Row) -> Row | None:
        return next(iter(self.ends.get(row["event_id"], ())), None)


def _decode(row: Row) -> Row:
    meta = row["meta"]
    return {**row, "meta": msgspec.json.decode(meta) if isinstance(meta, str) else meta or {}}


def _describe(row: Row) -> str:
    return f"{row['event_id']}: {row['event_type']} of {row['node_name']!r}"


def _ids(log: _Log) -> Iterable[str]:
    seen_ids: set[int] = set()
    for row in log.rows:
        if row["event_id"] in seen_ids:
            yield f"{_describe(row)} has the id of another row"
        seen_ids.add(row["event_id"])


def _parents(log: _Log) -> Iterable[str]:
    for row in log.rows:
        parent = row["parent_event_id"]
        if parent is None:
            continue
        if parent not in log.by_id:
            yield f"{_describe(row)} has a parent that does not exist, {parent}"
        if parent >= row["event_id"]:
            yield f"{_describe(row)} is older than its parent {parent}"


def _ends(log: _Log, *, is_over: bool) -> Iterable[str]:
    for row in log.start_rows():
        count = len(log.ends.get(row["event_id"], ()))
        if count > 1:
            yield f"{_describe(row)} ends {count} times"
        if count == 0 and is_over:
            yield f"{_describe(row)} never ends"
    for start_row, rows in log.ends.items():
        for row in rows:
            first = log.by_id.get(start_row)
            if first is None or first["status"] != "STARTED":
                yield f"{_describe(row)} ends what never began, {start_row}"
            elif start_row >= row["event_id"]:
                yield f"{_describe(row)} stands before its beginning {start_row}"


def _inside(log: _Log, *, stopped: bool) -> Iterable[str]:
    """What is within something that has ended stands before its end."""
    for row in log.rows:
        if row["event_type"] in _AFTER or (stopped and _is_of_loop(log, row)):
            continue
        end_id = int(row["meta"].get("ends", 0))
        within = log.within(log.by_id.get(end_id, row))
        end = log.end_of(within) if within is not None else None
        if end is not None and row["event_id"] > end["event_id"]:
            yield f"{_describe(row)} stands after {_describe(end)}, within which it belongs"


def _durations(log: _Log) -> Iterable[str]:
    for row in log.rows:
        if row["duration"] is not None and row["duration"] < 0:
            yield f"{_describe(row)} took {row['duration']} s"


def _attempts(log: _Log) -> Iterable[str]:
    """Attempts of a call are numbered 1..n."""
    calls: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in log.rows:
        if row["event_type"] == "task.attempt.started":
            calls[row["parent_event_id"] or 0, row["meta"].get("task_run_id", "")].append(row)
    for attempts in calls.values():
        numbers = [row["meta"]["retry"]["attempt_number"] for row in attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{_describe(attempts[0])} is the first of the attempts {numbers}"


def _calls(log: _Log) -> Iterable[str]:
    """Every attempt and sink belongs to a call."""
    for row in log.rows:
        if row["event_type"].startswith(("task.attempt.", "sink.")):
            parent = log.by_id.get(row["parent_event_id"] or 0)
            if parent is None or parent["event_type"] != "task.started":
                yield f"{_describe(row)} belongs to no call"


def _last_row(log: _Log, status: str, stopped: bool) -> Iterable[str]:
    turns = [row for row in log.rows if row["event_type"] in (*TERMINAL, "playbook.started", "playbook.resumed")]
    last = turns[-1] if turns and turns[-1]["event_type"] in TERMINAL else None
    if last is None:
        if status not in OPEN:
            yield f"the execution is {status} and no row says so"
        return
    if status != last["status"] or _TYPES.get(status) != last["event_type"]:
        yield f"{_describe(last)} says {last['status']} where the execution is {status}"
    for row in log.rows:
        if row["event_id"] > last["event_id"] and not (stopped and _is_of_loop(log, row)):
            yield f"{_describe(row)} comes after the end"


def _is_of_loop(log: _Log, row: Row) -> bool:
    """Whether it is a row of a loop's own run, or stands under one."""
    ancestor: Row | None = row
    while ancestor is not None:
        if ancestor["node_type"] in ("iteration", "loop"):
            return True
        ancestor = log.by_id.get(ancestor["parent_event_id"] or 0)
    return False


def _failures(log: _Log, status: str) -> Iterable[str]:
    """A completed run, or a completed iteration, has no failed step from which no arc led on, unless a person had it
    repeated, or the final step gave the status.
    """
    if status != "COMPLETED" or _final_status(log) is not None:
        return
    handled = {
        row["meta"].get("step_run_id")
        for row in log.rows
        if (row["event_type"] == "next.evaluated" and row["meta"].get("chosen"))
        or (row["event_type"] == "step.released" and row["meta"].get("action") == "retry")
    }
    done = {row["meta"].get("iteration_id") for row in log.rows if row["event_type"] == "loop.iteration.done"}
    for row in log.rows:
        is_failed = row["event_type"] == "step.failed" and row["meta"].get("step_run_id") not in handled
        if is_failed and row["meta"].get("iteration_id") in (None, *done):
            yield f"{_describe(row)} failed unhandled in a run that completed"


def _final_status(log: _Log) -> str | None:
    """The status that the final step gave to the run."""
    final_status: str | None = log.rows[-1]["meta"].get("final_status")
    return final_status


def _whys(log: _Log, status: str) -> Iterable[str]:
    """Below a run that its machine says has failed stands a row that failed, unless something else stopped it."""
    last = next((row for row in reversed(log.rows) if row["event_type"] == "playbook.failed"), None)
    if status != "FAILED" or last is None or "failed_steps_count" not in last["meta"]:
        return
    if last["meta"].get("stopped_by") in _NO_STEP_FAILED or last["meta"].get("result_refused"):
        return
    if _final_status(log) == status.lower():
        return
    if not any(row["status"] == "FAILED" and row["node_type"] not in ("playbook", "workflow") for row in log.rows):
        yield f"{_describe(last)} has nothing below it that failed"


def _iterations(log: _Log) -> Iterable[str]:
    """A loop that is done has the row of an end for each iteration that its counts name, but for those that it has from
    the loop that it repeats.
    """
    ended_rows = (row for row in log.rows if row["event_type"].startswith("loop.iteration.") and "ends" in row["meta"])
    counts = Counter((_loop_of(log, row), row["event_type"]) for row in ended_rows)
    for row in log.rows:
        if row["event_type"] != "loop.done":
            continue
        for count, word in (("success", "done"), ("failed", "failed")):
            counted = counts[int(row["meta"]["ends"]), f"loop.iteration.{word}"]
            if word == "done":
                counted += log.by_id[int(row["meta"]["ends"])]["meta"].get("reused_items", 0)
            if counted != row["meta"]["stats"][count]:
                expected = row["meta"]["stats"][count]
                yield f"{_describe(row)} counts {expected} iterations as {word}, the log has {counted}"


def _loop_of(log: _Log, row: Row) -> int | None:
    """The beginning of the loop within which an iteration stands."""
    within = log.within(log.by_id.get(int(row["meta"]["ends"]), row))
    return None if within is None else within["event_id"]
