"""What the event log says of a run as a whole: how many events it has, whether it is complete, and why it is not."""

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

__all__ = ["LogSummary", "log_summary", "problems_of", "read_log", "until_read"]

_PAGE = 1000
"""Rows that are read at once."""

_MOST_CALLED = 20
"""The maximum number of called runs that are listed."""


class LogSummary(NamedTuple):
    """The facts about a run in its event log.

    ``events`` excludes those that resets ``superseded``. ``is_complete``: the event that closed the run was read.
    ``problems``: why the mirror cannot read on. ``warnings``, ``reason``, ``rerun_of`` and ``rerun_from`` are those of
    LogFacts. ``called`` are the first of the ``calls`` runs of other playbooks that it has called.
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

    def added_to(self, summary: RunSummary) -> RunSummary:
        """Return the summary of the run with these facts. Where both have a fact, that of the summary counts."""
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
    """Read the facts about a run; none if the log cannot be read, with the reason on stderr."""
    if log is None:
        return LogSummary()
    try:
        async with log.connection() as connection:
            return await read_log(connection, namespace, handle.workflow_id, run_id, handle.execution_id)
    except DeploymentError as problem:
        click.echo(f"no events: {problem}", err=True)
        return LogSummary()


async def read_log(
    log: asyncpg.Connection, namespace: str, workflow_id: str, run_id: str, execution_id: int
) -> LogSummary:
    """Read the facts about the workflow whose last run is ``run_id``. Raises asyncpg's errors."""
    progress = await read_progress(log, namespace, workflow_id, run_id)
    events, gone = await event_counts(log, execution_id)  # after it: what is complete now is counted whole
    facts = await _facts(log, execution_id)
    problems = tuple(map(unread_history, progress.problems))
    called, calls = await called_runs(log, execution_id, _MOST_CALLED)
    return LogSummary(
        events - gone,
        gone,
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
    """Read page by page: a loop may have a warning for each of its items."""
    facts, after = LogFacts(), 0
    while rows := await events_of(log, execution_id, after=after, types=FACT_EVENTS, limit=_PAGE):
        facts.read(rows)
        after = rows[-1].event_id
    return facts


async def problems_of(log: EventLog, namespace: str, workflow_id: str) -> tuple[RunProblem, ...]:
    """Return why the mirror cannot read the run on; empty if it can, or if the log is unreachable."""
    with contextlib.suppress(DeploymentError):
        async with log.connection() as connection:
            progress = await read_progress(connection, namespace, workflow_id, "")
            return tuple(map(unread_history, progress.problems))
    return ()


async def until_read(log: EventLog, namespace: str, handle: RunHandle) -> bool:
    """Wait until the log of a run that has ended is complete; False if it cannot become so. Raises RPCError."""
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
