"""What the activities of a run reported, as it stands in history."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from noetl_temporal.client import RunHandle
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.machine.stored import with_stored
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.stored_values import load_result
from noetl_temporal.payloads.value_store import ValueStore

__all__ = ["reports_in", "reports_of"]


async def reports_of(handle: RunHandle, dsn: str) -> list[ToolReport]:
    """The reports in the order in which the calls ended, with their results; the large ones are stored in ``dsn``."""
    return await reports_in(handle.workflow, dsn)


async def reports_in(workflow: WorkflowHandle[Any, Any], dsn: str) -> list[ToolReport]:
    """The same of any workflow, such as that of a loop."""
    reports: list[ToolReport] = []
    converter = data_converter(dsn)
    async for event in workflow.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            payloads = event.activity_task_completed_event_attributes.result.payloads
            [report] = await converter.decode(payloads, [ToolReport])
            outcome = with_stored(report.outcome, report.stored)
            reports.append(replace(report, outcome=await load_result(outcome, ValueStore(converter))))
    return reports
