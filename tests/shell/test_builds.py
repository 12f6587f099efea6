"""Workers of two builds on a real server of their own: which of them runs what, before and after one is made current."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import WorkflowHandle

from noetl_activities.tool import load_tools
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own

from .conftest import HEAD
from .reports import reports_of
from .servers import Site, site
from .worker_process import worker_process

BINARY = str(Path(sys.executable).parent / "temporal")

TWO_CALLS = """\
  - step: start
    tool: {{kind: http, url: "{url}/size/1"}}
    next: {{arcs: [{{step: second}}]}}
  - step: second
    tool: {{kind: noop}}
"""
WAITING = """\
  - step: start
    loop: {in: [1, 2], iterator: item}
    tool: {kind: noop}
    next: {arcs: [{step: wait}]}
  - step: wait
    tool:
      kind: noop
      result: "{{ now().timestamp() }}"
      spec: {policy: {rules: [{when: "{{ attempt < 2 }}", then: {do: again, attempts: 2, delay: 8}}]}}
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A server that no other test uses: a build that is current takes the runs of workers without one."""
    with own(Home(tmp_path_factory.mktemp("builds")), "run") as (_, addresses):
        yield addresses


@pytest.fixture
async def client(alone: Addresses) -> NoetlClient:
    return await NoetlClient.connect(alone.temporal, dsn=alone.postgres, tools=load_tools())


@pytest.fixture
async def web() -> AsyncGenerator[Site]:
    async with site() as found:
        yield found


async def make_current(address: str, deployment: str, build: str) -> None:
    """As a person does, once Temporal knows the build and all its queues."""
    command = ["worker", "deployment", "set-current-version", "--deployment-name", deployment, "--build-id", build]
    async with asyncio.timeout(60):
        while True:
            process = await asyncio.create_subprocess_exec(BINARY, *command, "--yes", "--address", address)
            if await process.wait() == 0:
                return
            await asyncio.sleep(0.1)


async def build_of(client: NoetlClient, handle: WorkflowHandle[object, object], run_id: str = "") -> str:
    """The build that a run is pinned to."""
    request = DescribeWorkflowExecutionRequest(
        namespace=client.temporal.namespace, execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id)
    )
    found = await client.temporal.workflow_service.describe_workflow_execution(request)
    return found.workflow_execution_info.versioning_info.deployment_version.build_id


async def workers_of(handle: RunHandle, dsn: str) -> list[str]:
    """Who made its calls, by process id."""
    return [report.attempts[-1].worker.partition("@")[0] for report in await reports_of(handle, dsn)]


def begun(client: NoetlClient, workflow: str) -> asyncio.Task[RunHandle]:
    return asyncio.create_task(client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}")))


async def test_a_run_ends_on_its_build_and_the_next_begins_on_the_current_one(
    alone: Addresses, client: NoetlClient, web: Site
) -> None:
    async with (
        worker_process(alone.temporal, alone.postgres, "--build-id", "a") as a,
        worker_process(alone.temporal, alone.postgres, "--build-id", "b") as b,
    ):
        await make_current(alone.temporal, "noetl", "a")
        web.open.clear()
        old = await begun(client, TWO_CALLS.format(url=web.url))
        while not web.calls.total():
            await asyncio.sleep(0.02)
        await make_current(alone.temporal, "noetl", "b")
        web.open.set()
        new = await begun(client, TWO_CALLS.format(url=web.url))
        assert {(await old.result()).status, (await new.result()).status} == {"completed"}
        assert [await build_of(client, one.workflow) for one in (old, new)] == ["a", "b"]
        assert await workers_of(old, alone.postgres) == [str(a.pid)] * 2
        assert await workers_of(new, alone.postgres) == [str(b.pid)] * 2


async def test_a_run_that_only_waits_continues_on_the_current_build(alone: Addresses, client: NoetlClient) -> None:
    async with (
        worker_process(alone.temporal, alone.postgres, "--build-id", "c") as _,
        worker_process(alone.temporal, alone.postgres, "--build-id", "d") as d,
    ):
        await make_current(alone.temporal, "noetl", "c")
        handle = await begun(client, WAITING)
        first_run = (await handle.workflow.describe()).run_id
        while not (await handle.workflow.query("progress")).get("wait"):
            await asyncio.sleep(0.1)
        await make_current(alone.temporal, "noetl", "d")
        assert (await handle.result()).status == "completed"
        assert await build_of(client, handle.workflow, first_run) == "c"
        assert await build_of(client, handle.workflow) == "d"
        assert await workers_of(handle, alone.postgres) == [str(d.pid)]
