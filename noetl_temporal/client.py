"""The Python client.

client = await NoetlClient.connect()
handle = await client.submit("playbook.yaml", {"city": "Oslo"})
report = await handle.wait()
async for event in handle.events():
    print(event.event_type, event.node_name)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from noetl_activities.tool import tool_kinds
from noetl_compiler.graph import Json
from noetl_temporal.config import connect_temporal
from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import postgres_error
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.ids import new_execution_id
from noetl_temporal.messages.run_input import Playbook, RunInput, RunReport
from noetl_temporal.naming import PLAYBOOK_WORKFLOW, WORKFLOW_QUEUE, workflow_id
from noetl_temporal.observability.tracing import submission_span
from noetl_temporal.payloads.codec import payload_limit
from noetl_temporal.payloads.value_store import ValueStore
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
from noetl_temporal.submission.catalog_client import PlaybookCatalog
from noetl_temporal.submission.catalog_store import CatalogEntry, RegisteredVersion, UnknownPlaybookError
from noetl_temporal.submission.preparation import CalledPlaybooks, Preparation, SubmittedPlaybook
from noetl_temporal.submission.request_check import PayloadError, check_payload
from noetl_temporal.submission.schedule_client import MovedSchedule, PlaybookSchedules
from noetl_temporal.submission.schedule_types import PlaybookSchedule, ScheduleError
from noetl_temporal.submission.stored_request import store_large_lists
from noetl_temporal.submission.submissions import KeyTakenError, Submission, claim_key, digest_of, record_start
from noetl_temporal.submission.unsupported import UnsupportedError
from noetl_temporal.temporal_errors import rpc_error
from noetl_temporal.workflows.priorities import priority_of
from noetl_temporal.workflows.ui_summary import playbook_details, playbook_summary

if TYPE_CHECKING:  # imports what only workers need otherwise
    from noetl_temporal.inspection.earlier_run import EarlierRun

__all__ = [
    "AmbiguousIdError",
    "CatalogEntry",
    "KeyTakenError",
    "ListedRun",
    "MovedSchedule",
    "NoEventLogError",
    "NoetlClient",
    "PayloadError",
    "PlaybookSchedule",
    "RegisteredVersion",
    "Registration",
    "RequestRefusedError",
    "RunHandle",
    "RunStatus",
    "ScheduleError",
    "UnknownPlaybookError",
    "UnknownRunError",
    "UnsupportedError",
]


class Registration(NamedTuple):
    """The result of registering playbooks. ``moved`` are the schedules that follow their paths and had an older
    version.
    """

    playbooks: Sequence[RegisteredVersion]
    moved: Sequence[MovedSchedule]


class NoetlClient(Runs):
    """Submits playbooks. ``tools`` are the kinds of tools that they may use, by default those installed here."""

    def __init__(self, temporal: Client, dsn: str | None, tools: Collection[str]) -> None:
        super().__init__(temporal, dsn)
        self.catalog = PlaybookCatalog(dsn)
        self._preparation = Preparation(self.catalog, temporal.data_converter, tools)
        self.schedules = PlaybookSchedules(temporal, self._preparation)

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        namespace: str | None = None,
        dsn: str | None = None,
        tools: Collection[str] | None = None,
    ) -> NoetlClient:
        """Connect to Temporal: see Runs.connect."""
        temporal = await connect_temporal(address, namespace, dsn)
        return cls(temporal, dsn or dsn_from_environment(), tool_kinds() if tools is None else tools)

    @property
    def has_store(self) -> bool:
        """Whether large values can be stored in Postgres."""
        return self.temporal.data_converter.external_storage is not None

    async def register(self, *paths: str | Path) -> Registration:
        """Register the playbooks in files and in folders, searched recursively: all or none. The same text is the same
        version. Schedules that follow their paths move to the newest versions.

        Raises CompileError with the errors of all files, ValueError where there is no playbook, NoEventLogError,
        DeploymentError."""
        playbooks = await self.catalog.register(paths)
        return Registration(playbooks, await self.schedules.move_to_newest(playbooks))

    async def submit(
        self,
        playbook: SubmittedPlaybook,
        payload: dict[str, Json] | None = None,
        *,
        content: str | None = None,
        playbooks: CalledPlaybooks = None,
        queues: Mapping[str, str] | None = None,
        execution_timeout: timedelta | None = None,
        execution_id: int | None = None,
        key: str | None = None,
    ) -> RunHandle:
        """Start a run. ``playbook`` is a file's path, a compiled graph (then ``content`` is its text), or a version of
        the catalog, such as ``await client.catalog.get("etl/load", 3)``. Code in other files is fetched for a file
        and for a version; a graph has what was fetched when it was compiled.

        ``playbooks`` are those that a file or a graph may call: a folder, by default that of the file; or
        compiled graphs by the names under which they are called. A version calls the playbooks of the catalog.
        ``queues`` maps kinds of tools to task queues; NOETL_TOOL_QUEUES applies to the others (queues.py).
        ``execution_id`` is a result of ``new_execution_id``, for callers that need it before the run starts. With a
        ``key``, the first submission with this key for the playbook's path starts the run; later ones return that run,
        even after it has ended. This needs an event log.

        Raises PayloadError, CompileError, UnsupportedError, DeploymentError, NoEventLogError or, for a key that belongs
        to another playbook or payload, KeyTakenError before anything has started."""
        request = payload or {}
        check_payload(request, payload_limit(self.temporal.data_converter))
        playbook_input = await self._preparation.prepare(playbook, request, content=content, playbooks=playbooks)
        execution_id = execution_id or new_execution_id()
        run_input = self._preparation.run_input(playbook_input, request, execution_id, queues or {})
        return await self._start_run(run_input, playbook_input, execution_timeout, key)

    async def _start_run(
        self, run_input: RunInput, playbook: Playbook, execution_timeout: timedelta | None, key: str | None = None
    ) -> RunHandle:
        try:
            if key is not None:
                return await self._submit_once(key, run_input, playbook, execution_timeout)
            handle = await self._start_workflow(run_input, playbook, execution_timeout)
        except RPCError as error:
            raise rpc_error(error, self.temporal.namespace) or error from error
        except DATABASE_ERRORS as error:  # the graph is stored there
            raise postgres_error(error, self.dsn or "") from error
        return RunHandle(self.temporal, handle, run_input.execution_id, self.dsn, is_new=True)

    async def rerun(
        self,
        run: int | str,
        from_step: str,
        *,
        queues: Mapping[str, str] | None = None,
        execution_timeout: timedelta | None = None,
    ) -> RunHandle:
        """Start a new run of the same playbook and payload, which reuses everything that happened in the run before
        ``from_step`` first started there; that step and what follows run again.

        ``run`` is one that has ended, by an ID as for `find`. Raises RequestRefusedError with the reason,
        UnknownRunError, AmbiguousIdError, UnsupportedError or DeploymentError before anything has started."""
        earlier = await self.earlier_run(run, from_step)
        return await self.start_rerun(earlier, queues=queues, execution_timeout=execution_timeout)

    async def earlier_run(self, run: int | str, from_step: str) -> EarlierRun:
        """Return what a rerun would reuse, for `start_rerun`. Starts nothing. Raises the same errors as `rerun`."""
        from noetl_temporal.inspection.earlier_run import earlier_run  # imports what only workers need otherwise

        handle = await self.find(run)
        try:
            return await earlier_run(self.temporal, handle.workflow_id, handle.execution_id, from_step)
        except RPCError as error:
            raise rpc_error(error, self.temporal.namespace) or error from error
        except DATABASE_ERRORS as error:
            raise postgres_error(error, self.dsn or "") from error

    async def start_rerun(
        self,
        earlier: EarlierRun,
        *,
        queues: Mapping[str, str] | None = None,
        execution_timeout: timedelta | None = None,
        execution_id: int | None = None,
    ) -> RunHandle:
        """Start a rerun of the ``earlier`` run. The options are those of `submit`. Raises UnsupportedError,
        DeploymentError.
        """
        graph, content, calls = earlier.playbook.graph, earlier.playbook.content, earlier.playbook.calls
        request = earlier.run_input.payload
        playbook = await self._preparation.prepare(graph, request, content=content, playbooks=calls)
        execution_id = execution_id or new_execution_id()
        run_input = self._preparation.run_input(playbook, request, execution_id, queues or {})
        run_input = msgspec.structs.replace(
            run_input,
            stored_payload=earlier.run_input.stored_payload,
            return_step=earlier.run_input.return_step,
            rerun=earlier.rerun,
        )
        return await self._start_run(run_input, playbook, execution_timeout)

    async def _submit_once(
        self, key: str, run_input: RunInput, playbook: Playbook, execution_timeout: timedelta | None
    ) -> RunHandle:
        """Return the run of the key. Until Temporal has confirmed its start, every submission tries to start it, and
        Temporal accepts one of them.
        """
        if self.dsn is None:
            raise NoEventLogError("a key needs an event log: set NOETL_POSTGRES to the DSN of its Postgres")
        submission = Submission(
            self.temporal.namespace,
            run_input.path,
            key,
            digest_of(playbook.content or run_input.digest),
            digest_of(run_input.payload),
        )
        new_id = run_input.execution_id
        keyed_run = await claim_key(self.dsn, submission, new_id)
        if not keyed_run.is_started:
            with suppress(WorkflowAlreadyStartedError):
                run_input = msgspec.structs.replace(run_input, execution_id=keyed_run.execution_id)
                await self._start_workflow(run_input, playbook, execution_timeout)
            await record_start(self.dsn, submission)
        workflow = self._workflow(workflow_id(run_input.path, keyed_run.execution_id))
        is_new = keyed_run.execution_id == new_id
        return RunHandle(self.temporal, workflow, keyed_run.execution_id, self.dsn, is_new=is_new)

    async def _start_workflow(
        self, run_input: RunInput, playbook: Playbook, execution_timeout: timedelta | None
    ) -> WorkflowHandle[Any, RunReport]:
        source = playbook.graph.source
        run_input = await store_large_lists(run_input, playbook.graph, ValueStore(self.temporal.data_converter))
        with submission_span(run_input):
            return await self.temporal.start_workflow(
                PLAYBOOK_WORKFLOW,
                args=[run_input, playbook],
                id=workflow_id(source.path, run_input.execution_id),
                task_queue=WORKFLOW_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                search_attributes=attributes_of_run(source.path, source.version, run_input.execution_id),
                static_summary=playbook_summary(playbook.graph),
                static_details=playbook_details(playbook.graph, run_input.rerun),
                execution_timeout=execution_timeout,
                priority=priority_of(playbook.graph),
                result_type=RunReport,
            )
