"""What the activities of a run reported, as it stands in history."""

from __future__ import annotations

from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from noetl_temporal.client import RunHandle
from noetl_temporal.codec import data_converter
from noetl_temporal.machine.call import ToolReport

__all__ = ["reports_in", "reports_of"]


async def reports_of(handle: RunHandle, dsn: str) -> list[ToolReport]:
    """The reports in the order in which the calls ended; the large ones lie in ``dsn``."""
    return await reports_in(handle.workflow, dsn)


async def reports_in(workflow: WorkflowHandle[Any, Any], dsn: str) -> list[ToolReport]:
    """The same of any workflow, such as that of a loop."""
    found: list[ToolReport] = []
    converter = data_converter(dsn)
    async for event in workflow.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            payloads = event.activity_task_completed_event_attributes.result.payloads
            found += await converter.decode(payloads, [ToolReport])
    return found
