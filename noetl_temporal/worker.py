"""Serves task queues, several in one process: one that workflows and all tools share, and each tool's own (queues.py).

Only workers with all tools poll the shared queue, because a worker fails calls of tools that it does not have.
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
from noetl_activities.duckdb_process_pool import pooled_processes
from noetl_activities.postgres_pool import pooled_connections
from noetl_activities.tool import Tool
from noetl_temporal.call_guard import CallGuard
from noetl_temporal.codec import worker_converter
from noetl_temporal.credential_check import credential_activity
from noetl_temporal.frames.activity import frame_activity
from noetl_temporal.frames.wire import FRAME_KIND
from noetl_temporal.heartbeats import HEARTBEAT_INTERVAL
from noetl_temporal.naming import WORKFLOW_QUEUE, tool_queue
from noetl_temporal.orphans import orphan_activity
from noetl_temporal.run_tool import tool_activity
from noetl_temporal.stored_values import value_activities
from noetl_temporal.struct_types import prepare_structs
from noetl_temporal.tracing import tracing_interceptors
from noetl_temporal.trail import record_trail
from noetl_temporal.value_store import ValueStore
from noetl_temporal.worker_options import GRACE, WorkerOptions
from noetl_temporal.workflows import WORKFLOWS, interceptors

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
"""How long calls may take to end before workflows are served for them."""

SETTLE_SECONDS = 1.0
"""How long workflows are served after the last call has ended, as its run may end then."""

STORED_AT_ONCE = 1
"""Payloads of a workflow task. With more, each payload would need an asyncio task, and few are stored."""

_log = logging.getLogger(__name__)

UNTIL_DONE = timedelta(days=3650)
"""The default grace of ``noetl worker``: as long as any call may take."""


class UnknownToolsError(ValueError):
    """No installed tool has this name: see `noetl worker --help` for those there are."""


def workflow_worker(client: Client, options: WorkerOptions = DEFAULTS) -> Worker:
    """Return the worker that interprets playbooks and calls no tools."""
    return shared_worker(client, {}, [], options)


def tool_worker(
    client: Client,
    tool: Tool,
    source: CredentialSource,
    queue: str | None = None,
    options: WorkerOptions = DEFAULTS,
) -> Worker:
    """Return the worker of one tool kind, by default on its own queue."""
    run = tool_activity(tool, source, ValueStore(client.data_converter), client)
    activities = [run, credential_activity(source)]
    return _tool_worker(client, tool.spec.kind, activities, options, queue)


def shared_worker(
    client: Client, tools: Mapping[str, Activity], other_activities: list[Activity], options: WorkerOptions
) -> Worker:
    """Return the worker that runs playbooks. Calls on the same queue start on it immediately."""
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
        max_workflow_task_external_storage_concurrency=STORED_AT_ONCE,
        **options.arguments(tools),
    )


def frame_worker(
    client: Client,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    options: WorkerOptions = DEFAULTS,
) -> Worker:
    """Return the worker of frames, which calls all tools in its own process."""
    run = frame_activity(tools, source, ValueStore(client.data_converter))
    return _tool_worker(client, FRAME_KIND, [run, credential_activity(source)], options)


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
    check = credential_activity(source)
    tool_workers = [_tool_worker(client, kind, [run, check], options) for kind, run in activities.items()]
    if only is not None:
        return tool_workers
    frames = [frame_worker(client, tools, source, options)] if values.is_available else []
    return [shared_worker(client, activities, [check], options), *frames, *tool_workers]


@asynccontextmanager
async def serving(
    client: Client,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    only: Collection[str] | None = None,
    options: WorkerOptions = DEFAULTS,
) -> AsyncGenerator[None]:
    """Serve while the block runs. ``only`` these tools, each on its own queue; by default everything, on the shared
    queue as well. When the block ends, calls in flight have ``options.grace`` to end; one that has not is run again
    elsewhere. Until then workflows are served: a cancel of one of those calls comes from its workflow. Raises
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
    """Stop all workers at once, so that none starts another call while one waits for its last.

    If workflows are served, another worker serves them until the last call has ended, as a worker that stops polls
    nothing. The SDK allows one worker for each queue and connection, so this one has a connection of its own.
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
