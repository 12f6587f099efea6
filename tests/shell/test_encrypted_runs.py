"""Runs with encryption keys on the real servers: what nobody without a key can read, and who still can with one."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverRetrieveContext, StorageDriverStoreContext

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.cli.run_problems import read_run_problems
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.ids import new_execution_id
from noetl_temporal.inspection.codec_server import Access, decode_payload, serving_codec
from noetl_temporal.inspection.history_events import events_in_history
from noetl_temporal.inspection.replay import histories_of, replay
from noetl_temporal.mirror.decryption import messages_of_type
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.payloads import REFERENCE
from noetl_temporal.mirror.read import Event, events_of
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.payloads.encryption import ENCRYPTED, ENCRYPTION_KEYS_VARIABLE, DecryptionError, Keyring
from noetl_temporal.payloads.payload_store import PayloadStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import frame_worker, serving, tool_worker, workflow_worker

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: encrypted, path: tests/encrypted}\n"
CANARY = "canary-9d2c41"
LARGE = 100_000

FIRST = f"first:{base64.b64encode(b'1' * 32).decode()}"
SECOND = f"second:{base64.b64encode(b'2' * 32).decode()}"

EVERYTHING = """
  - step: start
    tool:
      kind: noop
      message: "{{ workload.said }} flaky"
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0.01}}]}}
    set: {ctx.large: "{{ workload.large }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: ["{{ workload.said }}", b], iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: noop, message: "{{ iter.item }}"}
    next: {arcs: [{step: framed}]}
  - step: framed
    loop: {in: ["{{ workload.said }}", b], iterator: item, spec: {mode: parallel}, frame: {max_rows: 2}}
    tool: {kind: noop, message: "{{ iter.item }} {{ ctx.large }}"}
    next: {arcs: [{step: asked}]}
  - step: asked
    tool: {kind: wait, signal: paid, timeout: 1h}
    next: {arcs: [{step: broken}]}
  - step: broken
    tool: {kind: noop, message: "{{ workload.said }} broken"}
"""
ONE_STEP = "  - step: start\n    tool: {kind: noop, message: '{{ workload.said }}'}\n"
PAYLOAD = {"said": CANARY, "large": CANARY * (LARGE // len(CANARY))}


class _Answers:
    """A tool that fails at times, and quotes what it was given in its errors."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: Request, _context: ToolContext) -> Any:
        message = str(request.config.get("message"))
        self.calls += 1
        if "broken" in message or ("flaky" in message and self.calls < 3):
            return Outcome("error", error=ErrorInfo("busy", f"cannot do {message}"))
        return {"said": message}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, FIRST)


async def client_of(servers: Addresses, keys: str | None = FIRST) -> NoetlClient:
    with pytest.MonkeyPatch.context() as patch:
        if keys is None:
            patch.delenv(ENCRYPTION_KEYS_VARIABLE, raising=False)
        else:
            patch.setenv(ENCRYPTION_KEYS_VARIABLE, keys)
        return await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools={"noop"})


@asynccontextmanager
async def worker(client: NoetlClient) -> AsyncGenerator[None]:
    async with serving(client.temporal, {"noop": FakeTool("noop", _Answers())}, CredentialSource(environment={})):
        yield


async def submit(client: NoetlClient, steps: str, **payload: Any) -> RunHandle:
    text = f"{HEAD}workflow:\n{steps}"
    return await client.submit(compile_or_raise(text), payload, content=text)


async def wait_for_log(servers: Addresses, client: NoetlClient, handle: RunHandle) -> list[Event]:
    """The rows of the event log, read by a mirror with the client's keys."""
    await migrate(servers.postgres)
    await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
    connection = await asyncpg.connect(servers.postgres)
    try:
        return await events_of(connection, handle.execution_id)
    finally:
        await connection.close()


async def stored_rows(servers: Addresses) -> list[bytes]:
    connection = await asyncpg.connect(servers.postgres)
    try:
        return [record["data"] for record in await connection.fetch("SELECT data FROM noetl.payload")]
    finally:
        await connection.close()


async def everything(client: NoetlClient) -> RunHandle:
    """A run with retries, loops, frames, large values, a signal and a failure, all with the canary."""
    handle = await submit(client, EVERYTHING, **PAYLOAD)
    async with asyncio.timeout(60):
        while not await handle.waits():
            await asyncio.sleep(0.1)
    await handle.signal("paid", {"by": CANARY})
    report = await handle.wait()
    assert report.status == "failed"
    assert CANARY in report.failures.detailed[0].message
    return handle


async def test_no_value_is_in_plain_text_in_temporal_or_the_payload_store(servers: Addresses) -> None:
    client = await client_of(servers)
    async with worker(client):
        handle = await everything(client)
    histories = [history async for history in histories_of(client.temporal, handle.workflow_id)]
    assert len(histories) > 1
    for history in histories:
        assert CANARY not in history.to_json()
        payloads = [payload for event in history.events for payload in messages_of_type(event, Payload)]
        encodings = {payload.metadata.get("encoding") for payload in payloads if _is_of_a_client(payload)}
        assert encodings <= {ENCRYPTED, b"json/plain"}, encodings
        assert (await replay(history, client.temporal.data_converter)).problem is None
        assert b"json/plain" not in {p.metadata.get("encoding") for p in _headers(history)}
    rows = await stored_rows(servers)
    assert not [row for row in rows if CANARY.encode() in row]
    folder = Path(servers.signing_key_file).parent
    files = [file for file in folder.glob("temporal.db*") if file.is_file()]
    assert files
    for file in files:
        assert CANARY.encode() not in file.read_bytes(), file
        assert base64.b64encode(CANARY.encode())[:16] not in file.read_bytes(), file


def _is_of_a_client(payload: Payload) -> bool:
    """Not a reference, a search attribute, or what Temporal's core writes beside the result of a local activity."""
    return payload.metadata.get("messageType") != REFERENCE and "type" not in payload.metadata


def _headers(history: Any) -> list[Payload]:
    return [
        payload
        for event in history.events
        for payload in event.activity_task_scheduled_event_attributes.header.fields.values()
    ]


async def test_the_mirror_and_a_client_without_one_read_the_same_events(servers: Addresses) -> None:
    client = await client_of(servers)
    async with worker(client):
        handle = await everything(client)
    rows = await wait_for_log(servers, client, handle)
    text = json.dumps([[row.event_type, row.result, row.error] for row in rows], default=str)
    assert CANARY in text
    assert rows[-1].event_type == "playbook.failed"
    assert CANARY in str(rows[-1].error)
    from_history = [history async for history in events_in_history(client.temporal, handle.workflow_id)]
    assert {event.event_type for event in from_history} == {row.event_type for row in rows}
    assert CANARY in str(from_history[-1].error)


async def test_without_keys_nothing_is_encrypted(servers: Addresses) -> None:
    client = await client_of(servers, None)
    assert client.temporal.data_converter.payload_codec is None
    async with worker(client):
        handle = await submit(client, ONE_STEP, said=CANARY)
        assert (await handle.wait()).result == {"said": CANARY}
    assert ENCRYPTED.decode() not in (await handle.workflow.fetch_history()).to_json()


async def test_keys_are_rotated_while_runs_are_open(servers: Addresses) -> None:
    """One that began under the first key goes on under the second, and is read with both; a new one needs only that."""
    before = await client_of(servers, FIRST)
    handle = await submit(before, EVERYTHING, **PAYLOAD)
    async with worker(before):
        async with asyncio.timeout(60):
            while not await handle.waits():
                await asyncio.sleep(0.1)
    between = await client_of(servers, f"{SECOND},{FIRST}")
    same = await between.find(handle.execution_id)
    async with worker(between):
        await same.signal("paid", {"by": CANARY})
        assert (await same.wait()).status == "failed"
    used_keys = {_key_of(p) for e in (await same.workflow.fetch_history()).events for p in messages_of_type(e, Payload)}
    assert used_keys >= {b"first", b"second"}
    assert (await wait_for_log(servers, between, same))[-1].event_type == "playbook.failed"
    after = await client_of(servers, SECOND)
    async with worker(after):
        fresh = await submit(after, EVERYTHING, **PAYLOAD)
        async with asyncio.timeout(60):
            while not await fresh.waits():
                await asyncio.sleep(0.1)
        await fresh.signal("paid", {})
        assert (await fresh.wait()).status == "failed"
    with pytest.raises(DecryptionError, match="'first' is missing"):
        await _input_of(after, handle)


def _key_of(payload: Payload) -> bytes | None:
    return payload.metadata.get("encryption-key-id")


async def _input_of(client: NoetlClient, handle: RunHandle) -> Any:
    history = await handle.workflow.fetch_history()
    input_payloads = history.events[0].workflow_execution_started_event_attributes.input.payloads
    return await client.temporal.data_converter.decode(input_payloads[:1])


@pytest.mark.parametrize("keys", [SECOND, None], ids=["another key", "no key"])
async def test_a_run_waits_while_the_worker_lacks_the_key_which_is_named(servers: Addresses, keys: str | None) -> None:
    client, without = await client_of(servers), await client_of(servers, keys)
    handle = await submit(client, ONE_STEP, said=CANARY)
    async with worker(without), asyncio.timeout(60):
        while not (problems_found := await read_run_problems(client.temporal, handle.workflow_id, handle.execution_id)):
            await asyncio.sleep(0.1)
    [incident] = problems_found
    assert incident.kind == "incident"
    assert "the encryption key 'first' is missing" in incident.message
    assert ENCRYPTION_KEYS_VARIABLE in incident.remedy
    async with worker(client):
        assert (await handle.wait()).status == "completed"
    assert "incident.opened" in {row.event_type for row in await wait_for_log(servers, client, handle)}


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("keys", [SECOND, None], ids=["another key", "no key"])
async def test_a_call_goes_to_a_worker_that_has_the_key(
    servers: Addresses, keys: str | None, is_idempotent: bool
) -> None:
    """One without takes it first, and hands it on; that counts for nothing, also for a call that is not repeated."""
    client, without = await client_of(servers), await client_of(servers, keys)
    tool = FakeTool("noop", _Answers())
    source = CredentialSource(environment={})
    steps = ONE_STEP if is_idempotent else ONE_STEP.replace("'}", "', spec: {idempotent: false}}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noetl_temporal.calls.attempt_end.MISSING_KEY_DELAY", timedelta(seconds=0.5))
        async with workflow_worker(client.temporal):
            handle = await submit(client, steps, said=CANARY)
            async with tool_worker(without.temporal, tool, source):
                await asyncio.sleep(2)
            if keys is None:
                async with tool_worker(client.temporal, tool, source):
                    report = await handle.wait()
            else:
                both = await client_of(servers, f"{FIRST},{SECOND}")
                async with tool_worker(both.temporal, tool, source):
                    report = await handle.wait()
    assert report.result == {"said": CANARY}, report.failures


async def test_a_call_whose_log_is_encrypted_waits_for_a_worker_that_has_the_key(servers: Addresses) -> None:
    """The first attempt has written its record with the key; whoever lacks it must not write another over it."""
    client, without = await client_of(servers), await client_of(servers, None)
    tool, source = FakeTool("noop", _fails_once()), CredentialSource(environment={})
    policy = "{rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 1}}]}"
    steps = f"  - step: start\n    tool: {{kind: noop, message: x, spec: {{policy: {policy}}}}}\n"
    async with workflow_worker(client.temporal), asyncio.timeout(60):
        handle = await submit(client, steps)
        async with tool_worker(client.temporal, tool, source):
            while not tool.requests:
                await asyncio.sleep(0.05)
        async with tool_worker(without.temporal, tool, source):
            await asyncio.sleep(2.5)
        assert len(tool.requests) == 1
        async with tool_worker(client.temporal, tool, source):
            assert (await handle.wait()).result == "well"
    failed = [row for row in await wait_for_log(servers, client, handle) if row.event_type == "task.attempt.failed"]
    assert CANARY in str(failed[0].error)


def _fails_once() -> Callable[[Request, ToolContext], Any]:
    answers = iter([Outcome("error", error=ErrorInfo("busy", CANARY)), Outcome("ok", "well")])
    return lambda _request, _context: next(answers)


async def test_a_frame_waits_for_a_worker_that_has_the_key(servers: Addresses) -> None:
    client, without = await client_of(servers), await client_of(servers, None)
    tools, source = {"noop": FakeTool("noop", _Answers())}, CredentialSource(environment={})
    steps = """
  - step: start
    loop: {in: [a, b], iterator: item, frame: {max_rows: 2}}
    tool: {kind: noop, message: "{{ iter.item }}"}
"""
    async with workflow_worker(client.temporal):
        handle = await submit(client, steps)
        async with frame_worker(without.temporal, tools, source):
            await asyncio.sleep(2)
        async with frame_worker(client.temporal, tools, source):
            report = await handle.wait()
    assert report.status == "completed", report.failures
    assert len(tools["noop"].requests) == 2


async def test_a_missing_key_is_named(servers: Addresses) -> None:
    client, without = await client_of(servers), await client_of(servers, None)
    async with worker(client):
        handle = await submit(client, ONE_STEP, said=CANARY)
        await handle.wait()
    other = await without.find(handle.execution_id)
    with pytest.raises(DecryptionError, match="the encryption key 'first' is missing here"):
        await other.wait()


async def test_temporals_own_command_reads_values_through_the_codec_server(servers: Addresses) -> None:
    client = await client_of(servers)
    async with worker(client):
        handle = await submit(client, ONE_STEP, said=CANARY)
        await handle.wait()
    command = [str(Path(sys.executable).with_name("temporal")), "workflow", "show", "--address", servers.temporal]
    command += ["--workflow-id", handle.workflow_id, "--output", "json"]
    async with serving_codec(client.temporal.data_converter, Access("http://localhost:8233", "token")) as url:
        ways: list[list[str]] = [[], ["--codec-endpoint", url, "--codec-auth", "Bearer token"]]
        without, with_codec = [await asyncio.to_thread(_values, *command, *way) for way in ways]
    assert CANARY not in without
    assert CANARY in with_codec
    assert '"type":"task.started"' in with_codec
    assert '"graph":{' in with_codec


def _values(*command: str | Path) -> str:
    """The data of all payloads that the command prints."""
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    values = [base64.b64decode(data) for data in re.findall(r'"data": "([^"]+)"', output)]
    assert values
    return b"\n".join(values).decode(errors="replace")


async def test_the_codec_server_reads_stored_values(servers: Addresses) -> None:
    client = await client_of(servers)
    async with worker(client):
        handle = await submit(client, ONE_STEP, **PAYLOAD)
        await handle.wait()
    input_payloads = (
        (await handle.workflow.fetch_history()).events[0].workflow_execution_started_event_attributes.input.payloads
    )
    assert REFERENCE in {payload.metadata.get("messageType") for payload in input_payloads}
    texts = [(await decode_payload(client.temporal.data_converter, payload)).data for payload in input_payloads]
    assert json.loads(texts[0])["payload"] == PAYLOAD
    assert json.loads(texts[1])["graph"]["source"]["path"] == "tests/encrypted"


async def test_a_process_without_keys_can_read_its_values_after_an_encrypting_one(servers: Addresses) -> None:
    """The same graph, submitted with and without a key, is one row."""
    await migrate(servers.postgres)
    payload = Payload(metadata={"encoding": b"json/plain"}, data=f'"{new_execution_id()}"'.encode())
    encrypting = PayloadStore(servers.postgres, Keyring({"k1": b"1" * 32}))
    await encrypting.store(StorageDriverStoreContext(), [payload])
    [claim] = await PayloadStore(servers.postgres).store(StorageDriverStoreContext(), [payload])
    other = PayloadStore(servers.postgres, Keyring({"k2": b"2" * 32}))
    assert await other.retrieve(StorageDriverRetrieveContext(), [claim]) == [payload]
