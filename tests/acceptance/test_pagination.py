"""Loop with pagination, end to end: what the API was asked, what came back, what was logged and stored."""

from __future__ import annotations

import asyncpg
import pytest

from tests.acceptance.site import ROOT, Api, Site

pytestmark = pytest.mark.stack

ASSESSMENTS = "/api/v1/assessments"
SIZES_AND_PAGES = [(10, 1), (10, 2), (10, 3), (10, 4), (15, 1), (15, 2), (15, 3), (20, 1), (20, 2)]


async def counts(log: asyncpg.Connection, execution_id: int) -> dict[str, int]:
    """Event type -> rows."""
    query = "SELECT event_type, count(*) FROM noetl.event WHERE execution_id = $1 GROUP BY 1"
    return {record[0]: record[1] for record in await log.fetch(query, execution_id)}


async def test_three_loops_of_pages_make_nine_calls(site: Site, api: Api, log: asyncpg.Connection) -> None:
    report = site.run(ROOT / "dev/older_examples/pagination_legacy.yaml", "--set", f"api_url={api.url}")
    assert report["status"] == "completed", report["failures"]
    assert report["steps"]["fetch"]["attempts"] == 9
    assert api.calls(ASSESSMENTS) == 9
    event_counts = await counts(log, int(report["execution_id"]))
    assert {name: event_counts.get(name) for name in ("loop.started", "loop.iteration.done", "loop.done")} == {
        "loop.started": 1,
        "loop.iteration.done": 3,
        "loop.done": 1,
    }
    query = """
        SELECT (meta->>'iteration')::int, (meta->>'page')::int FROM noetl.event
        WHERE execution_id = $1 AND event_type = 'task.attempt.done' AND meta->>'step' = 'fetch' ORDER BY 1, 2
    """
    pages = [tuple(record) for record in await log.fetch(query, int(report["execution_id"]))]
    assert pages == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]


async def test_every_page_is_stored_once(site: Site, api: Api, playbooks: asyncpg.Connection) -> None:
    report = site.run(ROOT / "tests/acceptance/playbooks/pages_into_postgres.yaml", "--set", f"api_url={api.url}")
    assert report["status"] == "completed", report["failures"]
    assert report["result"] == [35, 35, 35]
    query = "SELECT size, page FROM pages WHERE execution_id = $1 ORDER BY 1, 2"
    assert [tuple(record) for record in await playbooks.fetch(query, int(report["execution_id"]))] == SIZES_AND_PAGES


async def test_the_etl_example_stores_every_page_and_retries(site: Site, api: Api, log: asyncpg.Connection) -> None:
    report = site.run(ROOT / "dev/examples/etl.yaml", "--set", f"api_url={api.url}")
    assert report["status"] == "completed", report["failures"]
    assert report["result"] == {"items": 170, "pages": {"assessments": 4, "flaky": 4, "heavy": 4}}
    assert api.calls("/api/v1/flaky") == 6, "four pages, two of which fail once"
    event_counts = await counts(log, int(report["execution_id"]))
    assert event_counts["task.attempt.failed"] == 2
    assert event_counts["sink.done"] == 12


async def test_a_rebuilt_event_log_is_the_same(site: Site, api: Api, log: asyncpg.Connection) -> None:
    report = site.run(ROOT / "dev/older_examples/pagination_legacy.yaml", "--set", f"api_url={api.url}")
    query = "SELECT * FROM noetl.event WHERE execution_id = $1 ORDER BY event_id"
    columns = "event_id, parent_event_id, event_type, node_name, status, duration, context, result, meta, error"
    query = query.replace("*", columns)
    before = await log.fetch(query, int(report["execution_id"]))
    assert site.noetl("mirror", "rebuild").returncode == 0
    assert await log.fetch(query, int(report["execution_id"])) == before
    assert report["execution_id"] not in site.noetl("mirror", "problems").stdout
