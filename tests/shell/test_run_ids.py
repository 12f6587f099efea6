"""Runs are found by every ID that is printed, and listed from the event log or from Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import AmbiguousIdError, NoetlClient, RunHandle, UnknownRunError
from noetl_temporal.ids import exact_id, new_execution_id
from noetl_temporal.inspection.run_ids import matching_run
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: listed, path: "PATH"}
workflow:
  - step: start
    tool: {kind: noop, message: "{{ workload.word }}"}
"""
WORDS = ("well", "badly", "waiting")


class Site:
    """Three runs of a path that only this test has: one completed, one failed, one that waits."""

    def __init__(self, client: NoetlClient, bare: NoetlClient, path: str, runs: dict[str, RunHandle]) -> None:
        self.client, self.bare, self.path, self.runs = client, bare, path, runs


@pytest.fixture
async def site(servers: Addresses) -> AsyncIterator[Site]:
    await migrate(servers.postgres)
    let_go = asyncio.Event()

    async def answer(request: Request, context: ToolContext) -> int:
        del context
        if request.config["message"] == "waiting":
            await let_go.wait()
        if request.config["message"] == "badly":
            raise ValueError("badly")
        return 1

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    bare = await NoetlClient.connect(servers.temporal, tools=tools)
    path = f"tests/it's 100%_/{new_execution_id()}"
    graph = compile_or_raise(TEXT.replace("PATH", path), "listed.yaml")
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        runs = {word: await client.submit(graph, {"word": word}) for word in WORDS}
        for word in WORDS[:2]:
            await runs[word].wait(timedelta(seconds=30))
        for handle in runs.values():
            if handle is not runs["waiting"]:
                await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
        async with asyncio.timeout(30):
            while len(await bare.list(path, ["running", "completed", "failed"])) < len(WORDS):
                await asyncio.sleep(0.1)  # Temporal's list is behind a moment
            while len(await bare.list(path, "running")) > 1:
                await asyncio.sleep(0.1)
        yield Site(client, bare, graph.source.path, runs)
        let_go.set()
        await runs["waiting"].result()


async def test_whole_ids_and_beginnings_name_a_run(site: Site) -> None:
    run = site.runs["waiting"]
    for client in (site.client, site.bare):
        for name in (run.execution_id, str(run.execution_id), run.workflow_id, run.workflow_id[:-4]):
            runs_found = await client.find(name)
            assert runs_found.execution_id == run.execution_id
        assert (await client.find(str(run.execution_id)[:17])).execution_id == run.execution_id


async def test_an_ambiguous_prefix_lists_the_runs(site: Site) -> None:
    for client in (site.client, site.bare):
        with pytest.raises(AmbiguousIdError, match="3 runs have an ID that begins with") as failure:
            await client.find(site.path)
        assert all(run.workflow_id in str(failure.value) for run in site.runs.values())
    with pytest.raises(UnknownRunError, match="no run has an ID that begins with 'nowhere'"):
        await site.client.find("nowhere")


async def test_runs_are_listed_by_path_status_and_time(site: Site) -> None:
    ids = {word: run.execution_id for word, run in site.runs.items()}
    now = datetime.now(UTC)
    path = await site.bare.list(site.path)
    assert [run.execution_id for run in path] == sorted(ids.values(), reverse=True)
    assert [run.status for run in path] == ["running", "failed", "completed"]
    assert all(run.path == site.path and run.workflow_id.endswith(str(run.execution_id)) for run in path)
    assert all(now - timedelta(minutes=2) < run.started <= now for run in path)
    assert [run.ended is None for run in path] == [True, False, False]
    listed_runs = await site.client.list(site.path)  # nobody mirrors the one that waits
    assert [(run.execution_id, run.status) for run in listed_runs] == [
        (ids["badly"], "failed"),
        (ids["well"], "completed"),
    ]
    assert [bool(run.error) for run in listed_runs] == [True, False]
    for client in (site.client, site.bare):
        assert [run.execution_id for run in await client.list(site.path, "failed")] == [ids["badly"]]
        both = await client.list(f"{site.path[:-3]}*", ["failed", "completed"])
        assert [run.execution_id for run in both] == [ids["badly"], ids["well"]]
        assert await client.list(site.path, since=now + timedelta(minutes=1)) == []
        assert len(await client.list(site.path, since=now - timedelta(minutes=5), limit=1)) == 1
        assert await client.list(site.path, ended_since=now + timedelta(minutes=1)) == []
        recent = await client.list(site.path, ended_since=now - timedelta(minutes=5))
        assert {run.execution_id for run in recent} == {ids[word] for word in ids if word != "waiting"}
        assert await client.list(f"{site.path}/other") == []


async def test_a_wait_that_is_too_short_leaves_the_run(site: Site) -> None:
    with pytest.raises(TimeoutError):
        await site.runs["waiting"].wait(timedelta(seconds=0.1))
    assert (await site.bare.list(site.path, "running"))[0].execution_id == site.runs["waiting"].execution_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("766377181459998035", 766377181459998035),
        ("7", None),
        ("76637", None),
        ("766377", None),
        ("76637718145999803", None),
        ("examples/etl", None),
    ],
)
def test_only_whole_numbers_are_not_looked_up(text: str, expected: int | None) -> None:
    assert exact_id(text) == expected


def test_a_whole_id_is_meant_where_others_begin_with_it() -> None:
    matches = {123456: "a/123456", 1234567: "a/1234567"}
    assert matching_run("123456", matches) == 123456
    assert matching_run("a/123456", matches) == 123456
    assert matching_run("a/1234567", {1234567: "a/1234567"}) == 1234567
    assert matching_run("a", {}) is None
    workflow_ids = {id_: f"a/{id_}" for id_ in range(1000, 1030)}
    with pytest.raises(AmbiguousIdError, match="and 10 more"):
        matching_run("a/10", workflow_ids)
