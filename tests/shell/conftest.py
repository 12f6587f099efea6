"""A client and workers on the real server, with tools that answer as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from temporalio.client import WorkflowHistory

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import connect_temporal
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.audit import audit_everything

from .table import Base

Answer = Callable[[Request, ToolContext], Any]

FOLLOWED_AT_ONCE = 8

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: shell, path: tests/shell}\n"


class Shell:
    """Runs playbooks of v10 steps whose every tool is a ``noop`` answered by the test."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.credentials = CredentialSource(
            environment={"NOETL_CREDENTIAL_SECRET": '{"type": "bearer", "token": "hush-hush"}'}
        )

    @asynccontextmanager
    async def client(self, answer: Answer) -> AsyncGenerator[NoetlClient]:
        """A client beside a worker that serves everything."""
        client = await NoetlClient.connect(self.address, tools={"noop": FakeTool("noop", answer)})
        async with serving(client.temporal, {"noop": FakeTool("noop", answer)}, self.credentials):
            yield client

    @staticmethod
    async def submit(client: NoetlClient, workflow: str, head: str = "", **payload: Any) -> RunHandle:
        text = f"{HEAD}{head}workflow:\n{workflow}"
        return await client.submit(compile_or_raise(text, "shell.yaml"), payload, content=text)


async def history_of(handle: RunHandle) -> WorkflowHistory:
    return await handle.workflow.fetch_history()


@pytest.fixture(scope="package", autouse=True)
def signing_key(servers: Addresses) -> Iterator[None]:
    """Give workers and clients the signing key of the stack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SIGNING_KEY_VARIABLE, servers.signing_key_file)
        yield


@pytest.fixture(scope="package", autouse=True)
async def audit_at_end(servers: Addresses) -> AsyncGenerator[None]:
    """Check at the end that the logs of all runs of these tests are consistent.

    Tests of the mirror, which use the same server afterwards, audit their own runs: some reset loops by hand.
    """
    started_at = datetime.now(UTC)
    yield
    await migrate(servers.postgres)
    client = await connect_temporal(servers.temporal, dsn=servers.postgres)
    closed_runs = f"WorkflowType = '{PLAYBOOK_WORKFLOW}' AND ExecutionStatus != 'Running' AND NoetlPath = 'tests/shell'"
    closed_runs += f" AND StartTime >= '{started_at.isoformat()}'"
    slots = asyncio.Semaphore(FOLLOWED_AT_ONCE)

    async def follow(run: str) -> None:
        async with slots:
            await follow_execution(client, servers.postgres, run)

    async with asyncio.TaskGroup() as group:
        for run in {workflow.id async for workflow in client.list_workflows(closed_runs)}:
            group.create_task(follow(run))
    findings = await audit_everything(servers.postgres)
    assert not findings, "\n".join(f"{run}: {problem}" for run, problems in findings.items() for problem in problems)


@pytest.fixture
def shell(servers: Addresses) -> Shell:
    return Shell(servers.temporal)


@pytest.fixture
async def base(servers: Addresses) -> AsyncGenerator[Base]:
    connection = await asyncpg.connect(servers.playbooks)
    base = Base(connection)
    await base.make()
    yield base
    await connection.close()
