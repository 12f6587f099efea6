"""Commands mark the rows that a reset superseded, and count them apart."""

from __future__ import annotations

import asyncio
import io
import secrets

import asyncpg
import msgspec
import pytest
from click.testing import CliRunner

from noetl_temporal.cli.console import PrintableConsole
from noetl_temporal.cli.events import events_command
from noetl_temporal.cli.past_run import describe_past_run
from noetl_temporal.mirror.store import open_store
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.stack.addresses import Addresses
from tests.mirror.built import START, child, playbook, reset
from tests.mirror.story import Story


@pytest.fixture
async def dsn(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database in which run 1 was reset after a warning, and a chunk of the run before wrote the last row."""
    name = f"superseded_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(servers.postgres)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    address = servers.postgres.rpartition("/")[0] + f"/{name}"
    await _write(address)
    for variable, value in {**servers.environment(), "NOETL_POSTGRES": address}.items():
        monkeypatch.setenv(variable, value)
    return address


async def _write(dsn: str) -> None:
    base, story = playbook(1), Story(START)
    base.task()
    opening = story.opening()
    base.call(1, opening)
    at = len(base.events) + 3
    base.task()
    loop = story.begins("loop.started", "fetch", "loop", story.workflow)
    chunk = child(base, loop["id"], base.starts_child([loop]), slot=1)
    base.call(1, [story.event("warning", "fetch", "step", "RUNNING", story.workflow, error="odd")])
    reset_history = reset(base, at=at, run_id="r2", now=START + 1000)
    chunk.now = START + 2000
    chunk.task()
    chunk.call(1, [Story(chunk.now, 1).begins("loop.iteration.started", "fetch", "iteration", loop["id"])])
    async with open_store(dsn) as store:
        for history in (base, reset_history, chunk):
            await store.ingest(history.run, history.events)


async def test_events_that_a_reset_superseded_are_marked(dsn: str) -> None:
    del dsn
    result = await asyncio.to_thread(CliRunner().invoke, events_command, [f"{1:018}", "--json"])
    rows = [msgspec.json.decode(line) for line in result.output.splitlines()]
    assert [(row["event_type"], row["superseded"]) for row in rows] == [
        ("playbook.execution.requested", False),
        ("playbook.request.evaluated", False),
        ("playbook.started", False),
        ("workflow.started", False),
        ("loop.started", True),
        ("warning", True),
        ("playbook.resumed", False),
        ("loop.iteration.started", True),
    ]
    result = await asyncio.to_thread(CliRunner().invoke, events_command, [f"{1:018}", "--last", "2"])
    resumed_line, iteration = result.output.splitlines()[1:]
    assert "superseded" not in resumed_line
    assert "superseded by a reset" in iteration


async def test_the_report_of_a_run_omits_superseded_rows(dsn: str) -> None:
    past = await describe_past_run(dsn, data_converter(dsn), 1)
    assert past is not None
    assert (past.events, past.superseded, past.warnings) == (5, 3, ())
    assert (past.workflow_id, past.run_id) == ("tests/built/1", "r2")
    text = io.StringIO()
    past.show(PrintableConsole(file=text, width=200))
    assert "5 events (3 superseded), execution 1" in text.getvalue()
