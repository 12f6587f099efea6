"""Runs under a signing key: what comes from elsewhere is refused before anything runs.

The foreign client reaches the same Temporal and the same payload store, and lacks the key. Each attack gets through
where the worker has no key either, so it is the signature that stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import AsyncActivityHandle, Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.inspection.replay import replay
from noetl_temporal.machine.call import StoredRef, ToolReport
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.naming import WORKFLOW_QUEUE, tool_queue
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.signed_converter import REFUSED
from noetl_temporal.payloads.signing import SIGNATURE
from noetl_temporal.payloads.stored_values import LOAD
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: signed, path: tests/signed}\n"
ONE_STEP = "  - step: one\n    tool: {kind: noop, message: code}\n"
LARGE = 200_000

Answer = Callable[[Request, ToolContext], Any]


class Site:
    """A worker and its client, with the key of the stack or without, and a foreign client."""

    def __init__(self, servers: Addresses, client: NoetlClient, foreign: Client, tool: FakeTool) -> None:
        self.servers, self.client, self.foreign, self.tool = servers, client, foreign, tool

    async def submit(self, steps: str, **payload: Any) -> RunHandle:
        """Start a run with the worker's key."""
        return await submitted(self.client, steps, payload)

    async def history(self, handle: RunHandle) -> list[HistoryEvent]:
        return list((await handle.workflow.fetch_history()).events)


async def submitted(client: NoetlClient, steps: str, payload: dict[str, Any]) -> RunHandle:
    text = f"{HEAD}workflow:\n{steps}"
    return await client.submit(compile_or_raise(text), payload, content=text)


@asynccontextmanager
async def site(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, answer: Answer, *, is_keyed: bool = True
) -> AsyncGenerator[Site]:
    if not is_keyed:
        monkeypatch.delenv(SIGNING_KEY_VARIABLE)
    tool = FakeTool("noop", answer)
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools={"noop": tool})
    monkeypatch.delenv(SIGNING_KEY_VARIABLE, raising=False)
    foreign = await Client.connect(servers.temporal, data_converter=data_converter(servers.postgres))
    async with asyncio.timeout(120), serving(client.temporal, {"noop": tool}, CredentialSource(environment={})):
        yield Site(servers, client, foreign, tool)


def hello(_request: Request, _context: ToolContext) -> Any:
    return "hello"


# ---- what is signed runs -------------------------------------------------------------------------------------------

FLAKY = """
  - step: start
    tool:
      kind: noop
      message: "{{ workload.text | length }}"
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0.01}}]}}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(3) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 2FRAME}}
    tool: {kind: noop, message: "{{ iter.item }} {{ workload.text }}"}
    next: {arcs: [{step: after}]}
  - step: after
    loop: {in: "{{ each.results }}", iterator: item, spec: {mode: parallel, max_in_flight: 2FRAME}}
    tool: {kind: noop, message: "{{ iter.item | length }}"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, message: "{{ each.results | map('length') | sum }}"}
"""


@pytest.mark.parametrize("frame", ["", ", frame: {max_rows: 2}"], ids=["workflow", "frame"])
async def test_large_values_loops_and_retries_work_with_a_key(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, frame: str
) -> None:
    calls = 0

    def flaky(request: Request, _context: ToolContext) -> Any:
        nonlocal calls
        calls += 1
        return Outcome("error", error=ErrorInfo("busy", "busy")) if calls < 3 else request.config["message"]

    async with site(servers, monkeypatch, flaky) as cluster:
        handle = await cluster.submit(FLAKY.replace("FRAME", frame), text="x" * LARGE)
        report = await handle.result()
        history = await handle.workflow.fetch_history()
        assert report.status == "completed", report.failures
        assert (await replay(history, cluster.client.temporal.data_converter)).problem is None
    assert report.result == 3 * (LARGE + 2)
    started = history.events[0].workflow_execution_started_event_attributes.input.payloads
    calls_ = [event.activity_task_scheduled_event_attributes.input.payloads for event in history.events]
    results = [event.activity_task_completed_event_attributes.result.payloads for event in history.events]
    inline = [case[0] for case in (*calls_, *results) if case and "messageType" not in case[0].metadata]
    assert inline
    assert all(SIGNATURE in payload.metadata for payload in inline)
    assert started


# ---- runs of others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_keyed", [True, False], ids=["guarded", "control"])
async def test_a_run_submitted_without_the_key_is_refused_with_a_reason(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, is_keyed: bool
) -> None:
    async with site(servers, monkeypatch, hello, is_keyed=is_keyed) as cluster:
        foreign = NoetlClient(cluster.foreign, servers.postgres, {"noop"})
        report = await (await submitted(foreign, ONE_STEP, {})).result()
    if is_keyed:
        assert report.status == "failed"
        [failure] = report.failures.detailed
        assert failure.kind == REFUSED
        assert SIGNING_KEY_VARIABLE in failure.message
    assert [request.config for request in cluster.tool.requests] == ([] if is_keyed else [{"message": "code"}])


async def test_a_signed_input_starts_no_other_run(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it go with the graph or the items of another."""
    async with site(servers, monkeypatch, hello) as cluster:
        handle = await cluster.submit(ONE_STEP)
        await handle.result()
        started = (await cluster.history(handle))[0].workflow_execution_started_event_attributes
        input_payloads: Sequence[Payload] = started.input.payloads
        other = await cluster.submit(ONE_STEP.replace("code", "another"))
        await other.result()
        others = (await cluster.history(other))[0].workflow_execution_started_event_attributes.input.payloads
        calls = len(cluster.tool.requests)
        for id_, arguments in (
            ("tests/signed/1", input_payloads),
            (handle.workflow_id, [input_payloads[0], others[1]]),
        ):
            copied_run = await cluster.foreign.start_workflow(
                started.workflow_type.name,
                args=[RawValue(argument) for argument in arguments],
                id=id_,
                task_queue=started.task_queue.name,
            )
            assert await refusal_of(copied_run)
    assert len(cluster.tool.requests) == calls


async def refusal_of(handle: WorkflowHandle[Any, Any]) -> bool:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause.type == REFUSED


# ---- calls of others -----------------------------------------------------------------------------------------------


@workflow.defn(name="foreign", sandboxed=False)
class Foreign:
    """Calls one activity of ours with a payload as it is."""

    @workflow.run
    async def run(self, name: str, queue: str, encoding: str, data: str, signature: str) -> Any:
        payload = Payload(metadata={"encoding": encoding.encode()}, data=data.encode())
        if signature:
            payload.metadata[SIGNATURE] = bytes.fromhex(signature)
        return await workflow.execute_activity(
            name,
            RawValue(payload),
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=3),
        )


async def call(cluster: Site, name: str, queue: str, payload: Payload) -> ApplicationError | None:
    """How the worker answers the foreign workflow; None when it does what it is told."""
    signature = payload.metadata.get(SIGNATURE, b"").hex()
    message = [name, queue, payload.metadata["encoding"].decode(), payload.data.decode(), signature]
    async with Worker(
        cluster.foreign, task_queue="foreign", workflows=[Foreign], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        handle = await cluster.foreign.start_workflow(
            "foreign", args=message, id=f"foreign/{name}", task_queue="foreign"
        )
        try:
            await handle.result()
        except WorkflowFailureError as error:
            cause = error.cause.cause if isinstance(error.cause, ActivityError) else error.cause
            assert isinstance(cause, ApplicationError)
            return cause
    return None


async def call_payload(cluster: Site) -> Payload:
    """The input of a call that an honest run made, signature and all."""
    handle = await cluster.submit(ONE_STEP)
    await handle.result()
    [payload] = [
        history.activity_task_scheduled_event_attributes.input.payloads[0]
        for history in await cluster.history(handle)
        if history.HasField("activity_task_scheduled_event_attributes")
    ]
    return payload


@pytest.mark.parametrize("is_keyed", [True, False], ids=["guarded", "control"])
@pytest.mark.parametrize("way", ["unsigned", "replayed"])
async def test_a_call_scheduled_by_another_workflow_is_refused_at_once(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, is_keyed: bool, way: str
) -> None:
    async with site(servers, monkeypatch, hello, is_keyed=is_keyed) as cluster:
        payload = await call_payload(cluster)
        if way == "unsigned":
            payload.metadata.pop(SIGNATURE, None)
        before = len(cluster.tool.requests)
        refusal = await call(cluster, "noetl.noop", tool_queue("noop"), payload)
    assert (len(cluster.tool.requests) == before) is is_keyed
    if refusal is not None:
        assert is_keyed
        assert (refusal.type, refusal.non_retryable) == (REFUSED, True)
        assert SIGNING_KEY_VARIABLE in refusal.message


async def test_stored_values_are_loaded_for_our_own_workflows_alone(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without a key: whoever reads a digest in history would else get the value from the payload store."""
    async with site(servers, monkeypatch, hello, is_keyed=False) as cluster:
        key = await ValueStore(data_converter(servers.postgres)).put(b'"a large secret"')
        [reference] = data_converter().payload_converter.to_payloads([StoredRef((), 9)])
        reference.data = reference.data.replace(b"[]", b'[{"key":"%s"}]' % key.encode())
        refusal = await call(cluster, LOAD, WORKFLOW_QUEUE, reference)
    assert refusal is not None
    assert (refusal.type, refusal.non_retryable) == (REFUSED, True)


# ---- results of others ---------------------------------------------------------------------------------------------

TWO = """
  - step: one
    tool: {kind: noop, message: first}
    next: {arcs: [{step: two}]}
  - step: two
    tool: {kind: noop, message: second}
    next: {arcs: [{step: three}]}
  - step: three
    tool: {kind: noop, message: "{{ two }}"}
"""


class Held:
    """Holds the second call until it is let go."""

    def __init__(self) -> None:
        self.waits, self.let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Request, _context: ToolContext) -> Any:
        if request.config["message"] == "second":
            self.waits.set()
            await self.let_go.wait()
        return request.config["message"]


@pytest.mark.parametrize("is_keyed", [True, False], ids=["guarded", "control"])
@pytest.mark.parametrize("way", ["unsigned", "of another call"])
async def test_a_forged_result_of_a_pending_call_is_not_accepted(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, is_keyed: bool, way: str
) -> None:
    held = Held()
    async with site(servers, monkeypatch, held, is_keyed=is_keyed) as cluster:
        handle = await cluster.submit(TWO)
        await held.waits.wait()
        call_ = await pending_call(cluster, handle)
        if way == "unsigned":
            await call_.complete(ToolReport({"status": "ok", "result": "forged"}))
        else:
            await call_.complete(RawValue(await first_result(cluster, handle)))
        report = await handle.result()
        held.let_go.set()
    requests = [request.config["message"] for request in cluster.tool.requests]
    if is_keyed:
        assert report.status == "failed"
        assert [failure.kind for failure in report.failures.detailed] == [REFUSED]
        assert requests == ["first", "second"]
    else:
        assert requests == ["first", "second", "forged" if way == "unsigned" else "first"]


async def pending_call(cluster: Site, handle: RunHandle) -> AsyncActivityHandle:
    """The one call that has not ended, as the foreign client may end it."""
    [pending] = (await handle.workflow.describe()).raw_description.pending_activities
    return cluster.foreign.get_async_activity_handle(
        workflow_id=handle.workflow_id, run_id=None, activity_id=pending.activity_id
    )


async def first_result(cluster: Site, handle: RunHandle) -> Payload:
    return next(
        history.activity_task_completed_event_attributes.result.payloads[0]
        for history in await cluster.history(handle)
        if history.HasField("activity_task_completed_event_attributes")
    )


@pytest.mark.parametrize("is_keyed", [True, False], ids=["guarded", "control"])
async def test_a_forged_heartbeat_makes_no_call_again(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, is_keyed: bool
) -> None:
    """It would take back that a call was made which must not be repeated."""
    held = Held()
    steps = TWO.replace("message: second}", "message: second, spec: {idempotent: false}}")
    async with site(servers, monkeypatch, held, is_keyed=is_keyed) as cluster:
        handle = await cluster.submit(steps)
        await held.waits.wait()
        call_ = await pending_call(cluster, handle)
        await call_.heartbeat(Details((), temporal_attempt=1))
        await call_.fail(RuntimeError("the worker is gone"))
        held.let_go.set()
        report = await handle.result()
    call_count = [request.config["message"] for request in cluster.tool.requests].count("second")
    assert (call_count == 1, report.status) == ((True, "failed") if is_keyed else (False, "completed"))


@pytest.mark.parametrize("is_keyed", [True, False], ids=["guarded", "control"])
async def test_the_message_of_a_forged_failure_reaches_no_template(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, is_keyed: bool
) -> None:
    held = Held()
    async with site(servers, monkeypatch, held, is_keyed=is_keyed) as cluster:
        handle = await cluster.submit(TWO)
        await held.waits.wait()
        call_ = await pending_call(cluster, handle)
        await call_.fail(ApplicationError("; rm -rf /", "details", type="forged", non_retryable=True))
        report = await handle.result()
        held.let_go.set()
    assert report.status == "failed"
    [failure] = report.failures.detailed
    assert ("rm -rf" in failure.message, failure.kind == "forged") == (not is_keyed, not is_keyed)
