"""The loop of ``--sub-playbooks`` whose items are calls of a playbook, and the check that each playbook runs once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import asyncpg

from dev.killing.playbook import ROWS, playbook, tool_for_item
from dev.killing.verdict import NOT_SUPERSEDED, Verdict, stored_rows
from noetl_temporal.stack.addresses import Addresses

__all__ = ["verdict_of_calls", "write_playbooks"]

LOOP = """    loop:
      in: "{{ range(workload['items']) | list }}"
      iterator: item
      spec: {mode: parallel, max_in_flight: 10}
    tool:
      kind: playbook
      path: ./item.yaml
      input:
        run: "{{ execution_id }}"
        item: "{{ iter.item }}"
        api: "{{ workload.api }}"
        seconds: "{{ workload.seconds }}"
"""

CALLED = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: item, path: dev/killing/item}
workload: {run: 0, item: 0, api: "", seconds: 0.3}
workflow:
  - step: start
"""


def write_playbooks(folder: Path) -> Path:
    """Write both playbooks, and return the path of the one to submit."""
    (folder / "item.yaml").write_text(CALLED + tool_for_item("{{ workload.run }}", "{{ workload.item }}"))
    caller = folder / "killing.yaml"
    caller.write_text(playbook(ROWS, LOOP))
    return caller


async def verdict_of_calls(addresses: Addresses, execution_id: int, items: int, calls: Counter[int]) -> Verdict:
    """Check that each item has one row or a recorded failure, and one run of the playbook that it calls.

    ``calls`` has the number of requests of each item at the service.
    """
    rows = await stored_rows(addresses.playbooks, execution_id)
    connection = await asyncpg.connect(addresses.postgres)
    try:
        status = await connection.fetchval("SELECT status FROM noetl.execution WHERE execution_id = $1", execution_id)
        children = await connection.fetch(CHILDREN, execution_id)
        failed_items = await connection.fetch(FAILED, execution_id)
        repeated_runs = await connection.fetch(REPEATED_RUNS, execution_id)
    finally:
        await connection.close()
    failures = {row["item"]: str(row["error"]) for row in failed_items}
    verdict = Verdict(execution_id, str(status), rows.total(), len(failures), calls.total())
    verdict.failures = Counter(failures.values())
    verdict.problems = [f"item {item} has {rows[item]} rows" for item in range(items) if rows[item] > 1]
    verdict.problems += [f"item {item} was lost" for item in range(items) if not rows[item] and item not in failures]
    verdict.problems += [f"run {row['execution_id']} called again after its call had reported" for row in repeated_runs]
    if len(children) != items:
        verdict.problems.append(f"{items} items made {len(children)} runs of the called playbook")
    verdict.problems += [
        f"run {row['execution_id']} is {row['status']}" for row in children if row["status"] not in ENDED
    ]
    return verdict


ENDED = ("COMPLETED", "FAILED")
CHILDREN = "SELECT execution_id, status FROM noetl.execution WHERE parent_execution_id = $1"
FAILED = (
    "SELECT (meta->>'iteration')::int AS item, error FROM noetl.event"
    f" WHERE execution_id = $1 AND event_type = 'loop.iteration.failed' {NOT_SUPERSEDED}"
)
REPEATED_RUNS = (
    "SELECT execution_id FROM noetl.event WHERE event_type = 'task.attempt.done'"
    " AND execution_id IN (SELECT execution_id FROM noetl.execution WHERE parent_execution_id = $1)"
    " AND event_id NOT IN (SELECT event_id FROM noetl.superseded_events(execution_id))"
    " GROUP BY execution_id HAVING count(*) > 1"
)
