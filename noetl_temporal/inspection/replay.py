"""Replays histories, to check before a deployment whether this build can replay the runs of another build.

A replay feeds a stored history to the workflows, as a worker would, and compares their commands with the history. No
tool is called and nothing is written.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Interceptor, Replayer, UnsandboxedWorkflowRunner

from noetl_temporal.payloads.codec import NO_STORAGE_CODE, header_behavior, replay_converter
from noetl_temporal.payloads.struct_types import prepare_structs
from noetl_temporal.visibility import NOETL_WORKFLOWS, OPEN
from noetl_temporal.workflows.definitions import WORKFLOWS, interceptors

__all__ = [
    "NoHistoryError",
    "ReplayResult",
    "histories_of",
    "open_histories",
    "parse_history",
    "replay",
    "replay_failure",
]

_CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
_STARTED_CHILD = EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
_OPEN = f"{NOETL_WORKFLOWS} AND {OPEN}"

_UNVERIFIED_NAMESPACE = "replay"
"""The namespace of a replay that verifies no signatures."""


class NoHistoryError(ValueError):
    """The text is not the history of a workflow."""


class ReplayResult(NamedTuple):
    """The result of replaying one history. ``problem`` says in one line why it cannot be replayed; None if it can.
    ``events`` is its length.
    """

    workflow_id: str
    run_id: str
    events: int
    problem: str | None


async def replay(history: WorkflowHistory, converter: DataConverter) -> ReplayResult:
    """Replay one run. Signatures are not verified."""
    failure = await replay_failure(history, replay_converter(converter))
    return ReplayResult(history.workflow_id, _run_id(history), len(history.events), failure)


async def replay_failure(
    history: WorkflowHistory,
    converter: DataConverter,
    extra_interceptors: Sequence[Interceptor] = (),
    namespace: str = _UNVERIFIED_NAMESPACE,
) -> str | None:
    """Return why a run cannot be replayed, in one line; None if it can. ``extra_interceptors`` are added to those of
    every worker. If the converter verifies signatures, ``namespace`` must be that of the run.
    """
    prepare_structs()
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=UnsandboxedWorkflowRunner(),
        namespace=namespace,
        interceptors=[*interceptors(), *extra_interceptors],
        data_converter=converter,
        header_codec_behavior=header_behavior(converter),
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = None if result.replay_failure is None else " ".join(str(result.replay_failure).split())
    if failure and NO_STORAGE_CODE in failure:
        failure += " Set NOETL_POSTGRES: the graph and large values are stored there."
    return failure


def parse_history(text: str) -> WorkflowHistory:
    """Return the history in JSON as Temporal's CLI and UI write it. Raises NoHistoryError."""
    try:
        attributes: dict[str, Any] = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
        return WorkflowHistory.from_json(str(attributes.get("workflowId", "")), text)
    except (ValueError, LookupError, TypeError) as error:
        raise NoHistoryError("not a workflow history: write one with `temporal workflow show --output json`") from error


async def histories_of(client: Client, workflow_id: str) -> AsyncIterator[WorkflowHistory]:
    """Yield the histories of a workflow and its descendants that Temporal still has. Raises RPCError."""
    pending = deque([(workflow_id, (await client.get_workflow_handle(workflow_id).describe()).run_id)])
    run_ids = set(pending)
    while pending:
        history = await _history(client, *pending.popleft())
        if history is None:
            continue
        yield history
        links = [run for run in _links(history) if run not in run_ids]
        run_ids.update(links)
        pending += links


async def open_histories(client: Client) -> AsyncIterator[WorkflowHistory]:
    """Yield the histories of all open workflows of playbooks and loops. Raises RPCError."""
    async for workflow in client.list_workflows(_OPEN):
        history = await _history(client, workflow.id, workflow.run_id)
        if history is not None:
            yield history


async def _history(client: Client, workflow_id: str, run_id: str) -> WorkflowHistory | None:
    """Return the history of a run; None if Temporal has removed it."""
    try:
        return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


def _links(history: WorkflowHistory) -> Iterator[tuple[str, str]]:
    """Yield (workflow id, run id) of the runs before and after this one, and of the first runs of its children."""
    previous_run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    if previous_run_id:
        yield history.workflow_id, previous_run_id
    for event in history.events:
        if event.event_type == _STARTED_CHILD:
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            yield child.workflow_id, child.run_id
        elif event.event_type == _CONTINUED:
            yield history.workflow_id, event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id


def _run_id(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.original_execution_run_id
