"""Submissions under a key: one run, however many submit it, whenever they do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal import client as client_module
from noetl_temporal.client import KeyTakenError, NoetlClient, NoEventLogError, RunHandle, UnknownRunError
from noetl_temporal.ids import new_execution_id
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: once, path: PATH}
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: noop, message: "{{ workload.n }}"}
"""

Submit = Callable[..., Coroutine[Any, Any, RunHandle]]


class Site:
    """A client beside a worker, and a path that only this test has."""

    def __init__(self, client: NoetlClient, calls: Counter[str]) -> None:
        self.client, self.calls, self.path = client, calls, f"tests/once/{new_execution_id()}"

    async def submit(
        self, key: str, *, text: str = TEXT, client: NoetlClient | None = None, **payload: Any
    ) -> RunHandle:
        text = text.replace("PATH", self.path)
        graph = compile_or_raise(text, "once.yaml")
        return await (client or self.client).submit(graph, payload, content=text, key=key)

    async def runs(self) -> list[str]:
        """The workflow ids of all runs of the path that Temporal has."""
        workflows = self.client.temporal.list_workflows(f"NoetlPath = '{self.path}'")
        return [workflow.id async for workflow in workflows]

    async def delete(self, *handles: RunHandle) -> None:
        """As ``temporal workflow delete``, and as Temporal does after its retention. It takes half a minute."""
        temporal = self.client.temporal
        for handle in handles:
            execution = WorkflowExecution(workflow_id=handle.workflow_id)
            request = DeleteWorkflowExecutionRequest(namespace=temporal.namespace, workflow_execution=execution)
            await temporal.workflow_service.delete_workflow_execution(request)
        async with asyncio.timeout(90):
            while any([await _is_there(handle) for handle in handles]):
                await asyncio.sleep(0.05)

    async def forget_start(self, key: str) -> None:
        """As if who started the run had died before noting that."""
        connection = await asyncpg.connect(self.client.dsn)
        forget = "UPDATE noetl.submission SET is_started = false WHERE (path, key) = ($1, $2)"
        assert await connection.execute(forget, self.path, key) == "UPDATE 1"
        await connection.close()


async def _is_there(handle: RunHandle) -> bool:
    try:
        await handle.workflow.describe()
    except RPCError:
        return False
    return True


@pytest.fixture
async def site(servers: Addresses) -> AsyncIterator[Site]:
    await migrate(servers.postgres)
    calls = Counter[str]()

    async def answer(request: Request, context: ToolContext) -> int:
        del context
        calls[request.execution_id] += 1
        return 1

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        yield Site(client, calls)


async def test_a_hundred_at_once_make_one_run(site: Site, servers: Addresses) -> None:
    clients = [await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=["noop"]) for _ in range(5)]
    handles = await asyncio.gather(*(site.submit("k", client=clients[n % 5], n=1) for n in range(100)))
    assert len({handle.execution_id for handle in handles}) == 1
    assert [handle.is_new for handle in handles].count(True) == 1
    reports = await asyncio.gather(*(handle.result() for handle in handles[:10]))
    assert {report.status for report in reports} == {"completed"}
    assert site.calls[str(handles[0].execution_id)] == 1
    later = await asyncio.gather(*(site.submit("k", n=1) for _ in range(50)))
    assert {(handle.execution_id, handle.is_new) for handle in later} == {(handles[0].execution_id, False)}
    assert len(await site.runs()) == 1


async def test_another_key_or_path_makes_another_run(site: Site) -> None:
    first = await site.submit("k")
    second = await site.submit("k2")
    site.path += "/other"
    third = await site.submit("k")
    assert len({run.execution_id for run in (first, second, third)}) == 3
    assert all(case.is_new for case in (first, second, third))


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"n": 2}, "another payload"), ({"text": f"{TEXT}# changed\n"}, "another playbook")],
)
async def test_another_payload_or_playbook_is_refused(site: Site, change: dict[str, Any], expected: str) -> None:
    first = await (site.submit("k", n=1) if "n" in change else site.submit("k"))
    with pytest.raises(KeyTakenError, match=f"belongs to run {first.execution_id}, .* {expected}"):
        await site.submit("k", **change)
    assert len(await site.runs()) <= 1


async def test_the_order_of_names_in_a_payload_does_not_matter(site: Site) -> None:
    first = await site.submit("k", n={"a": 1, "b": 2})
    assert (await site.submit("k", n={"b": 2, "a": 1})).execution_id == first.execution_id


async def test_runs_that_temporal_has_removed_are_not_made_again(site: Site, servers: Addresses) -> None:
    """Whether the event log has them, or the note that they were started, or both."""
    read, unread, unrecorded = [await site.submit(key) for key in ("read", "unread", "unnoted")]
    report, *_ = [await handle.result() for handle in (read, unread, unrecorded)]
    for handle in (read, unrecorded):
        await follow_execution(site.client.temporal, servers.postgres, handle.workflow_id)
    await site.forget_start("unnoted")
    await site.delete(read, unread, unrecorded)
    for key, handle in {"read": read, "unread": unread, "unnoted": unrecorded}.items():
        second_handle = await site.submit(key)
        assert (second_handle.execution_id, second_handle.is_new) == (handle.execution_id, False)
    assert await (await site.submit("read")).result() == report
    with pytest.raises(UnknownRunError, match="neither Temporal nor the event log has the end"):
        await (await site.submit("unread")).result()
    assert [site.calls[str(handle.execution_id)] for handle in (read, unread, unrecorded)] == [1, 1, 1]


async def test_a_submitter_that_dies_between_key_and_start_is_replaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key belongs to a run that was never started: the next one starts it under the same id."""

    async def die(*_: object) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(NoetlClient, "_start_workflow", die)
        with pytest.raises(Exception, match="Postgres"):
            await site.submit("k")
    handle = await site.submit("k")
    assert (await handle.result()).status == "completed"
    assert len(await site.runs()) <= 1


async def test_a_crash_between_start_and_note_makes_no_second_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(*_: object) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(client_module, "record_start", die)
        with pytest.raises(Exception, match="Postgres"):
            await site.submit("k")
    handle = await site.submit("k")
    await handle.result()
    assert (await site.submit("k")).execution_id == handle.execution_id
    assert site.calls[str(handle.execution_id)] == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "a\0"])
async def test_a_wrong_key_is_refused(site: Site, key: str) -> None:
    with pytest.raises(ValueError, match="a key has 1 to 200 printable characters"):
        await site.submit(key)


async def test_a_key_needs_an_event_log(site: Site, servers: Addresses) -> None:
    bare = await NoetlClient.connect(servers.temporal, tools=["noop"])
    with pytest.raises(NoEventLogError, match="a key needs an event log"):
        await site.submit("k", client=bare)
