"""Serves task queues, several in one process: the shared one of workflows and all tools, and each tool's own
(queues.py).

Only processes with all tools poll the shared queue, because a worker fails the calls of tools that it does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from temporalio.client import Client
from temporalio.service import ServiceClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.duckdb.process_pool import pooled_processes
from noetl_activities.postgres.pool import pooled_connections
from noetl_activities.tool import Tool
from noetl_temporal.calls.call_guard import CallGuard
from noetl_temporal.calls.credential_check import credential_activity
from noetl_temporal.calls.heartbeats import HEARTBEAT_INTERVAL
from noetl_temporal.calls.run_tool import tool_activity
from noetl_temporal.frames.activity import frame_activity
from noetl_temporal.messages.frame import FRAME_KIND
from noetl_temporal.naming import WORKFLOW_QUEUE, tool_queue
from noetl_temporal.observability.tracing import tracing_interceptors
from noetl_temporal.payloads.codec import worker_converter
from noetl_temporal.payloads.stored_values import value_activities
from noetl_temporal.payloads.struct_types import prepare_structs
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.worker_options import GRACE, WorkerOptions
from noetl_temporal.workflows.definitions import WORKFLOWS, interceptors
from noetl_temporal.workflows.orphans import orphan_activity
from noetl_temporal.workflows.trail import record_trail

__all__ = [
    "UNTIL_DONE",
    "UnknownToolsError",
    "frame_worker",
    "serving",
    "shared_worker",
    "tool_worker",
    "workflow_worker",
]

Activity: TypeAlias = Callable[..., Any]

DEFAULTS = WorkerOptions()

DRAIN_SECONDS = 0.5
"""How long a stopping process waits for its calls before it starts another worker of workflows for them."""

SETTLE_SECONDS = 1.0
"""How long workflows are served after the last call has ended, so that its run can end."""

CONCURRENT_STORES = 1
"""The number of payloads of a workflow task that are stored concurrently. With more, each payload would need an asyncio
task, and few payloads are stored."""

_log = logging.getLogger(__name__)

UNTIL_DONE = timedelta(days=3650)
"""The default grace period of ``noetl worker``: longer than any call takes."""


class UnknownToolsError(ValueError):
    """No installed tool has this name."""


def workflow_worker(client: Client, options: WorkerOptions = DEFAULTS) -> Worker:
    """Return a worker that runs workflows and calls no tools."""
    return shared_worker(client, {}, [], options)


def tool_worker(
    client: Client,
    tool: Tool,
    source: CredentialSource,
    queue: str | None = None,
    options: WorkerOptions = DEFAULTS,
) -> Worker:
    """Return a worker of one kind of tool, by default for its own queue."""
    activities = [
        tool_activity(tool, source, ValueStore(client.data_converter), client),
        credential_activity(source),
    ]
    return _tool_worker(client, tool.spec.kind, activities, options, queue)


def shared_worker(
    client: Client, tools: Mapping[str, Activity], other_activities: list[Activity], options: WorkerOptions
) -> Worker:
    """Return a worker of the shared queue: it runs workflows, and the calls of ``tools`` that they schedule on the same
    queue start on it immediately.
    """
    prepare_structs()
    return Worker(
        _deferring_client(client),
        task_queue=WORKFLOW_QUEUE,
        workflows=WORKFLOWS,
        activities=[
            record_trail,
            orphan_activity(client),
            *value_activities(ValueStore(client.data_converter)),
            *tools.values(),
            *other_activities,
        ],
        no_remote_activities=not tools,
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[*options.interceptors, *tracing_interceptors(), *interceptors(), CallGuard()],
        max_cached_workflows=1000,
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        max_workflow_task_external_storage_concurrency=CONCURRENT_STORES,
        **options.arguments(tools),
    )


def frame_worker(
    client: Client,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    options: WorkerOptions = DEFAULTS,
) -> Worker:
    """Return a worker of frames, which calls all tools in its own process."""
    activities = [frame_activity(tools, source, ValueStore(client.data_converter)), credential_activity(source)]
    return _tool_worker(client, FRAME_KIND, activities, options)


def _tool_worker(
    client: Client, kind: str, activities: list[Activity], options: WorkerOptions, queue: str | None = None
) -> Worker:
    return Worker(
        _deferring_client(client),
        task_queue=queue or tool_queue(kind),
        activities=activities,
        interceptors=[*options.interceptors, CallGuard()],
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        **options.arguments_of_tool(kind),
    )


def _deferring_client(client: Client) -> Client:
    config = client.config()
    config["data_converter"] = worker_converter(client.data_converter)
    return Client(**config)


def _workers(
    client: Client,
    tools: Mapping[str, Tool],
    only: Collection[str] | None,
    source: CredentialSource,
    options: WorkerOptions,
) -> list[Worker]:
    """Return the workers. One activity of a tool serves both queues, so that its limit (ToolSpec.max_concurrent)
    holds for them together.
    """
    unknown = sorted(set(only or ()) - set(tools))
    if unknown:
        raise UnknownToolsError(f"no tool {', '.join(map(repr, unknown))}: there are {', '.join(sorted(tools))}")
    values = ValueStore(client.data_converter)
    activities = {
        kind: tool_activity(tool, source, values, client)
        for kind, tool in tools.items()
        if only is None or kind in only
    }
    check_credentials = credential_activity(source)
    tool_workers = [
        _tool_worker(client, kind, [call_tool, check_credentials], options) for kind, call_tool in activities.items()
    ]
    if only is not None:
        return tool_workers
    frames = [frame_worker(client, tools, source, options)] if values.is_available else []
    return [shared_worker(client, activities, [check_credentials], options), *frames, *tool_workers]


@asynccontextmanager
async def serving(
    client: Client,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    only: Collection[str] | None = None,
    options: WorkerOptions = DEFAULTS,
) -> AsyncGenerator[None]:
    """Serve task queues while the block runs: by default the shared queue and all others; with ``only``, the own queues
    of these tools. When the block ends, calls in flight have ``options.grace`` to end; those that have not are retried
    by other workers. Until then workflows are served, too: a cancel of such a call comes from its workflow. Raises
    UnknownToolsError.
    """
    workers = _workers(client, tools, only, source, options)
    async with pooled_connections(), pooled_processes(), AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        try:
            yield
        finally:
            await _drain(client, workers, options, serves_workflows=only is None)


async def _drain(
    client: Client, workers: Collection[Worker], options: WorkerOptions, *, serves_workflows: bool
) -> None:
    """Stop all workers at the same time, so that none starts another call while others wait for their last ones.

    If workflows were served, another worker serves them until the last call has ended, as a stopping worker does not
    poll. The SDK allows one worker for each queue and connection, so this one has its own connection.
    """
    stopping = asyncio.gather(*(worker.shutdown() for worker in workers))
    await asyncio.wait([stopping], timeout=DRAIN_SECONDS)
    if stopping.done() or not serves_workflows:
        await stopping
        return
    try:
        config = client.config()
        config["service_client"] = await ServiceClient.connect(client.service_client.config)
        async with workflow_worker(Client(**config), replace(options, grace=GRACE)):
            await asyncio.shield(stopping)
            await asyncio.sleep(SETTLE_SECONDS)
    except RuntimeError as error:
        _log.warning("no workflows are served while calls end: %s", error)
        await stopping
