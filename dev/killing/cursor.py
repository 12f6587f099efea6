"""The loop of ``--cursor`` over the rows of a table, and the check that each row is acknowledged once."""

from __future__ import annotations

from collections import Counter

import asyncpg

from dev.killing.playbook import playbook, tool_for_item
from dev.killing.verdict import NOT_SUPERSEDED, Verdict
from noetl_temporal.stack.addresses import Addresses

__all__ = ["cursor_loop", "verdict_of_rows"]

SETUP = """
CREATE TABLE IF NOT EXISTS killed_jobs
  (run bigint, item int, status text DEFAULT 'new', token text, until timestamptz, PRIMARY KEY (run, item));
CREATE TABLE IF NOT EXISTS killed_acks (run bigint, item int, status text);
INSERT INTO killed_jobs
  SELECT {{ execution_id }}, generate_series(0, {{ workload["items"] }} - 1) ON CONFLICT DO NOTHING
"""

LOOP = """    loop:
      cursor:
        kind: postgres
        auth: pg_local
        claim: |
          UPDATE killed_jobs SET token = {{ lease.token }}, until = now() + {{ lease.seconds }} * interval '1 second'
          WHERE run = {{ execution_id }} AND item IN (
            SELECT item FROM killed_jobs
            WHERE run = {{ execution_id }} AND status = 'new' AND (until IS NULL OR until < now())
            ORDER BY item LIMIT {{ __frame_max_rows }} FOR UPDATE SKIP LOCKED)
          RETURNING item
        renew: |
          UPDATE killed_jobs SET until = now() + {{ lease.seconds }} * interval '1 second'
          WHERE run = {{ execution_id }} AND item = {{ row.item }} AND token = {{ lease.token }}
        ack: |
          WITH done AS (
            UPDATE killed_jobs SET status = 'done'
            WHERE run = {{ execution_id }} AND item = {{ row.item }} AND token = {{ lease.token }} AND status = 'new'
            RETURNING run, item)
          INSERT INTO killed_acks SELECT run, item, {{ output.status }} FROM done
        release: |
          UPDATE killed_jobs SET until = NULL
          WHERE run = {{ execution_id }} AND item = {{ row.item }} AND token = {{ lease.token }} AND status = 'new'
      iterator: job
      spec: {mode: cursor, max_in_flight: 5, frame: {max_rows: 8, row_concurrency: 4, lease_seconds: LEASE}}
"""


STEPS = """    next: {arcs: [{step: call}]}
  - step: call
CALL    next: {arcs: [{step: check}]}
  - step: check
    tool: {kind: postgres, auth: pg_local, query: "SELECT pg_sleep(0.1), {{ iter.job.item }} AS item"}
    next: {arcs: [{step: met}]}
  - {step: met, spec: {end_loop: each}}
"""


def cursor_loop(lease_seconds: int, *, over_steps: bool) -> str:
    """Return a loop over a table that the run fills itself; with ``over_steps`` each row runs several steps."""
    loop = LOOP.replace("LEASE", str(lease_seconds))
    call = tool_for_item("{{ execution_id }}", "{{ iter.job.item }}", stores=False)
    return playbook(SETUP, loop + (STEPS.replace("CALL", call) if over_steps else call))


async def verdict_of_rows(addresses: Addresses, execution_id: int, items: int, calls: Counter[int]) -> Verdict:
    """Check a run; ``calls`` has the number of calls of each row."""
    acks = await _fetch(addresses.playbooks, "SELECT item, status FROM killed_acks WHERE run = $1", execution_id)
    status = await _fetch(
        addresses.postgres, "SELECT status FROM noetl.execution WHERE execution_id = $1", execution_id
    )
    counts = Counter(int(row["item"]) for row in acks)
    count_of_failed = sum(row["status"] == "error" for row in acks)
    verdict = Verdict(execution_id, str(status[0]["status"]), counts.total(), count_of_failed, calls.total())
    errors = await _fetch(
        addresses.postgres,
        "SELECT error FROM noetl.event WHERE execution_id = $1 AND event_type = 'loop.iteration.failed'"
        f" {NOT_SUPERSEDED}",
        execution_id,
    )
    verdict.failures = Counter(str(row["error"]) for row in errors)
    verdict.problems = [
        f"row {item} was acknowledged {counts[item]} times" for item in range(items) if counts[item] != 1
    ]
    return verdict


async def _fetch(dsn: str, sql: str, execution_id: int) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(sql, execution_id)
    finally:
        await connection.close()
