"""The Python client.

client = await NoetlClient.connect()
handle = await client.submit("playbook.yaml", {"city": "Oslo"})
report = await handle.wait()
async for event in handle.events():
    print(event.event_type, event.node_name)
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from noetl_activities.installed_tools import installed_tools
from noetl_activities.tool import tool_names
from noetl_compiler import CompileError
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls, has_calls
from noetl_temporal.codec import payload_limit
from noetl_temporal.compiling import compile_to_run
from noetl_temporal.config import connect_temporal
from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import postgres_problem
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.ids import new_execution_id
from noetl_temporal.naming import PLAYBOOK_WORKFLOW, WORKFLOW_QUEUE, workflow_id
from noetl_temporal.queues import resolved_queues
from noetl_temporal.run_input import Playbook, RunInput, RunReport
from noetl_temporal.runs import (
    AmbiguousIdError,
    ListedRun,
    NoEventLogError,
    RequestRefusedError,
    RunHandle,
    Runs,
    RunStatus,
    UnknownRunError,
)
from noetl_temporal.search_attributes import attributes_of_run
from noetl_temporal.submissions import KeyTakenError, Submission, claim, digest_of, note_started
from noetl_temporal.temporal_problems import rpc_problem
from noetl_temporal.ui_summary import playbook_details, playbook_summary
from noetl_temporal.unsupported import UnsupportedError, check_calls

__all__ = [
    "AmbiguousIdError",
    "KeyTakenError",
    "ListedRun",
    "NoEventLogError",
    "NoetlClient",
    "RequestRefusedError",
    "RunHandle",
    "RunStatus",
    "UnknownRunError",
]


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
        catalog: str | Path | Mapping[str, Graph] | PinnedCalls | None = None,
        queues: Mapping[str, str] | None = None,
        execution_timeout: timedelta | None = None,
        execution_id: int | None = None,
        key: str | None = None,
    ) -> RunHandle:
        """Start a run. ``playbook`` is a file's path or a compiled graph (then ``content`` is its text). Code that lies
        elsewhere is fetched for a file; a graph has what was fetched when it was compiled.

        ``catalog`` has the playbooks that it may call: a folder, by default that of the file; or compiled graphs by the
        names under which they are called.
        ``queues`` maps kinds of tools to task queues; NOETL_TOOL_QUEUES applies to the others (queues.py).
        ``execution_id`` is a result of ``new_execution_id``, for callers that need it before the run starts.
        With a ``key``, the first with this key for the playbook's path makes the run, and later ones return it, also
        after it has ended. That needs an event log.

        Raises CompileError, UnsupportedError, DeploymentError, NoEventLogError or, for a key that belongs to another
        playbook or payload, KeyTakenError before anything has started."""
        if isinstance(playbook, Graph):
            graph, text = playbook, content or ""
        else:  # in a thread, as scripts are fetched
            graph, text = await asyncio.to_thread(_compile, Path(playbook), payload or {})
        calls = NO_CALLS
        if has_calls(graph):
            calls = _pinned(catalog, None if isinstance(playbook, Graph) else Path(playbook))
        calls, problems = check_calls(graph, calls, self._tools, has_store=self.has_store)
        if problems:
            raise UnsupportedError(problems)
        execution_id = execution_id or new_execution_id()
        limit = payload_limit(self.temporal.data_converter)
        named = graph.source.path, graph.source.version, graph.digest
        real_queues = resolved_queues([graph, *calls.graphs], queues or {})
        given = RunInput(execution_id, *named, payload or {}, real_queues, limit=limit)
        playbook_given = Playbook(graph, text, calls)
        try:
            if key is not None:
                return await self._submit_once(key, given, playbook_given, execution_timeout)
            handle = await self._start(given, playbook_given, execution_timeout)
        except RPCError as error:
            raise rpc_problem(error, self.temporal.namespace) or error from error
        except DATABASE_ERRORS as error:  # where the graph is kept
            raise postgres_problem(error, self.dsn or "") from error
        return RunHandle(self.temporal, handle, execution_id, self.dsn, is_new=True)

    async def _submit_once(
        self, key: str, given: RunInput, playbook: Playbook, execution_timeout: timedelta | None
    ) -> RunHandle:
        """The run of the key. Everybody starts it until Temporal has confirmed it to one of them; it lets only one."""
        if self.dsn is None:
            raise NoEventLogError("a key needs an event log: set NOETL_POSTGRES to the DSN of its Postgres")
        submission = Submission(
            self.temporal.namespace,
            given.path,
            key,
            digest_of(playbook.content or given.digest),
            digest_of(given.payload),
        )
        mine = given.execution_id
        found = await claim(self.dsn, submission, mine)
        if not found.is_started:
            with suppress(WorkflowAlreadyStartedError):
                given = msgspec.structs.replace(given, execution_id=found.execution_id)
                await self._start(given, playbook, execution_timeout)
            await note_started(self.dsn, submission)
        workflow = self._workflow(workflow_id(given.path, found.execution_id))
        is_new = found.execution_id == mine
        return RunHandle(self.temporal, workflow, found.execution_id, self.dsn, is_new=is_new)

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
            search_attributes=attributes_of_run(source.path, source.version, given.execution_id),
            static_summary=playbook_summary(playbook.graph),
            static_details=playbook_details(playbook.graph),
            execution_timeout=execution_timeout,
            result_type=RunReport,
        )


def _compile(path: Path, payload: Mapping[str, Json]) -> tuple[Graph, str]:
    result = compile_to_run(path, payload)
    if result.graph is None:
        raise CompileError(tuple(one for one in result.diagnostics if one.severity is Severity.ERROR))
    return result.graph, result.source.text


def _pinned(catalog: str | Path | Mapping[str, Graph] | PinnedCalls | None, file: Path | None) -> PinnedCalls:
    """The playbooks that may be called. Raises CompileError."""
    from noetl_compiler.pinning import pin_file, pin_graphs

    match catalog:
        case PinnedCalls():
            return catalog
        case Mapping():
            return pin_graphs(catalog.items())
        case _ if file is None:
            if catalog is not None:
                raise ValueError("a folder as catalog needs the playbook's file: a compiled graph takes graphs by name")
            return NO_CALLS
        case _:
            calls, problems = pin_file(file, file.parent if catalog is None else Path(catalog), installed_tools())
    if problems:
        errors = (one for result in problems for one in result.diagnostics if one.severity is Severity.ERROR)
        raise CompileError(tuple(errors))
    return calls
