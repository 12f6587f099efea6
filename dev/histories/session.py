"""A run that is recorded: its tools, whose results follow from their message, and the operations of scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, cast

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowHandle

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, Tool, ToolContext
from noetl_compiler.graph import Graph
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.submission.schedule_types import CATCH_UP, ScheduleTimes
from noetl_temporal.submission.schedules import TemporalSchedules
from noetl_temporal.worker import tool_worker
from noetl_temporal.worker_options import WorkerOptions

__all__ = ["KINDS", "Session", "running"]

KINDS = ("http", "noop", "postgres", "python")
PAGES = 3
WAIT_SECONDS = 60.0
GRACE = timedelta(seconds=0.1)


class Session:
    """Its tools are those of KINDS; each serves a queue of this run alone."""

    def __init__(self, client: NoetlClient, source: CredentialSource, name: str) -> None:
        self.client = client
        self.gate = asyncio.Event()
        self._source = source
        self._name = name
        self._messages: list[str] = []
        self._rows = [{"id": 1}, {"id": 2}]
        self._called = asyncio.Condition()
        self._workers = AsyncExitStack()
        self._handle: RunHandle | None = None

    # ---- the run --------------------------------------------------------------------------------------------------

    @property
    def queues(self) -> dict[str, str]:
        return {kind: f"replay-{kind}-{self._name}" for kind in KINDS}

    async def submit(self, graph: Graph) -> None:
        """Start the run of a playbook, which may call itself."""
        playbooks = {graph.source.path: graph}
        self._handle = await self.client.submit(graph, content="", playbooks=playbooks, queues=self.queues)

    async def schedule(self, graph: Graph) -> None:
        """Start the run by a schedule."""
        schedules, source = TemporalSchedules(self.client.temporal), graph.source
        run_input = RunInput(0, source.path, source.version, graph.digest, queues=self.queues, schedule=self._name)
        await schedules.add(
            run_input,
            Playbook(graph, ""),
            1,
            ScheduleTimes(cron=("0 0 29 2 *",)),
            follows=False,
            overlap="skip",
            catch_up=CATCH_UP,
            is_paused=False,
        )
        await schedules.trigger(self._name)
        async with asyncio.timeout(WAIT_SECONDS):
            runs = (await schedules.get(self._name)).runs
            while not runs or runs[0].execution_id is None:
                await asyncio.sleep(0.1)
                runs = (await schedules.get(self._name)).runs
        self._handle = await self.client.handle(runs[0].workflow_id)

    @property
    def handle(self) -> RunHandle:
        assert self._handle is not None
        return self._handle

    def loop(self, step: str, number: int = 1) -> WorkflowHandle[Any, Any]:
        """Return the workflow of a loop in the step run with this number."""
        return self.client.temporal.get_workflow_handle(f"{self.handle.workflow_id}/{step}/{number}")

    async def wait_for_calls(self, message: str, count: int = 1) -> None:
        """Wait until tools have been called ``count`` times with this message."""
        async with self._called:
            await asyncio.wait_for(self._called.wait_for(lambda: self._messages.count(message) >= count), WAIT_SECONDS)

    async def wait_for_event(self, kind: str, workflow: WorkflowHandle[Any, Any] | None = None) -> int:
        """Wait until a history, by default the playbook's, has an event of this type; return its id."""
        event_type = EventType.Value(f"EVENT_TYPE_{kind}")
        async with asyncio.timeout(WAIT_SECONDS):
            async for event in (workflow or self.handle.workflow).fetch_history_events(wait_new_event=True):
                if event.event_type == event_type:
                    return event.event_id
        raise AssertionError(f"the run has ended without {kind}")

    async def wait_until_holding(self) -> None:
        """Wait until the run holds, so that it can continue as new when its calls in flight have ended."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (await self.handle.workflow.query("state")).get("is_idling"):  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.1)

    async def reset(self, event_id: int) -> None:
        """Reset the run to this completed workflow task, as a person does in the UI."""
        temporal = self.client.temporal
        run = await self.handle.workflow.describe()
        await temporal.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=run.run_id),
                reason="recorded",
                workflow_task_finish_event_id=event_id,
                request_id=f"reset-{run.run_id}",
            )
        )

    # ---- its tools ------------------------------------------------------------------------------------------------

    async def start_workers(self) -> None:
        """Start the workers of the tools."""
        for kind, queue in self.queues.items():
            tool: Tool = FakeTool(kind, self._respond)
            worker = tool_worker(
                self.client.temporal, tool, self._source, queue=queue, options=WorkerOptions(grace=GRACE)
            )
            await self._workers.enter_async_context(worker)

    async def stop_workers(self) -> None:
        """Stop the workers of the tools, and wait for their end."""
        await self._workers.aclose()

    async def _respond(self, request: Request, context: ToolContext) -> Any:
        message = request.config.get("message", "")
        async with self._called:
            self._messages.append(str(message))
            self._called.notify_all()
        if request.kind == "http" or "query" in request.config:
            return _page(request) if request.kind == "http" else self._statement(request)
        match message:
            case "broken":
                return _error("it is broken", retryable=False)
            case "busy" if context.attempt < 3:
                return _error("busy", retryable=True)
            case "down":
                return _error("down", retryable=True)
            case "attempt":
                return {"attempt": context.attempt}
            case "slow":
                await asyncio.sleep(0.3)
            case "gate":
                await self.gate.wait()
            case "lost" if context.attempt == 1:
                block_process()
            case "wait":
                await asyncio.Event().wait()
            case _:
                pass
        return message

    def _statement(self, request: Request) -> dict[str, Any]:
        """The first claim of a cursor finds two rows."""
        is_claim = str(request.config["query"]).startswith("claim")
        if not is_claim:
            return {"rows": [], "columns": [], "row_count": 1}
        rows, self._rows = self._rows, []
        return {"rows": rows, "columns": ["id"], "row_count": len(rows)}


def block_process() -> None:
    """Block this process, heartbeats included, until Temporal considers its calls lost."""
    time.sleep(2.5)


def _error(message: str, *, retryable: bool) -> Outcome:
    return Outcome("error", error=ErrorInfo("test", message, retryable=retryable))


def _page(request: Request) -> dict[str, Any]:
    params = cast("dict[str, Any]", request.config.get("params") or {})
    page = int(params.get("page", 1))
    body = {"items": [page * 10, page * 10 + 1], "more": page < PAGES, "page": page, "flag": page == 1}
    return {"status_code": 200, "headers": {}, "url": "http://api.test/items", "elapsed": 0, "data": body}


@asynccontextmanager
async def running(
    client: NoetlClient, source: CredentialSource, name: str, graph: Graph, *, scheduled: bool = False
) -> AsyncGenerator[Session]:
    """Start a run whose tools are served inside the block."""
    session = Session(client, source, name)
    await session.start_workers()
    try:
        await (session.schedule if scheduled else session.submit)(graph)
        yield session
    finally:
        session.gate.set()
        await session.stop_workers()
