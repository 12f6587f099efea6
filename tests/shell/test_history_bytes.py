"""What a run writes to history, and that it is hardly larger than the history of a workflow written by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence

import asyncpg
import msgspec
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import PayloadCodec

from dev.bench import history_bytes
from dev.bench.history_bytes import SHAPES, hand_worker, histories
from dev.histories.limits import limited
from noetl_activities.credentials import CredentialSource
from noetl_activities.noop import TOOL
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.inspection.replay import histories_of, replay
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.read import events_of
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads.codec import data_converter, header_behavior
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import HEAD
from .servers import proxy_to

TOOLS = {"noop": TOOL}
WORDS = "a remark that only this playbook has"
LOOPS = f"""
  - step: start
    desc: {WORDS}
    tool: {{kind: noop, result: 1}}
    next: {{arcs: [{{step: each}}]}}
  - step: each
    desc: {WORDS} as well
    loop: {{in: "{{{{ workload.items }}}}", iterator: item, spec: {{mode: sequential}}}}
    tool: {{kind: noop, result: "{{{{ iter.item }}}}"}}
    next: {{arcs: [{{step: after}}]}}
  - step: after
    tool: {{kind: noop, result: 2}}
"""


@pytest.fixture
async def client(servers: Addresses) -> AsyncGenerator[NoetlClient]:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    async with serving(client.temporal, TOOLS, CredentialSource(environment={})):
        yield client


async def run(client: NoetlClient, workflow: str, **payload: object) -> list[WorkflowHistory]:
    """Run to the end; return the histories of the run, its loops and the runs that these continued as."""
    text = f"{HEAD}workload: {{items: [1, 2, 3]}}\nworkflow:{workflow}"
    handle = await client.submit(compile_or_raise(text, "shell.yaml"), dict(payload), content=text)
    assert (await handle.result()).status == "completed"
    return [history async for history in histories_of(client.temporal, handle.workflow_id)]


def size(events: Sequence[HistoryEvent]) -> int:
    return sum(event.ByteSize() for event in events)


@pytest.mark.parametrize("result_bytes", [0, 200, 1_000, 5_000])
@pytest.mark.parametrize("shape", SHAPES)
async def test_history_is_near_that_of_a_workflow_by_hand(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, shape: str, result_bytes: int
) -> None:
    """Both without signatures: a workflow by hand that takes our values does not know their places."""
    monkeypatch.delenv(SIGNING_KEY_VARIABLE)
    monkeypatch.setattr(history_bytes, "result_bytes", result_bytes)
    tools = history_bytes.TOOLS
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with (
        serving(client.temporal, tools, CredentialSource(environment={})),
        hand_worker(client.temporal),
    ):
        result = await histories(client, shape)
    ours = size(result["playbook"])
    # What ends at once may share workflow tasks or not, on either side, as it comes.
    spread = 0.4 if shape == "fan-out" else 0.0
    assert ours < (1.5 + spread) * size(result["same values"])
    assert ours < (2.5 + spread) * size(result["int to int"])


def inputs(history: WorkflowHistory) -> Sequence[Payload]:
    return history.events[0].workflow_execution_started_event_attributes.input.payloads


async def test_the_input_of_a_run_has_the_request_and_its_graph_is_stored_once(client: NoetlClient) -> None:
    with limited({"noetl_temporal.workflows.workflow_host.SOFT_EVENTS": 8}):
        first = await run(client, LOOPS, items=list(range(6)))
        for history in first:
            assert (await replay(history, client.temporal.data_converter)).problem is None
    [second, *_] = await run(client, LOOPS)
    second_input = msgspec.json.decode(inputs(second)[0].data)
    assert set(second_input) == {"execution_id", "path", "version", "digest", "limit"}
    assert not any(WORDS in history.to_json() for history in first)
    playbook_inputs = [inputs(workflow) for workflow in first if "/each/" not in workflow.workflow_id]
    loop_inputs = [inputs(workflow) for workflow in first if "/each/" in workflow.workflow_id]
    assert min(len(playbook_inputs), len(loop_inputs)) > 1  # each continued as new
    for history_payloads in ([*playbook_inputs, inputs(second)], loop_inputs):
        assert len({payloads[1].data for payloads in history_payloads}) == 1
    connection = await asyncpg.connect(client.dsn)
    try:
        count = "SELECT count(*) FROM noetl.payload WHERE position($1::bytea in data) > 0"
        assert await connection.fetchval(count, WORDS.encode()) == 2
    finally:
        await connection.close()


async def test_calls_of_steps_have_a_summary_and_those_of_items_do_not(client: NoetlClient) -> None:
    report = await run(client, LOOPS)
    scheduled_calls = [
        (event.activity_task_scheduled_event_attributes.activity_id, event.user_metadata.summary.data.decode())
        for history in report
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert sorted(scheduled_calls) == [
        ("0:each_task:1", ""),
        ("1:each_task:1", ""),
        ("2:each_task:1", ""),
        ("after#1:after_task:1", '"after [noop]"'),
        ("start#1:start_task:1", '"start [noop]"'),
    ]


async def test_a_replay_without_the_store_says_what_is_missing(client: NoetlClient) -> None:
    [history] = await run(client, "\n  - step: one\n    tool: {kind: noop}\n")
    verdict = await replay(history, data_converter())
    assert "Set NOETL_POSTGRES" in (verdict.problem or "")


async def test_a_submission_reports_that_the_store_is_unavailable(servers: Addresses) -> None:
    async with proxy_to(servers.postgres) as proxy:
        client = await NoetlClient.connect(servers.temporal, dsn=proxy.dsn, tools=TOOLS)
        await proxy.disconnect()
        with pytest.raises(DeploymentError, match="connection refused"):
            await client.submit(compile_or_raise(f"{HEAD}workflow:\n  - step: away\n    tool: {{kind: noop}}\n"))


class ReversingCodec(PayloadCodec):
    """Stands for an encryption."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": b"binary/reversed"}, data=payload.SerializeToString()[::-1])
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(payload.data[::-1]) for payload in payloads]


async def test_headers_are_encrypted_as_payloads_are_and_the_mirror_reads_them(servers: Addresses) -> None:
    converter = dataclasses.replace(data_converter(servers.postgres), payload_codec=ReversingCodec())
    temporal = await Client.connect(
        servers.temporal, data_converter=converter, header_codec_behavior=header_behavior(converter)
    )
    client = NoetlClient(temporal, servers.postgres, TOOLS)
    async with serving(temporal, TOOLS, CredentialSource(environment={})):
        report = await run(client, LOOPS)
    assert {payload.metadata["encoding"] for payload in headers_of(report)} == {b"binary/reversed"}
    types = await mirrored_types(temporal, servers.postgres, report[0].workflow_id)
    assert types.count("loop.iteration.done") == 3
    assert types[-1] == "playbook.completed"


async def test_events_too_large_for_a_header_are_in_a_marker(
    client: NoetlClient, servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete_types = await mirrored_types(client.temporal, servers.postgres, (await run(client, LOOPS))[0].workflow_id)
    monkeypatch.setattr("noetl_temporal.workflows.trail.HEADER_BYTES", 140)
    report = await run(client, LOOPS)
    sizes = [len(payload.data) for payload in headers_of(report)]
    assert sizes
    assert max(sizes) < 140
    markers = [
        event for history in report for event in history.events if event.HasField("marker_recorded_event_attributes")
    ]
    assert markers
    assert await mirrored_types(client.temporal, servers.postgres, report[0].workflow_id) == complete_types
    assert [(await replay(history, client.temporal.data_converter)).problem for history in report] == [None] * 2


def headers_of(report: Sequence[WorkflowHistory]) -> list[Payload]:
    """The headers of all activities."""
    return [
        payload
        for history in report
        for event in history.events
        for payload in event.activity_task_scheduled_event_attributes.header.fields.values()
    ]


async def mirrored_types(temporal: Client, dsn: str, workflow_id: str) -> list[str]:
    """The types of the rows that the mirror writes for a run, in their order."""
    await migrate(dsn)
    await follow_execution(temporal, dsn, workflow_id)
    connection = await asyncpg.connect(dsn)
    try:
        return [row.event_type for row in await events_of(connection, int(workflow_id.rpartition("/")[2]))]
    finally:
        await connection.close()
