"""noetl.running_attempt: the attempts of a call while it runs, in SQL (semantics.md 40)."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from tests.acceptance.site import Api, Site

pytestmark = pytest.mark.stack

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/waits}
workload: {api: http://127.0.0.1:5555}
workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          url: "{{ workload.api }}/api/v1/flaky?page=1&fail_on=1"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: retry, attempts: 2, delay: 6}
      - {name: slow, kind: http, url: "{{ workload.api }}/api/v1/concurrency/probe?delay_seconds=6"}
"""

RUNNING_ATTEMPTS = """
SELECT execution_id, task, attempt, status, error, rule, due_at > started.at AS is_later
FROM noetl.running_attempt, LATERAL (SELECT min(started_at) AS at FROM noetl.running_attempt) started ORDER BY attempt
"""


ENDED_ATTEMPTS = """
SELECT count(*) FROM noetl.event
WHERE execution_id = $1 AND event_type IN ('task.attempt.failed', 'task.attempt.done')
"""


async def test_attempts_are_seen_while_the_call_waits_and_runs(site: Site, api: Api, log: asyncpg.Connection) -> None:
    file = site.write(PLAYBOOK, "waits.yaml")
    run = site.start("run", str(file), "--json", "--set", f"api={api.url}")

    async def attempts_of(task: str) -> list[asyncpg.Record]:
        return [row for row in await log.fetch(RUNNING_ATTEMPTS) if row["task"] == task]

    async def until(task: str, count: int) -> list[asyncpg.Record]:
        while len(rows := await attempts_of(task)) < count:
            assert run.poll() is None, run.communicate()
        return rows

    failed, waits = await until("fetch", 2)
    assert (failed["attempt"], failed["status"], failed["rule"]) == (1, "FAILED", 0)
    assert "500" in failed["error"]
    assert (waits["attempt"], waits["status"], waits["is_later"]) == (2, "PENDING", True)
    assert await log.fetchval(ENDED_ATTEMPTS, failed["execution_id"]) == 0, "history has them when the call ends"
    [slow] = await until("slow", 1)
    assert (slow["attempt"], slow["status"]) == (1, "STARTED")
    report = json.loads(run.communicate()[0])
    assert report["status"] == "completed"
    assert await log.fetchval(ENDED_ATTEMPTS, int(report["execution_id"])) == 3
    async with asyncio.timeout(90):
        while await attempts_of("fetch") or await attempts_of("slow"):
            await asyncio.sleep(0.1)
