"""The Python client.

client = await NoetlClient.connect()
handle = await client.submit("playbook.yaml", {"city": "Oslo"})
report = await handle.result()
async for event in handle.events():
    print(event.event_type, event.node_name)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.service import RPCError

from noetl_activities.installed_tools import installed_tools
from noetl_activities.tool import tool_names
from noetl_compiler import CompileError, compile_file
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph, Json
from noetl_temporal.codec import payload_limit
from noetl_temporal.config import connect_temporal
from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import postgres_problem
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.ids import new_execution_id
from noetl_temporal.naming import PLAYBOOK_WORKFLOW, WORKFLOW_QUEUE, keyword, summary, workflow_id
from noetl_temporal.queues import resolved_queues
from noetl_temporal.run_input import Playbook, RunInput, RunReport
from noetl_temporal.runs import NoEventLogError, RequestRefusedError, RunHandle, Runs, UnknownRunError
from noetl_temporal.search_attributes import EXECUTION_ID, PATH, STATUS, VERSION
from noetl_temporal.temporal_problems import rpc_problem
from noetl_temporal.unsupported import UnsupportedError, unsupported

__all__ = ["NoEventLogError", "NoetlClient", "RequestRefusedError", "RunHandle", "UnknownRunError"]


class NoetlClient(Runs):
    """Submits playbooks. ``tools`` are the kinds of tools that they may use, by default those installed here."""

    def __init__(self, temporal: Client, dsn: str | None, tools: Collection[str]) -> None:
        super().__init__(temporal, dsn)
        self._tools = tools

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        namespace: str | None = None,
        dsn: str | None = None,
        tools: Collection[str] | None = None,
    ) -> NoetlClient:
        """As Runs.connect."""
        temporal = await connect_temporal(address, namespace, dsn)
        return cls(temporal, dsn or dsn_from_environment(), tool_names() if tools is None else tools)

    @property
    def has_store(self) -> bool:
        """Whether large values can be stored in Postgres."""
        return self.temporal.data_converter.external_storage is not None

    async def submit(
        self,
        playbook: str | Path | Graph,
        payload: dict[str, Json] | None = None,
        *,
        content: str | None = None,
        queues: Mapping[str, str] | None = None,
        execution_timeout: timedelta | None = None,
        execution_id: int | None = None,
    ) -> RunHandle:
        """Start a run. ``playbook`` is a file's path or a compiled graph (then ``content`` is its text).

        ``queues`` maps kinds of tools to task queues; NOETL_TOOL_QUEUES applies to the others (queues.py).
        ``execution_id`` is a result of ``new_execution_id``, for callers that need it before the run starts.

        Raises CompileError, UnsupportedError or DeploymentError before anything has started."""
        graph, text = (playbook, content or "") if isinstance(playbook, Graph) else _compile(Path(playbook))
        problems = unsupported(graph, self._tools, has_store=self.has_store)
        if problems:
            raise UnsupportedError(problems)
        execution_id = execution_id or new_execution_id()
        limit = payload_limit(self.temporal.data_converter)
        named = graph.source.path, graph.source.version, graph.digest
        given = RunInput(execution_id, *named, payload or {}, resolved_queues(graph, queues or {}), limit=limit)
        try:
            handle = await self._start(given, Playbook(graph, text), execution_timeout)
        except RPCError as error:
            raise rpc_problem(error, self.temporal.namespace) or error from error
        except DATABASE_ERRORS as error:  # where the graph is kept
            raise postgres_problem(error, self.dsn or "") from error
        return RunHandle(self.temporal, handle, execution_id, self.dsn)

    async def _start(
        self, given: RunInput, playbook: Playbook, execution_timeout: timedelta | None
    ) -> WorkflowHandle[Any, RunReport]:
        source = playbook.graph.source
        return await self.temporal.start_workflow(
            PLAYBOOK_WORKFLOW,
            args=[given, playbook],
            id=workflow_id(source.path, given.execution_id),
            task_queue=WORKFLOW_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(PATH, keyword(source.path)),
                    SearchAttributePair(VERSION, keyword(source.version)),
                    SearchAttributePair(STATUS, "running"),
                    SearchAttributePair(EXECUTION_ID, given.execution_id),
                ]
            ),
            static_summary=summary(f"playbook {source.name}"),
            static_details=f"`{source.file}`, dialect {source.dialect}, graph `{given.digest[:12]}`",
            execution_timeout=execution_timeout,
            result_type=RunReport,
        )


def _compile(path: Path) -> tuple[Graph, str]:
    result = compile_file(path, installed_tools())
    if result.graph is None:
        raise CompileError(tuple(one for one in result.diagnostics if one.severity is Severity.ERROR))
    return result.graph, result.source.text
