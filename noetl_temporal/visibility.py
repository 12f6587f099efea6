"""Filters for Temporal's lists of workflows, and the execution ids of listed workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW
from noetl_temporal.search_attributes import EXECUTION_ID

__all__ = ["NOETL_WORKFLOWS", "OPEN", "PLAYBOOKS", "execution_ids", "literal"]

CONCURRENT_REQUESTS = 20
"""The number of workflows that are described concurrently."""

NOETL_WORKFLOWS = f"WorkflowType IN ('{PLAYBOOK_WORKFLOW}', '{LOOP_WORKFLOW}')"
"""Workflows of playbooks and of the chunks of loops."""

PLAYBOOKS = f"WorkflowType = '{PLAYBOOK_WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'"
"""Runs of playbooks. A run that was reset is listed more than once."""

OPEN = "CloseTime IS NULL"
"""Workflows that have not ended. The status Running would exclude those that are paused in Temporal."""


def literal(text: str) -> str:
    """Return the text as a string literal of a filter."""
    content = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{content}'"


async def execution_ids(client: Client, workflows: Iterable[WorkflowExecution]) -> list[tuple[int, WorkflowExecution]]:
    """Return the workflows that have an execution id, with it. Lists return numbers as doubles, which are not exact, so
    each workflow is described. Raises RPCError.
    """
    slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def describe(workflow: WorkflowExecution) -> int | None:
        async with slots:
            try:
                description = await client.get_workflow_handle(workflow.id, run_id=workflow.run_id).describe()
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return None  # it was removed after it was listed
        return description.typed_search_attributes.get(EXECUTION_ID)

    workflows = list(workflows)
    ids = await asyncio.gather(*map(describe, workflows))
    return [(id_, workflow) for id_, workflow in zip(ids, workflows, strict=True) if id_ is not None]
