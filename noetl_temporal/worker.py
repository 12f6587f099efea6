"""Serves task queues: one Temporal worker for the workflows and one for each tool kind, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from noetl_activities.credentials import CredentialSource
from noetl_activities.tool import Tool
from noetl_temporal.attempt_log import BEAT
from noetl_temporal.codec import activity_converter
from noetl_temporal.frames.activity import frame_activity
from noetl_temporal.frames.wire import FRAME_KIND
from noetl_temporal.naming import WORKFLOW_QUEUE, tool_queue
from noetl_temporal.run_tool import tool_activity
from noetl_temporal.trail import TrailInterceptor, record_trail
from noetl_temporal.value_store import ValueStore
from noetl_temporal.workflows import LoopWorkflow, PlaybookWorkflow

__all__ = ["GRACE", "UNTIL_DONE", "UnknownToolsError", "frame_worker", "serving", "tool_worker", "workflow_worker"]

GRACE = timedelta(seconds=10)
"""How long calls in flight may go on when a worker is asked to stop that serves only for a while."""

UNTIL_DONE = timedelta(days=3650)
"""As long as any call may take: the grace of ``noetl worker``, unless it is told another."""


class UnknownToolsError(ValueError):
    """No installed tool has this name: see `noetl worker --help` for those there are."""


def workflow_worker(client: Client, queue: str = WORKFLOW_QUEUE, build: WorkerDeploymentConfig | None = None) -> Worker:
    """The worker that interprets playbooks; of a ``build``, if it is to serve runs of that one alone."""
    return Worker(
        client,
        task_queue=queue,
        workflows=[PlaybookWorkflow, LoopWorkflow],
        activities=[record_trail],
        no_remote_activities=True,
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[TrailInterceptor()],
        max_cached_workflows=1000,
        deployment_config=build,
    )


def tool_worker(
    client: Client,
    tool: Tool,
    source: CredentialSource,
    queue: str | None = None,
    grace: timedelta = GRACE,
    build: WorkerDeploymentConfig | None = None,
) -> Worker:
    """The worker of one tool kind."""
    config = client.config()
    config["data_converter"] = activity_converter(client.data_converter)
    return Worker(
        Client(**config),
        task_queue=queue or tool_queue(tool.spec.kind),
        activities=[tool_activity(tool, source, ValueStore(client.data_converter))],
        graceful_shutdown_timeout=grace,
        max_heartbeat_throttle_interval=BEAT,
        deployment_config=build,
    )


def frame_worker(
    client: Client,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    grace: timedelta = GRACE,
    build: WorkerDeploymentConfig | None = None,
) -> Worker:
    """The worker of frames, which calls all tools in its own process."""
    config = client.config()
    config["data_converter"] = activity_converter(client.data_converter)
    return Worker(
        Client(**config),
        task_queue=tool_queue(FRAME_KIND),
        activities=[frame_activity(tools, source, ValueStore(client.data_converter))],
        graceful_shutdown_timeout=grace,
        max_heartbeat_throttle_interval=BEAT,
        deployment_config=build,
    )


def _workers(
    client: Client,
    tools: Mapping[str, Tool],
    only: Collection[str] | None,
    source: CredentialSource,
    grace: timedelta,
    build: WorkerDeploymentConfig | None,
) -> list[Worker]:
    unknown = sorted(set(only or ()) - set(tools))
    if unknown:
        raise UnknownToolsError(f"no tool {', '.join(map(repr, unknown))}: there are {', '.join(sorted(tools))}")
    chosen = [tool for kind, tool in tools.items() if only is None or kind in only]
    workers = [tool_worker(client, tool, source, grace=grace, build=build) for tool in chosen]
    if only is not None:
        return workers
    has_store = client.data_converter.external_storage is not None
    frames = [frame_worker(client, tools, source, grace=grace, build=build)] if has_store else []
    return [workflow_worker(client, build=build), *frames, *workers]


@asynccontextmanager
async def serving(
    client: Client,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    only: Collection[str] | None = None,
    grace: timedelta = GRACE,
    build: WorkerDeploymentConfig | None = None,
) -> AsyncGenerator[None]:
    """Serve while the block runs. ``only`` these tools and no workflows; by default everything. When the block ends,
    calls in flight have ``grace`` to end; one that has not is run again elsewhere. A ``build`` (versioning.py) serves
    its own runs alone. Raises UnknownToolsError.
    """
    workers = _workers(client, tools, only, source, grace, build)
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        try:
            yield
        finally:  # all at once: none takes another call while one waits for its last
            await asyncio.gather(*(worker.shutdown() for worker in workers))
