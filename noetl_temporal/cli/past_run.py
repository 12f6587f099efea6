"""Describes runs from the mirror's tables, if Temporal has removed them or is unreachable."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import UTC, datetime

import asyncpg
from temporalio.converter import DataConverter

from noetl_temporal.cli.describe_run import steps_from_log
from noetl_temporal.cli.event_log import log_connection
from noetl_temporal.cli.log_summary import read_log
from noetl_temporal.cli.logged_run import logged_run
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.inspection.past_reports import past_report, past_run
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.mirror import sql
from noetl_temporal.mirror.read import Execution, steps_of

__all__ = ["describe_past_run"]

PRUNED = "values over 64 KB of this run are gone: they were pruned on"


async def describe_past_run(dsn: str, converter: DataConverter, execution_id: int | None) -> RunSummary | None:
    """Describe a run, or the latest one; None if the log does not have it. Raises DeploymentError."""
    async with log_connection(dsn) as log:
        run = await logged_run(log, execution_id)
        return None if run is None else await _summary(log, converter, run)


async def _summary(log: asyncpg.Connection, converter: DataConverter, execution: Execution) -> RunSummary:
    run = await past_run(log, execution.execution_id)
    status = execution.status.lower()
    pruned_at = await log.fetchval(sql.query("pruned_at"), execution.execution_id)
    report = RunReport(status, execution.execution_id)
    with suppress(LookupError) if pruned_at else nullcontext():
        report = (None if run is None else await past_report(log, converter, run)) or report
    start_time = (execution.start_time or datetime.now()).replace(tzinfo=UTC)
    end_time = execution.end_time.replace(tzinfo=UTC) if execution.end_time else datetime.now(UTC)
    summary = RunSummary(
        execution_id=execution.execution_id,
        workflow_id="" if run is None else run.workflow_id,
        run_id="" if run is None else run.run_id,
        path=execution.path,
        status=status,
        result=report.result,
        steps=report.steps or steps_from_log(await steps_of(log, execution.execution_id), status),
        failures=report.failures,
        rerun_of=str(report.rerun_of or ""),
        rerun_from=report.rerun_from,
        warnings=() if pruned_at is None else (f"{PRUNED} {pruned_at:%Y-%m-%d}",),
        duration_seconds=round((end_time - start_time).total_seconds(), 3),
    )
    return summary if run is None else (await read_log(log, *run, execution.execution_id)).add_to(summary)
