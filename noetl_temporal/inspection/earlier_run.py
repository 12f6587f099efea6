"""Computes the state of an earlier run just before a step first started (dev/decisions/0066).

How it works. The recorded history of the run is replayed; if it continued as new, from its first run on. So the same
machine takes the same facts in the same order, and has the state that the workflow had. No tool is called and nothing
is written. Unlike other replays this one uses the values that it reads: it runs in the run's own namespace and verifies
each signature.

Large values stay references. Those in the state are renewed before the new run starts, so they are kept for another
day. By then the mirror has read the start of the new run, which owns them from then on (owners.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from temporalio import workflow
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from noetl_compiler.diagnostics import did_you_mean_or_list
from noetl_compiler.graph import Graph, Json
from noetl_temporal.control.request_sending import RequestRefusedError
from noetl_temporal.inspection.replay import replay_failure
from noetl_temporal.machine.facts import RerunSource
from noetl_temporal.machine.reruns import region_of, reuse_refusal, state_before
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.mirror.owners import keys_in_json
from noetl_temporal.payloads.codec import NO_STORAGE_CODE, payload_limit, verifying_converter
from noetl_temporal.payloads.payload_store import PayloadStore
from noetl_temporal.workflows.definitions import PlaybookWorkflow

__all__ = ["EarlierRun", "earlier_run"]

_GONE = "Temporal has removed its history, or a part of it: submit the playbook again"


class EarlierRun(NamedTuple):
    """An earlier run: its input, its playbook, and the state with which a ``rerun`` starts."""

    run_input: RunInput
    playbook: Playbook
    rerun: RerunSource

    @property
    def reused_steps(self) -> dict[str, str]:
        """The status of each step whose outcome is reused, by name, in the playbook's order."""
        records = _step_records(self.rerun.state)
        steps = self.playbook.graph.steps.items()
        return {name: records[name]["status"] for name, step in steps if name in records and not step.is_synthetic}


async def earlier_run(client: Client, workflow_id: str, execution_id: int, step: str) -> EarlierRun:
    """Return the run with its state before ``step`` first started.

    Raises RequestRefusedError if it cannot be reused, DecryptionError, RPCError, the errors of the payload store.
    """
    try:
        return await _EarlierRunReader(client, workflow_id, execution_id, step).read()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise RequestRefusedError(_GONE) from error


class _EarlierRunReader:
    def __init__(self, client: Client, workflow_id: str, execution_id: int, step: str) -> None:
        self._client, self._workflow_id = client, workflow_id
        self._execution_id, self._step = execution_id, step
        self._converter = verifying_converter(client.data_converter)

    async def read(self) -> EarlierRun:
        run_ids = await self._run_ids()
        first_history = await self._workflow(run_ids[0]).fetch_history()
        start_event = first_history.events[0]
        run_input, playbook = await self._input(start_event)
        _check_step(playbook.graph, self._step)
        recorder = _Recorder(playbook.graph, self._step)
        for run_id in run_ids:
            history = first_history if run_id == run_ids[0] else await self._workflow(run_id).fetch_history()
            failure = await replay_failure(
                history, self._converter, [_RecordingInterceptor(recorder)], self._client.namespace
            )
            if failure is not None:
                reason = "its history was changed, was recorded by another build, or lacks values"
                raise RequestRefusedError(f"{reason}, and cannot be replayed: {failure}")
            if recorder.has_started:
                break
        state = recorder.result(run_input)
        await self._check_values(state)
        secrets_key = start_event.workflow_execution_started_event_attributes.first_execution_run_id
        return EarlierRun(run_input, playbook, RerunSource(self._execution_id, self._step, secrets_key, state))

    async def _run_ids(self) -> list[str]:
        """Return the ids of the workflow's runs, each of which continued the previous one."""
        description = await self._client.get_workflow_handle(self._workflow_id).describe()
        if description.status is WorkflowExecutionStatus.RUNNING:
            raise RequestRefusedError("the run is still running: wait for its end (noetl wait), or cancel it")
        run_ids, run_id = list[str](), description.run_id
        while run_id:
            run_ids.append(run_id)
            event = await self._first_event(run_id)
            run_id = event.workflow_execution_started_event_attributes.continued_execution_run_id
        return run_ids[::-1]

    def _workflow(self, run_id: str) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(self._workflow_id, run_id=run_id)

    async def _first_event(self, run_id: str) -> HistoryEvent:
        async for event in self._workflow(run_id).fetch_history_events(page_size=1):
            return event
        raise RequestRefusedError(_GONE)

    async def _input(self, start_event: HistoryEvent) -> tuple[RunInput, Playbook]:
        payloads = start_event.workflow_execution_started_event_attributes.input.payloads
        context = WorkflowSerializationContext(self._client.namespace, self._workflow_id)
        try:
            converter: DataConverter = self._converter.with_context(context)
            run_input, playbook = await converter.decode(payloads, [RunInput, Playbook])
        except ApplicationError as refused:
            raise RequestRefusedError(f"its request is {refused.message}") from refused
        except LookupError as error:
            raise RequestRefusedError(f"its playbook has been pruned: {error}") from error
        except RuntimeError as error:
            if NO_STORAGE_CODE not in str(error):
                raise
            raise RequestRefusedError("its playbook is stored in Postgres: set NOETL_POSTGRES") from error
        return run_input, playbook

    async def _check_values(self, state: Json) -> None:
        text = msgspec.json.encode(state)
        limit = payload_limit(self._client.data_converter)
        if len(text) > limit:
            reason = f"what happened before step {self._step!r} has {len(text):,} bytes, over {limit:,}"
            raise RequestRefusedError(f"{reason}: a rerun cannot reuse it")
        keys, storage = keys_in_json(text), self._client.data_converter.external_storage
        store = storage.drivers[0] if storage is not None else None
        missing = await store.renew(keys) if keys and isinstance(store, PayloadStore) else set[str]()
        if missing:
            subject = "1 large value has" if len(missing) == 1 else f"{len(missing):,} large values have"
            raise RequestRefusedError(
                f"{subject} been pruned (noetl prune), which the run had before step {self._step!r}"
            )


def _check_step(graph: Graph, step: str) -> None:
    if step not in graph.steps:
        names = [name for name, step in graph.steps.items() if not step.is_synthetic]
        raise RequestRefusedError(
            f"the playbook has no step {step!r}: {did_you_mean_or_list(step, names, 'its steps are')}"
        )
    loop = region_of(graph, step)
    if loop is not None:
        reason = f"step {step!r} runs once for each item of the loop {loop!r}, so it has no single state before it"
        raise RequestRefusedError(f"{reason}: rerun from {loop!r}")


class _Recorder:
    """Records the state of a run before the first start of a step."""

    def __init__(self, graph: Graph, step: str) -> None:
        self._graph, self._step = graph, step
        self._state: Json = None
        self._starts: dict[str, str | None] = {}
        """For each step that has started, why a rerun cannot start there; None if it can."""

    def record_start(self, step: str, state: PlaybookState) -> None:
        """Record that a step is about to start, in a run with this state. Later starts of the same step are ignored."""
        if state.run_counts.get(step):
            return
        self._starts[step] = problem = reuse_refusal(self._graph, state, step)
        if step == self._step and problem is None:
            self._state = state_before(self._graph, state, step)

    @property
    def has_started(self) -> bool:
        """Whether the step has started."""
        return self._step in self._starts

    def result(self, run_input: RunInput) -> Json:
        """Return the state before the step. Raises RequestRefusedError."""
        if not self.has_started:
            raise RequestRefusedError(self._not_started_message(run_input.rerun))
        problem = self._starts[self._step]
        if problem is not None:
            raise RequestRefusedError(f"{problem}: {self._possible_starts()}")
        return self._state

    def _not_started_message(self, earlier: RerunSource | None) -> str:
        if earlier is not None and self._step in _step_records(earlier.state):
            reason = f"it reused step {self._step!r} from run {earlier.execution_id}"
            return f"{reason}: noetl rerun {earlier.execution_id} --from {self._step}"
        return f"it never reached step {self._step!r}: {self._possible_starts()}"

    def _possible_starts(self) -> str:
        steps = self._graph.steps
        names = [name for name, problem in self._starts.items() if problem is None and not steps[name].is_synthetic]
        return f"it can be rerun from {', '.join(names)}" if names else "submit the playbook again"


def _step_records(state: Json) -> dict[str, Any]:
    return {} if state is None else {**state.get("route_records", {}), **state.get("records", {})}


class _RecordingInterceptor(Interceptor):
    """Reports the steps of a replayed playbook to a recorder."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        recorder = self._recorder

        class _Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
                instance = workflow.instance()
                if isinstance(instance, PlaybookWorkflow):
                    instance.observe(recorder.record_start)
                return await super().execute_workflow(input)

        return _Inbound
