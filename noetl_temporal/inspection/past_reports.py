"""Reads the reports of runs that Temporal does not have any more.

The report is in the event that closed the run, which noetl.history stores unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

import asyncpg
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter, WorkflowSerializationContext

from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.mirror import sql

__all__ = ["PastRun", "past_report", "past_run"]

_CLOSING_EVENT = """
SELECT proto FROM noetl.history WHERE (namespace, workflow_id, run_id) = ($1, $2, $3) ORDER BY event_id DESC LIMIT 1
"""


class PastRun(NamedTuple):
    """The ids of the last run of a playbook's workflow in Temporal."""

    namespace: str
    workflow_id: str
    run_id: str


async def past_run(log: asyncpg.Connection, execution_id: int) -> PastRun | None:
    """Return the last run of the workflow; None if the log does not have it. Raises asyncpg's errors."""
    record = await log.fetchrow(sql.query("latest_run"), execution_id)
    return None if record is None else PastRun(*record)


async def past_report(log: asyncpg.Connection, converter: DataConverter, run: PastRun) -> RunReport | None:
    """Return the report with which the run ended; None if it still runs or ended without a report."""
    proto = await log.fetchval(_CLOSING_EVENT, *run)
    payload = None if proto is None else _report_payload(HistoryEvent.FromString(proto))
    if payload is None:
        return None
    context = WorkflowSerializationContext(namespace=run.namespace, workflow_id=run.workflow_id)
    report: RunReport = (await converter.with_context(context).decode([payload], [RunReport]))[0]
    return report


def _report_payload(closing_event: HistoryEvent) -> Payload | None:
    match closing_event.WhichOneof("attributes"):
        case "workflow_execution_completed_event_attributes":
            payloads = closing_event.workflow_execution_completed_event_attributes.result.payloads
        case "workflow_execution_failed_event_attributes":
            failure = closing_event.workflow_execution_failed_event_attributes.failure
            payloads = failure.application_failure_info.details.payloads
        case _:
            return None
    return payloads[0] if payloads else None
