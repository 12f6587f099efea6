"""The catalog in Postgres: versions by text, runs of a version, and calls that are looked up there (semantics 27)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import CompileError
from noetl_temporal.client import CatalogEntry, NoetlClient, NoEventLogError, UnknownPlaybookError
from noetl_temporal.ids import new_execution_id
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.submission.catalog_store import split_version
from noetl_temporal.worker import serving

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: catalog, path: PATH}
workload: {n: 0}
workflow:
  - step: start
    tool: TOOL
"""


class Site:
    """A client beside a worker, a folder, and paths that only this test has."""

    def __init__(self, client: NoetlClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.path = f"tests/catalog/{new_execution_id()}"

    def write(self, message: str = "one", tool: str = "", name: str = "a.yaml", path: str = "") -> Path:
        file = self.folder / name
        tool = tool or f"{{kind: noop, message: {message}}}"
        file.write_text(TEXT.replace("PATH", path or self.path).replace("TOOL", tool))
        return file

    async def register(self, *paths: Path) -> list[tuple[int, bool, int]]:
        """Version, whether it is new, and the newest of the path."""
        done = await self.client.register(*(paths or (self.folder,)))
        return [(playbook.entry.version, playbook.is_new, playbook.newest) for playbook in done.playbooks]

    async def result(self, entry: CatalogEntry, **payload: Any) -> Any:
        report = await (await self.client.submit(entry, payload)).result()
        assert report.status == "completed", report
        return report.result


@pytest.fixture
async def site(servers: Addresses, tmp_path: Path) -> AsyncIterator[Site]:
    await migrate(servers.postgres)

    async def answer(request: Request, context: ToolContext) -> Any:
        del context
        return request.config["message"]

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        yield Site(client, tmp_path)


@pytest.mark.parametrize(
    ("text", "path", "version"),
    [
        ("etl/load@3", "etl/load", 3),
        ("etl/load@latest", "etl/load", None),
        ("etl/load", "etl/load", None),
        ("a@b/load", "a@b/load", None),
        ("a@b@3", "a@b", 3),
        ("@3", "@3", None),
        (f"a@{'9' * 5000}", f"a@{'9' * 5000}", None),
    ],
)
def test_forms_of_names_in_the_catalog(text: str, path: str, version: int | None) -> None:
    assert split_version(text) == (path, version)


async def test_the_same_text_is_the_same_version(site: Site) -> None:
    site.write("one")
    assert await site.register() == [(1, True, 1)]
    assert await site.register() == [(1, False, 1)]
    site.write("two")
    assert await site.register() == [(2, True, 2)]
    site.write("one")
    assert await site.register() == [(1, False, 2)]
    assert [version.version for version in await site.client.catalog.versions(site.path)] == [2, 1]
    assert [entry.name for entry in await site.client.catalog.list(f"{site.path}*")] == [f"{site.path}@2"]


async def test_registering_at_the_same_time_makes_one_version(site: Site) -> None:
    site.write()
    answers = await asyncio.gather(*(site.register() for _ in range(8)))
    assert [version for registrations in answers for version, _, _ in registrations] == [1] * 8
    assert sum(is_new for registrations in answers for _, is_new, _ in registrations) == 1


async def test_none_of_a_folder_is_registered_if_one_is_wrong(site: Site) -> None:
    site.write()
    site.write(tool="{kind: nop}", name="b.yaml", path=f"{site.path}/b")
    site.write(tool="{kind: nup}", name="c.yaml", path=f"{site.path}/c")
    with pytest.raises(CompileError) as failure:
        await site.register()
    assert {Path(diagnostic.file).name for diagnostic in failure.value.diagnostics} == {"b.yaml", "c.yaml"}
    assert await site.client.catalog.list(f"{site.path}*") == []


async def test_a_run_is_of_the_version_that_it_names(site: Site) -> None:
    for message in ("one", "two"):
        site.write(message)
        await site.register()
    first = await site.client.catalog.get(site.path, 1)
    assert await site.result(first) == "one"
    assert await site.result(await site.client.catalog.get(site.path)) == "two"
    handle = await site.client.submit(first)
    await handle.result()
    await follow_execution(site.client.temporal, site.client.dsn or "", handle.workflow_id)
    [run] = [run for run in await site.client.list(site.path) if run.execution_id == handle.execution_id]
    assert run.version == "1"


async def test_a_text_that_was_run_before_keeps_its_number_unless_a_newer_one_was_registered(site: Site) -> None:
    for message in ("one", "two"):
        handle = await site.client.submit(site.write(message))
        await handle.result()
        await follow_execution(site.client.temporal, site.client.dsn or "", handle.workflow_id)
    assert await site.client.catalog.versions(site.path) == []  # runs alone register nothing
    assert await site.register() == [(2, True, 2)]
    site.write("one")
    assert await site.register() == [(3, True, 3)]
    second_run = await site.client.submit(await site.client.catalog.get(site.path))
    await second_run.result()
    await follow_execution(site.client.temporal, site.client.dsn or "", second_run.workflow_id)
    assert next(run.version for run in await site.client.list(site.path)) == "3"


async def test_a_missing_path_or_version_is_reported(site: Site) -> None:
    site.write()
    await site.register()
    with pytest.raises(UnknownPlaybookError, match=r"has no version 7 of .*; it has 1$"):
        await site.client.catalog.get(site.path, 7)
    with pytest.raises(UnknownPlaybookError, match="did you mean"):
        await site.client.catalog.get(f"{site.path}x")
    with pytest.raises(UnknownPlaybookError):
        await site.client.catalog.get("\udcff")


async def test_calls_mean_the_catalog_and_stay_pinned(site: Site) -> None:
    child = f"{site.path}/child"
    site.write(tool=f"{{kind: playbook, path: {child}}}", name="parent.yaml")
    site.write(tool=f"{{kind: playbook, path: {child}, version: 1}}", name="pinned.yaml", path=f"{site.path}/pinned")
    site.write(tool="{kind: playbook, path: '{{ workload.called }}'}", name="open.yaml", path=f"{site.path}/open")
    for message in ("old", "new"):
        site.write(message, name="child.yaml", path=child)
        await site.register()
    get = site.client.catalog.get
    assert await site.result(await get(site.path)) == "new"
    assert await site.result(await get(f"{site.path}/pinned")) == "old"
    assert await site.result(await get(f"{site.path}/open"), called=child) == "new"
    assert await site.result(await get(f"{site.path}/open"), called=f"{site.path}/pinned") == "old"


@pytest.mark.parametrize(("version", "expected"), [("", "unknown playbook"), (", version: 9", 'has no version "9"')])
async def test_a_call_of_what_is_not_registered_is_refused(site: Site, version: str, expected: str) -> None:
    path = f"{site.path}/child" if version else f"{site.path}/nowhere"
    site.write(name="child.yaml", path=f"{site.path}/child")
    site.write(tool=f"{{kind: playbook, path: {path}{version}}}", name="parent.yaml")
    await site.register()
    with pytest.raises(CompileError, match=expected):
        await site.client.submit(await site.client.catalog.get(site.path))


async def test_the_catalog_needs_postgres(servers: Addresses, tmp_path: Path) -> None:
    bare = await NoetlClient.connect(servers.temporal, tools=["noop"])
    file = Site(bare, tmp_path).write()
    with pytest.raises(NoEventLogError, match="the catalog is in Postgres"):
        await bare.register(file)
