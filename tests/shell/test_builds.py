"""Workers of two builds on a server of their own: which of them runs what, before and after one is made current."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import WorkflowHandle

from noetl_activities.tool import load_tools
from noetl_compiler import compile_or_raise
from noetl_temporal.cli.worker import worker_command
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack

from .conftest import HEAD
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
POLLING = """\
  - step: start
    loop: {{in: [1, 2], iterator: item}}
    tool: {{kind: noop}}
    next: {{arcs: [{{step: poll}}]}}
  - step: poll
    tool:
      kind: http
      url: "{url}/size/1"
      spec:
        policy:
          rules:
            - when: "{{{{ output.data.data.text == 'x' }}}}"
              then: {{do: again, attempts: 500, delay: 1}}
"""
"""Its one call after the loop is made again and again, with a timer between."""

LOOP_THEN_POLLING = """\
  - step: start
    loop: {{in: [1, 2], iterator: item}}
    tool:
      kind: http
      url: "{url}/size/{{{{ item }}}}"
      spec:
        policy:
          rules:
            - when: "{{{{ output.data.data.call < 3 }}}}"
              then: {{do: again, attempts: 9, delay: 1}}
    next: {{arcs: [{{step: poll}}]}}
  - step: poll
    tool:
      kind: http
      url: "{url}/size/3"
      spec:
        policy:
          rules:
            - when: "{{{{ output.data.data.call < 500 }}}}"
              then: {{do: again, attempts: 500, delay: 1}}
"""
"""Its loop waits for nothing but timers between the calls of an item."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A server that no other test uses: a build that is current takes the runs of workers without one."""
    with owned_stack(Home(tmp_path_factory.mktemp("builds")), "run") as (_, addresses):
        yield addresses


@pytest.fixture
async def client(alone: Addresses) -> NoetlClient:
    return await NoetlClient.connect(alone.temporal, dsn=alone.postgres, tools=load_tools())


@pytest.fixture
async def web() -> AsyncGenerator[Site]:
    async with site() as started_site:
        yield started_site


async def make_current(address: str, deployment: str, build: str) -> None:
    """As a person does, once Temporal knows the build and all its queues."""
    command = ["worker", "deployment", "set-current-version", "--deployment-name", deployment, "--build-id", build]
    async with asyncio.timeout(60):
        while True:
            process = await asyncio.create_subprocess_exec(BINARY, *command, "--yes", "--address", address)
            if await process.wait() == 0:
                return
            await asyncio.sleep(0.1)


async def build_of(client: NoetlClient, handle: WorkflowHandle[Any, Any], run_id: str = "") -> str:
    """The build that a run is pinned to."""
    request = DescribeWorkflowExecutionRequest(
        namespace=client.temporal.namespace, execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id)
    )
    description = await client.temporal.workflow_service.describe_workflow_execution(request)
    return description.workflow_execution_info.versioning_info.deployment_version.build_id


async def workers_of(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Who made its calls, by process id."""
    history = await handle.fetch_history()
    started = [event.activity_task_started_event_attributes.identity for event in history.events]
    return [identity.partition("@")[0] for identity in started if identity]


async def start_run(client: NoetlClient, workflow: str) -> RunHandle:
    return await client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"))


async def test_a_run_ends_on_its_build_and_the_next_begins_on_the_current_one(
    alone: Addresses, client: NoetlClient, web: Site
) -> None:
    async with (
        worker_process(alone.temporal, alone.postgres, "--build-id", "a") as a,
        worker_process(alone.temporal, alone.postgres, "--build-id", "b") as b,
    ):
        await make_current(alone.temporal, "noetl", "a")
        web.open.clear()
        old = await start_run(client, TWO_CALLS.format(url=web.url))
        await until(lambda: is_called(web, 1))
        await make_current(alone.temporal, "noetl", "b")
        web.open.set()
        new = await start_run(client, TWO_CALLS.format(url=web.url))
        assert {(await old.result()).status, (await new.result()).status} == {"completed"}
        assert [await build_of(client, case.workflow) for case in (old, new)] == ["a", "b"]
        assert await workers_of(old.workflow) == [str(a.pid)] * 2
        assert await workers_of(new.workflow) == [str(b.pid)] * 2


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.1)


async def runs_of(client: NoetlClient, handle: RunHandle) -> list[str]:
    """The ids of the runs that it continued as new in, oldest first."""
    workflows = client.temporal.list_workflows(f"WorkflowId = '{handle.workflow_id}'")
    return [run.run_id for run in sorted([run async for run in workflows], key=lambda run_: run_.start_time)]


async def test_a_run_that_only_waits_continues_on_the_current_build(
    alone: Addresses, client: NoetlClient, web: Site
) -> None:
    async with (
        worker_process(alone.temporal, alone.postgres, "--build-id", "c"),
        worker_process(alone.temporal, alone.postgres, "--build-id", "d"),
    ):
        await make_current(alone.temporal, "noetl", "c")
        handle = await start_run(client, POLLING.format(url=web.url))
        await until(lambda: is_called(web, 1))
        await make_current(alone.temporal, "noetl", "d")
        await until(lambda: is_on(client, handle, "d"))
        before = web.calls.total()
        await until(lambda: is_called(web, before + 3))
        assert [await build_of(client, handle.workflow, run) for run in await runs_of(client, handle)] == ["c", "d"]
        await handle.workflow.terminate()


async def test_a_chunk_ends_on_its_build_and_the_run_on_the_current_one(
    alone: Addresses, client: NoetlClient, web: Site
) -> None:
    """The run is picked up between two of its polls, and comes to its end there."""
    async with (
        worker_process(alone.temporal, alone.postgres, "--build-id", "g") as g,
        worker_process(alone.temporal, alone.postgres, "--build-id", "h") as h,
    ):
        await make_current(alone.temporal, "noetl", "g")
        web.open.clear()
        handle = await start_run(client, LOOP_THEN_POLLING.format(url=web.url))
        await until(lambda: is_called(web, 1))
        await make_current(alone.temporal, "noetl", "h")
        web.open.set()
        await until(lambda: is_on(client, handle, "h"))
        web.calls["/size/3"] = 500
        report = await handle.result()
        assert report.status == "completed"
        runs = await runs_of(client, handle)
        assert [await build_of(client, handle.workflow, run) for run in runs] == ["g", "h"]
        chunk = client.temporal.get_workflow_handle(f"{handle.workflow_id}/start/1")
        assert await build_of(client, chunk) == "g"
        assert await workers_of(chunk) == [str(g.pid)] * 6
        assert await calls_by(client, handle, runs[0]) == {str(g.pid)}
        assert await calls_by(client, handle, runs[1]) == {str(h.pid)}
        assert web.calls["/size/1"] == web.calls["/size/2"] == 3


async def calls_by(client: NoetlClient, handle: RunHandle, run_id: str) -> set[str]:
    """Who made the calls of one of its runs."""
    return set(await workers_of(client.temporal.get_workflow_handle(handle.workflow_id, run_id=run_id)))


async def is_called(web: Site, times: int) -> bool:
    return web.calls.total() >= times


async def is_on(client: NoetlClient, handle: RunHandle, build: str) -> bool:
    return await build_of(client, handle.workflow) == build


async def test_a_run_that_an_operator_keeps_on_its_build_continues_there(
    alone: Addresses, client: NoetlClient, web: Site
) -> None:
    """It is not notified of the current build: it would come back to its own, and continue as new without end."""
    async with (
        worker_process(alone.temporal, alone.postgres, "--build-id", "e"),
        worker_process(alone.temporal, alone.postgres, "--build-id", "f"),
    ):
        await make_current(alone.temporal, "noetl", "e")
        handle = await start_run(client, POLLING.format(url=web.url))
        await until(lambda: is_called(web, 1))
        await keep(alone.temporal, handle.workflow_id, "e")
        await make_current(alone.temporal, "noetl", "f")
        before = web.calls.total()
        await until(lambda: is_called(web, before + 5))
        assert [await build_of(client, handle.workflow, run) for run in await runs_of(client, handle)] == ["e"]
        await handle.workflow.terminate()


async def keep(address: str, workflow_id: str, build: str) -> None:
    """``temporal workflow update-options``: the run stays on a build whatever becomes current."""
    command = ["workflow", "update-options", "--workflow-id", workflow_id, "--versioning-override-behavior", "pinned"]
    version = ["--versioning-override-deployment-name", "noetl", "--versioning-override-build-id", build]
    process = await asyncio.create_subprocess_exec(BINARY, *command, *version, "--address", address)
    assert await process.wait() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--build-id", ""], "'' cannot name a build"),
        (["--build-id", "x" * 201], "1 to 200 bytes"),
        (["--build-id", "1.0", "--deployment", "a.b"], "neither . nor : in it"),
        (["--build-id", "1.0", "--deployment", "__a"], "do not begin with __"),
        (["--deployment", "a"], "--deployment needs --build-id"),
    ],
)
def test_a_name_that_temporal_does_not_take_is_refused(options: list[str], says: str) -> None:
    """Temporal itself is silent, and gives such a worker no task."""
    done = CliRunner().invoke(worker_command, options)
    assert done.exit_code == 2
    assert says in done.output
