"""Reads the facts about a run from its event log, and whether the log is complete."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import asyncpg
import click
from msgspec.structs import replace

from noetl_temporal.cli.event_log import EventLog
from noetl_temporal.cli.log_facts import FACT_EVENTS, LogFacts
from noetl_temporal.cli.run_problems import RunProblem, unread_history
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.mirror.poll_interval import PollInterval
from noetl_temporal.mirror.read import CalledRun, called_runs, event_counts, events_of, read_progress
from noetl_temporal.runs import RunHandle

__all__ = ["LogSummary", "log_summary", "mirror_problems", "read_log", "wait_until_complete"]

_PAGE = 1000
"""The number of events that are read at once."""

_MOST_CALLED = 20
"""The maximum number of called runs that are listed."""


class LogSummary(NamedTuple):
    """The facts about a run in its event log.

    ``events`` excludes those that resets ``superseded``. ``is_complete`` is set once the mirror has read the event that
    closed the run; ``problems`` say why it cannot read the history. ``warnings``, ``reason``, ``rerun_of`` and
    ``rerun_from`` are those of LogFacts. ``calls`` is the number of runs that it has called, ``called`` the first ones.
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
        """Return the summary with these facts. Where both have a value, that of the summary is kept."""
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


async def log_summary(log: EventLog | None, namespace: str, handle: RunHandle, run_id: str) -> LogSummary:
    """Read the facts about a run. If the log cannot be read, print why to stderr and return an empty summary."""
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
    """Read the facts about the workflow whose last run is ``run_id``. Raises asyncpg's errors."""
    progress = await read_progress(log, namespace, workflow_id, run_id)
    events, superseded = await event_counts(log, execution_id)  # after read_progress: counts all of a complete run
    facts = await _facts(log, execution_id)
    problems = tuple(map(unread_history, progress.problems))
    called, calls = await called_runs(log, execution_id, _MOST_CALLED)
    return LogSummary(
        events - superseded,
        superseded,
        progress.is_complete,
        problems,
        facts.warnings,
        facts.reason,
        tuple(called),
        calls,
        facts.rerun_of,
        facts.rerun_from,
    )


async def _facts(log: asyncpg.Connection, execution_id: int) -> LogFacts:
    """Read the facts page by page, because a loop may have a warning for each item."""
    facts, after = LogFacts(), 0
    while rows := await events_of(log, execution_id, after=after, types=FACT_EVENTS, limit=_PAGE):
        facts.read(rows)
        after = rows[-1].event_id
    return facts


async def mirror_problems(log: EventLog, namespace: str, workflow_id: str) -> tuple[RunProblem, ...]:
    """Return why the mirror cannot read the history of a run; empty if it can, or if the log is unreachable."""
    with contextlib.suppress(DeploymentError):
        async with log.connection() as connection:
            progress = await read_progress(connection, namespace, workflow_id, "")
            return tuple(map(unread_history, progress.problems))
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
