"""``noetl prune`` on the whole stack: the large values of an old run are removed, its event log is kept."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client

from noetl_temporal.cli.prune import summary
from noetl_temporal.mirror.needed import BlockingRun
from noetl_temporal.mirror.prune import Pruned
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workload: {letter: a}
workflow:
  - step: start
    tool: {kind: python, input: {letter: "{{ workload.letter }}"}, code: "result = {'text': letter * 200000}"}
"""


async def _age(log: asyncpg.Connection, execution_id: int) -> None:
    """The run ended, and stored what it owns, 40 days before."""
    run = "(SELECT workflow_id FROM noetl.cursor WHERE execution_id = $1)"
    history = f"UPDATE noetl.history SET event_time = event_time - interval '40 days' WHERE workflow_id IN {run}"
    owned = "(SELECT key FROM noetl.payload_owner WHERE execution_id = $1)"
    await log.execute(history, execution_id)
    await log.execute(
        f"UPDATE noetl.payload SET used_at = now() - interval '40 days' WHERE key IN {owned}", execution_id
    )


async def _expire(site: Site, workflow_id: str) -> None:
    """Remove the run from Temporal, as the retention does."""
    client = await Client.connect(site.addresses().temporal)
    gone = WorkflowExecution(workflow_id=workflow_id)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=gone)
    await client.workflow_service.delete_workflow_execution(request)
    query = f"WorkflowId = '{workflow_id}'"
    while (await client.count_workflows(query, rpc_timeout=timedelta(seconds=60))).count:
        await asyncio.sleep(0.2)


def _json(site: Site, *args: str) -> dict[str, Any]:
    done = site.noetl(*args)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def test_the_values_of_an_old_run_are_removed_and_its_log_is_kept(site: Site, log: asyncpg.Connection) -> None:
    playbook = site.write(PLAYBOOK)
    old, new = (site.run(playbook, "--set", f"letter={letter}") for letter in "ab")
    events = site.noetl("events", str(old["execution_id"])).stdout
    await _age(log, old["execution_id"])
    await _expire(site, old["workflow_id"])

    refused = site.noetl("prune", "--older-than", "7d")
    assert refused.returncode == 2
    assert "use --older-than 30d or more" in refused.stderr
    told = _json(site, "prune", "--dry-run", "--json")
    assert (told["dry_run"], told["executions"]) == (True, 1)
    assert told["payloads"] >= 2
    assert told["bytes"] > 400_000
    assert f"removed {told['payloads']} payloads, " in site.noetl("prune").stdout
    assert _json(site, "prune", "--json")["payloads"] == 0

    status = _json(site, "status", str(old["execution_id"]), "--json")
    assert (status["status"], status["result"]) == ("completed", None)
    assert (status["steps"]["start"]["status"], status["events"]) == ("completed", old["events"])
    assert any("pruned" in warning for warning in status["warnings"])
    assert "skipped 1 pruned run: its rows are unchanged\n" in site.noetl("mirror", "rebuild").stdout
    assert site.noetl("events", str(old["execution_id"])).stdout == events
    assert _json(site, "status", str(new["execution_id"]), "--json")["result"] == {"text": "b" * 200_000}


def test_the_summary_says_what_is_kept_and_why() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    pruned = Pruned(now, 1, 2, 1_234_567, 3, BlockingRun(now - timedelta(days=9), "tests/large/1", "r1"))
    removed, retained, blocked = summary(pruned, dry_run=True).splitlines()
    assert removed == "would remove 2 payloads, 1.23 MB; would prune 1 run that ended before 2026-03-01 00:00 UTC"
    assert retained == "skipped, still in Temporal: 3 runs"
    assert blocked == (
        "kept all payloads stored since 2026-02-20 00:00 UTC: tests/large/1 run r1 has calls in progress, or the "
        "mirror has not read all of its history (see `noetl mirror problems`)"
    )


@pytest.mark.parametrize("age", ["30", "soon", "1e9999d", "9999999999999d"])
def test_an_age_that_is_none_is_refused(site: Site, age: str) -> None:
    done = site.noetl("prune", "--older-than", age)
    assert done.returncode == 2
    assert "is not a duration, such as 30d or 36h" in done.stderr
