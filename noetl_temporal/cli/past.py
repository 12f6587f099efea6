"""Runs that Temporal does not tell of, because it has removed them or is away: their account from the mirror's tables.

noetl.history keeps the event that closed the run, with the report in it, just as Temporal had it.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import NamedTuple

import asyncpg
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from noetl_temporal.cli.describe_run import steps_from_log
from noetl_temporal.cli.event_log import log_connection
from noetl_temporal.cli.logged import logged_run
from noetl_temporal.cli.reading import Reading, read_log
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.mirror import sql
from noetl_temporal.mirror.read import Execution, steps_of
from noetl_temporal.run_input import RunReport

__all__ = ["past_account"]

PRUNED = "values over 64 KB of this run are gone: they were pruned on"

_CLOSING = """
SELECT proto FROM noetl.history WHERE (namespace, workflow_id, run_id) = ($1, $2, $3) ORDER BY event_id DESC LIMIT 1
"""


class _Run(NamedTuple):
    namespace: str
    workflow_id: str
    run_id: str


async def past_account(dsn: str, converter: DataConverter, execution_id: int | None) -> RunSummary | None:
    """The account of a run, or of the latest; None where the log has none. Raises DeploymentError."""
    async with log_connection(dsn) as log:
        found = await logged_run(log, execution_id)
        return None if found is None else await _account(log, converter, found)


async def _account(log: asyncpg.Connection, converter: DataConverter, found: Execution) -> RunSummary:
    record = await log.fetchrow(sql.query("latest_run"), found.execution_id)
    run = None if record is None else _Run(*record)
    status = found.status.lower()
    log_of = Reading() if run is None else await read_log(log, *run, found.execution_id)
    pruned = await log.fetchval(sql.query("pruned_at"), found.execution_id)
    report = RunReport(status, found.execution_id)
    with suppress(LookupError) if pruned else nullcontext():
        report = (None if run is None else await _report(log, converter, run)) or report
    started = (found.start_time or datetime.now()).replace(tzinfo=UTC)
    ended = found.end_time.replace(tzinfo=UTC) if found.end_time else datetime.now(UTC)
    return RunSummary(
        execution_id=found.execution_id,
        workflow_id="" if run is None else run.workflow_id,
        run_id="" if run is None else run.run_id,
        path=found.path,
        status=status,
        result=report.result,
        steps=report.steps or steps_from_log(await steps_of(log, found.execution_id), status),
        failures=report.failures,
        events=log_of.events,
        superseded=log_of.superseded,
        events_complete=log_of.is_complete,
        attention=log_of.problems,
        called=log_of.called,
        calls=log_of.calls,
        warnings=(*log_of.warnings, *([] if pruned is None else [f"{PRUNED} {pruned:%Y-%m-%d}"])),
        reason=log_of.reason,
        duration_seconds=round((ended - started).total_seconds(), 3),
    )


async def _report(log: asyncpg.Connection, converter: DataConverter, run: _Run) -> RunReport | None:
    """What the run said of itself at its end; None where it still runs or was ended from outside."""
    proto = await log.fetchval(_CLOSING, *run)
    payload = None if proto is None else _payload(HistoryEvent.FromString(proto))
    return None if payload is None else (await converter.decode([payload], [RunReport]))[0]


def _payload(closing: HistoryEvent) -> Payload | None:
    match closing.WhichOneof("attributes"):
        case "workflow_execution_completed_event_attributes":
            payloads = closing.workflow_execution_completed_event_attributes.result.payloads
        case "workflow_execution_failed_event_attributes":
            failure = closing.workflow_execution_failed_event_attributes.failure
            payloads = failure.application_failure_info.details.payloads
        case _:
            return None
    return payloads[0] if payloads else None
