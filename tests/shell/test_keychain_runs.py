"""References to secrets in real runs: through history, chunks, continue-as-new and resets, to the values in calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.secrets.tool import TOOL
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, Tool, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.secret_references import MARK, SecretReference, format_reference
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.inspection.replay import replay
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.mirror.resets import reset
from tests.shell.conftest import HEAD

BILLING = {"type": "secret", "token": "hush-billing", "port": 8443}
KEY = {"type": "secret", "value": "hush-key"}
SECRETS = ("hush-billing", "hush-key")

KEYCHAIN = (
    "workload: {name: billing}\nkeychain: [{name: billing, kind: credential, credential: '{{ workload.name }}'}]\n"
)

STEPS = """\
  - step: start
    tool: {kind: secrets, provider: env, secret_name: key}
    set: {ctx.key: "{{ output.data.secret_value }}", ctx.header: "Bearer {{ keychain.billing.token }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool: {kind: noop, input: {seen: ["{{ ctx.key }}", "{{ ctx.header }}", "{{ billing.port }}"]}}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, input: {seen: ["{{ start.value }}", "{{ keychain.billing }}"]}}
"""

EACH = ["hush-key", "Bearer hush-billing", 8443]
LAST = ["hush-key", BILLING]


class TokenServer:
    """A worker with the secrets, and what its tool was called with."""

    def __init__(self) -> None:
        self.received_tokens: list[Any] = []
        self.answers: list[Any] = []

    def __call__(self, request: Request, _context: ToolContext) -> Any:
        self.received_tokens.append(request.input["seen"])
        return self.answers.pop(0) if self.answers else {"echo": request.input["seen"]}

    @asynccontextmanager
    async def client(self, servers: Addresses, **client_arguments: Any) -> AsyncGenerator[NoetlClient]:
        tools: dict[str, Tool] = {"noop": FakeTool("noop", self), "secrets": TOOL}
        client = await NoetlClient.connect(servers.temporal, tools=tools)
        environment = {f"NOETL_CREDENTIAL_{name.upper()}": json.dumps(text) for name, text in client_arguments.items()}
        async with asyncio.timeout(60), serving(client.temporal, tools, CredentialSource(environment=environment)):
            yield client


async def submit(client: NoetlClient, steps: str = STEPS) -> RunHandle:
    text = f"{HEAD}{KEYCHAIN}workflow:\n{steps}"
    return await client.submit(compile_or_raise(text, "shell.yaml"), content=text)


async def entry_fields(client: NoetlClient, run: RunHandle) -> str:
    """The histories of the run and of its loop."""
    ids = [
        workflow.id async for workflow in client.temporal.list_workflows(f"WorkflowId STARTS_WITH '{run.workflow_id}'")
    ]
    histories = [await client.temporal.get_workflow_handle(id_).fetch_history() for id_ in ids]
    return b"".join(event.SerializeToString() for history in histories for event in history.events).decode("latin-1")


async def test_only_the_calls_get_the_values(servers: Addresses) -> None:
    token_server = TokenServer()
    async with token_server.client(servers, billing=BILLING, key=KEY) as client:
        run = await submit(client)
        report = await run.result()
        history = await entry_fields(client, run)
    assert token_server.received_tokens == [EACH, EACH, LAST]
    assert report.result == {"echo": ["***", {**BILLING, "token": "***", "port": "***"}]}
    assert MARK in history
    assert not [secret for secret in SECRETS if secret in history]


async def test_references_stay_valid_after_continue_as_new(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 5)
    token_server = TokenServer()
    async with token_server.client(servers, billing=BILLING, key=KEY) as client:
        run = await submit(client)
        assert (await run.result()).status == "completed"
        last = await client.temporal.get_workflow_handle(run.workflow_id).describe()
    assert last.run_id != run.run_id
    assert token_server.received_tokens == [EACH, EACH, LAST]


async def test_references_stay_valid_after_a_reset(servers: Addresses) -> None:
    """The outcome of the secrets tool stands in the history that the new run begins with."""
    token_server = TokenServer()
    async with token_server.client(servers, billing=BILLING, key=KEY) as client:
        run = await submit(client)
        await run.result()
        handle = client.temporal.get_workflow_handle(run.workflow_id, run_id=run.run_id)
        workflow = client.temporal.get_workflow_handle(
            run.workflow_id, run_id=await reset(client.temporal, handle, run.run_id or "")
        )
        assert (await workflow.result())["status"] == "completed"
        assert (await replay(await workflow.fetch_history(), client.temporal.data_converter)).problem is None
    assert token_server.received_tokens == [EACH, EACH, LAST] * 2


async def test_a_response_that_looks_like_a_reference_is_text(servers: Addresses) -> None:
    forged_reference = format_reference(
        SecretReference("billing", "credential", {"credential": "billing"}, ("token",)), ""
    )
    token_server = TokenServer()
    token_server.answers = [{"told": forged_reference}]
    steps = """\
  - step: start
    tool: {kind: noop, input: {seen: "{{ keychain.billing.token }}"}}
    next: {arcs: [{step: then}]}
  - step: then
    tool: {kind: noop, input: {seen: "{{ start.told }}"}}
"""
    async with token_server.client(servers, billing=BILLING) as client:
        await (await submit(client, steps)).result()
    assert token_server.received_tokens == ["hush-billing", forged_reference]


async def test_a_secret_that_is_missing_fails_the_call_at_its_place(servers: Addresses) -> None:
    token_server = TokenServer()
    async with token_server.client(servers, key=KEY) as client:
        report = await (await submit(client)).result()
    assert report.status == "failed"
    assert report.failures.cause is not None
    assert report.failures.cause.line == 13
    assert "no credential 'billing'" in report.failures.cause.message
    assert token_server.received_tokens == []


async def test_an_error_is_masked_and_a_repeated_attempt_gets_the_value_again(servers: Addresses) -> None:
    token_server = TokenServer()
    token_server.answers = [Outcome("error", error=ErrorInfo("tool", "hush-billing is wrong", retryable=True))]
    steps = """\
  - step: start
    tool:
      kind: noop
      input: {seen: "{{ keychain.billing.token }}"}
      spec:
        policy:
          rules:
            - {when: "{{ output.error.message == '*** is wrong' }}", then: {do: retry, attempts: 2, delay: 0}}
            - {else: {then: {do: continue}}}
"""
    async with token_server.client(servers, billing=BILLING) as client:
        run = await submit(client, steps)
        assert (await run.result()).result == {"echo": "***"}
        assert "hush-billing" not in await entry_fields(client, run)
    assert token_server.received_tokens == ["hush-billing", "hush-billing"]
