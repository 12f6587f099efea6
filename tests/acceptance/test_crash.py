"""A worker that is killed in the middle: the run goes on where it was, and nothing is stored twice."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import asyncpg
import pytest

from noetl_temporal.mirror.read import EventTail
from noetl_temporal.mirror.store import open_store
from noetl_temporal.stack.leftovers import recorded_processes
from tests.acceptance.processes import wait_until
from tests.acceptance.site import ROOT, Api, Site
from tests.acceptance.test_pagination import ASSESSMENTS, SIZES_AND_PAGES
from tests.mirror.recorded import read, rows_of

pytestmark = pytest.mark.stack

PLAYBOOK = str(ROOT / "tests/acceptance/playbooks/pages_into_postgres.yaml")


def pid_of(site: Site, marker: str) -> int:
    """The process of the stack whose command line has ``marker``."""
    return next(
        process.pid for process in reversed(recorded_processes(site.home.processes_file)) if marker in process.marker
    )


def status(site: Site) -> dict[str, Any]:
    """The latest run."""
    report: dict[str, Any] = json.loads(site.noetl("status", "--json").stdout)
    return report


async def stored_rows(dsn: str) -> list[tuple[int, int]]:
    connection = await asyncpg.connect(dsn)
    try:
        return [tuple(record) for record in await connection.fetch("SELECT size, page FROM pages ORDER BY 1, 2")]
    finally:
        await connection.close()


@pytest.mark.parametrize("calls", [2, 5])
async def test_a_run_continues_after_its_worker_is_killed(bare: Site, api: Api, calls: int) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    try:
        run = bare.start("run", PLAYBOOK, "--json", "--set", f"api_url={api.url}")
        assert wait_until(lambda: api.calls(ASSESSMENTS) >= calls)
        os.kill(pid_of(bare, "cli worker"), signal.SIGKILL)
        out, errors = run.communicate(timeout=100)
        assert run.returncode == 0, errors
        assert json.loads(out)["result"] == [35, 35, 35]
        assert await stored_rows(bare.addresses().playbooks) == SIZES_AND_PAGES
    finally:
        bare.noetl("dev", "down")


async def test_a_run_continues_when_its_killed_stack_starts_again(bare: Site, api: Api) -> None:
    """Everything dies at once; started again, it finishes the run without being asked."""
    assert bare.noetl("dev", "up").returncode == 0
    run = bare.start("run", PLAYBOOK, "--json", "--set", f"api_url={api.url}")
    assert wait_until(lambda: api.calls(ASSESSMENTS) >= 3)
    os.kill(bare.addresses().owner_pid, signal.SIGKILL)
    out, errors = run.communicate(timeout=100)
    assert run.returncode == 3
    assert "the run continues when its stack is up" in errors
    report = json.loads(out)
    assert report["status"] == "unknown"
    assert f"to find out: noetl status {report['execution_id']}" in errors
    assert "Traceback" not in errors
    assert bare.noetl("dev", "up").returncode == 0
    try:
        assert wait_until(lambda: status(bare)["status"] != "running", 60)
        assert status(bare)["result"] == [35, 35, 35]
        assert await stored_rows(bare.addresses().playbooks) == SIZES_AND_PAGES
    finally:
        bare.noetl("dev", "down")


def test_a_run_whose_own_stack_crashes(bare: Site, api: Api) -> None:
    """Nothing but the run keeps that stack up; the run is continued by whoever starts it again."""
    run = bare.start("run", PLAYBOOK, "--json", "--set", f"api_url={api.url}")
    assert wait_until(lambda: api.calls(ASSESSMENTS) >= 3)
    os.kill(bare.addresses().temporal_pid, signal.SIGKILL)
    out, errors = run.communicate(timeout=100)
    report = json.loads(out)
    assert (run.returncode, report["status"]) == (3, "unknown"), errors
    assert "the run continues when its stack is up" in report["reason"]
    assert f"to find out: noetl status {report['execution_id']}" in errors
    assert "Traceback" not in errors


async def test_a_tail_has_each_row_once_after_postgres_lost_the_last_ones(bare: Site) -> None:
    """The mirror's commits are asynchronous. What a crash undoes is stored again, here in another order."""
    playbook, loop = read("pages")
    execution_id = rows_of(playbook)[0].execution_id
    tail = EventTail(execution_id)
    try:
        assert bare.noetl("dev", "up").returncode == 0
        async with open_store(bare.addresses().postgres) as store:
            await store.ingest(playbook.run, playbook.events()[:5])
            await store.ingest(loop.run, loop.events())
            page = await tail.read(store.pool)
            os.kill(pid_of(bare, "unix_socket_directories="), signal.SIGKILL)
            store.pool.terminate()
        assert wait_until(lambda: bare.home.owner() is None, 60)
        assert bare.noetl("dev", "up").returncode == 0
        async with open_store(bare.addresses().postgres) as store:
            await store.ingest(playbook.run, playbook.events())
            await store.ingest(loop.run, loop.events())
            page += await tail.read(store.pool)
    finally:
        bare.noetl("dev", "down")
    stored_ids = [row.event_id for row in [*rows_of(playbook), *rows_of(loop)]]
    assert sorted(event.event_id for event in page) == sorted(stored_ids)
