"""Summarizes the event log of a run, and waits until it is complete."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import asyncpg
import click
from msgspec.structs import replace

from noetl_temporal.cli.event_log import EventLog
from noetl_temporal.cli.run_annotations import ANNOTATION_EVENTS, RunAnnotations
from noetl_temporal.cli.run_problems import RunProblem, unread_history_problem
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.mirror.poll_interval import PollInterval
from noetl_temporal.mirror.read import CalledRun, called_runs, event_counts, events_of, read_progress
from noetl_temporal.runs import RunHandle

__all__ = ["LogSummary", "mirror_problems", "read_log", "read_log_summary", "wait_until_complete"]

_PAGE_EVENTS = 1000
"""The number of events that are read at once."""

_MAX_CALLED_RUNS = 20
"""The maximum number of called runs that are listed."""


class LogSummary(NamedTuple):
    """A summary of the event log of a run.

    ``events`` is the number of events without the ``superseded`` ones of resets. ``is_complete``: the mirror has read
    the event that closed the run; ``problems`` say why it cannot read the history. ``warnings``, ``reason``,
    ``rerun_of`` and ``rerun_from`` are those of RunAnnotations. ``calls`` is the number of runs that it has called,
    ``called`` the first of them.
    """

    events: int = 0
    superseded: int = 0
    is_complete: bool = False
    problems: tuple[RunProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""
    called: tuple[CalledRun, ...] = ()
    calls: int = 0
    rerun_of: str = ""
    rerun_from: str = ""

    def add_to(self, summary: RunSummary) -> RunSummary:
        """Return the summary of the run with these values added. Values that it has already take precedence."""
        return replace(
            summary,
            events=self.events,
            superseded=self.superseded,
            events_complete=self.is_complete,
            rerun_of=summary.rerun_of or self.rerun_of,
            rerun_from=summary.rerun_from or self.rerun_from,
            called=self.called,
            calls=self.calls,
            warnings=(*self.warnings, *summary.warnings),
            reason=summary.reason or self.reason,
            problems=(*summary.problems, *self.problems),
        )


async def read_log_summary(log: EventLog | None, namespace: str, handle: RunHandle, run_id: str) -> LogSummary:
    """Summarize the event log of a run. If it cannot be read, print why to stderr and return an empty summary."""
    if log is None:
        return LogSummary()
    try:
        async with log.connection() as connection:
            return await read_log(connection, namespace, handle.workflow_id, run_id, handle.execution_id)
    except DeploymentError as error:
        click.echo(f"no events: {error}", err=True)
        return LogSummary()


async def read_log(
    log: asyncpg.Connection, namespace: str, workflow_id: str, run_id: str, execution_id: int
) -> LogSummary:
    """Summarize the event log of the workflow whose last run is ``run_id``. Raises asyncpg's errors."""
    progress = await read_progress(log, namespace, workflow_id, run_id)
    events, superseded = await event_counts(log, execution_id)  # after read_progress: counts all of a complete run
    annotations = await _read_annotations(log, execution_id)
    problems = tuple(map(unread_history_problem, progress.problems))
    called, calls = await called_runs(log, execution_id, _MAX_CALLED_RUNS)
    return LogSummary(
        events - superseded,
        superseded,
        progress.is_complete,
        problems,
        annotations.warnings,
        annotations.reason,
        tuple(called),
        calls,
        annotations.rerun_of,
        annotations.rerun_from,
    )


async def _read_annotations(log: asyncpg.Connection, execution_id: int) -> RunAnnotations:
    """Read the events page by page, because a loop may have a warning for each item."""
    annotations, after = RunAnnotations(), 0
    while rows := await events_of(log, execution_id, after=after, types=ANNOTATION_EVENTS, limit=_PAGE_EVENTS):
        annotations.read(rows)
        after = rows[-1].event_id
    return annotations


async def mirror_problems(log: EventLog, namespace: str, workflow_id: str) -> tuple[RunProblem, ...]:
    """Return why the mirror cannot read the history of a run; empty if it can, or if the log is unreachable."""
    with contextlib.suppress(DeploymentError):
        async with log.connection() as connection:
            progress = await read_progress(connection, namespace, workflow_id, "")
            return tuple(map(unread_history_problem, progress.problems))
    return ()


async def wait_until_complete(log: EventLog, namespace: str, handle: RunHandle) -> bool:
    """Wait until the event log of an ended run is complete; return False if it cannot be completed. Raises RPCError."""
    run_id = (await handle.workflow.describe()).run_id
    interval = PollInterval()
    with contextlib.suppress(DeploymentError):
        while True:
            async with log.connection() as connection:
                progress = await read_progress(connection, namespace, handle.workflow_id, run_id)
            if progress.is_complete or progress.problems:
                return progress.is_complete
            await interval.wait(found_rows=False)
    return False
