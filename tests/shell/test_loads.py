"""Loads of stored values on the real stack: those of many items overlap, and none is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.graph.pinned import NO_CALLS
from noetl_temporal.client import NoetlClient
from noetl_temporal.machine.call import Part, StoredRef
from noetl_temporal.machine.commands import Cancel, LoadValue
from noetl_temporal.machine.facts import ValueLoaded
from noetl_temporal.payloads import stored_values
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from noetl_temporal.workflows import performer
from noetl_temporal.workflows.sub_playbooks import Caller
from noetl_temporal.workflows.trail import Trail

from .conftest import HEAD

ITEMS = 12

LOOP = """
  - step: start
    loop: {in: "{{ range(ITEMS) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: ITEMS}FRAME}
    tool:
      - first: {kind: noop, message: "{{ iter.item }}"SET}
      - second: {kind: noop, input: {n: "{{ first | length }}"}}
"""


def answer(request: Request, _context: ToolContext) -> Any:
    return request.input.get("n") or f"{request.config['message']}" * 100_000


@pytest.mark.parametrize("frame", ["", ", frame: {max_rows: 50}"], ids=["workflow", "frame"])
@pytest.mark.parametrize("binding", ["", ', set: {iter.n: "{{ first | length }}"}'], ids=["a call", "a fact"])
async def test_loads_of_items_overlap(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, frame: str, binding: str
) -> None:
    """No load ends before all have begun."""
    started_keys: set[str] = set()
    all_begun = asyncio.Event()
    load = stored_values.load_json

    async def load_together(values: ValueStore, reference: StoredRef) -> bytes:
        started_keys.add(reference.parts[0].key)
        if len(started_keys) == ITEMS:
            all_begun.set()
        await all_begun.wait()
        return await load(values, reference)

    monkeypatch.setattr("noetl_temporal.payloads.stored_values.load_json", load_together)
    monkeypatch.setattr("noetl_temporal.frames.host.load_json", load_together)
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    text = LOOP.replace("ITEMS", str(ITEMS)).replace("FRAME", frame).replace("SET", binding)
    async with asyncio.timeout(120), serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await client.submit(compile_or_raise(f"{HEAD}workflow:\n{text}"), {})
        report = await handle.result()
    assert report.result["results"] == [len(str(item)) * 100_000 for item in range(ITEMS)]


async def test_a_load_that_begins_while_its_cancelled_one_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.Task[msgspec.Raw]] = []

    def start(_command: LoadValue) -> asyncio.Task[msgspec.Raw]:
        started.append(asyncio.create_task(asyncio.sleep(0.01, msgspec.Raw(b'"the value"'))))
        return started[-1]

    monkeypatch.setattr(performer, "start_load", start)
    monkeypatch.setattr(performer, "now", lambda: 1)
    performing = performer.Performer(Trail(), {}, 1_000, Caller(1, "", "", 0, NO_CALLS), lambda _emit: None)
    load = LoadValue("load:x", StoredRef((Part("x"),), 9, is_one=True))
    performing.perform([load])
    performing.start()
    performing.perform([Cancel(load.id), load])
    performing.start()
    await asyncio.wait(started)
    await asyncio.sleep(0)
    assert list(performing.inbox) == [ValueLoaded(1, load.id, "the value")]
