"""Runs that Temporal no longer has: what is shown of them, and what ``noetl prune`` removes and keeps."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from noetl_temporal.stack.use import running_stack
from tests.acceptance.processes import wait_until
from tests.acceptance.site import ROOT, Site
from tests.audit import audit_everything

pytestmark = pytest.mark.stack

HELLO = ROOT / "dev/examples/hello.yaml"

SERVE = """
from noetl_temporal.cli.main import main
from noetl_temporal.stack.temporal import DYNAMIC_CONFIG

DYNAMIC_CONFIG["history.transferProcessorEnsureCloseBeforeDelete"] = "false"
DYNAMIC_CONFIG["history.visibilityProcessorEnsureCloseBeforeDelete"] = "false"
main()
"""
"""``noetl`` whose Temporal deletes a run at once; else it does so half a minute after the run has ended."""

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workload: {letter: a}
workflow:
  - step: start
    tool: {kind: python, input: {letter: "{{ workload.letter }}"}, code: "result = {'text': letter * 200000}"}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A folder whose stack is up. At its end its log must hold."""
    site = Site(tmp_path_factory.mktemp("site"))
    with subprocess.Popen([sys.executable, "-c", SERVE, "dev", "serve"], cwd=site.folder) as serving:
        assert wait_until(lambda: running_stack(site.home) is not None, 90)
        yield site
        assert asyncio.run(audit_everything(site.addresses().postgres)) == {}
        serving.terminate()


async def _expire(site: Site, workflow_id: str) -> None:
    """Remove the run from Temporal, as the retention does."""
    client = await Client.connect(site.addresses().temporal)
    execution = WorkflowExecution(workflow_id=workflow_id)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(request)
    while await _is_there(client, workflow_id):
        await asyncio.sleep(0.05)


async def _is_there(client: Client, workflow_id: str) -> bool:
    """In its history or in the list of runs."""
    try:
        await client.get_workflow_handle(workflow_id).describe()
    except RPCError:
        return (await client.count_workflows(f"WorkflowId = '{workflow_id}'")).count > 0
    return True


async def _age(log: asyncpg.Connection, execution_id: int) -> None:
    """The run ended, and stored what it owns, 40 days before."""
    run = "(SELECT workflow_id FROM noetl.cursor WHERE execution_id = $1)"
    history = f"UPDATE noetl.history SET event_time = event_time - interval '40 days' WHERE workflow_id IN {run}"
    owned_keys = "(SELECT key FROM noetl.payload_owner WHERE execution_id = $1)"
    await log.execute(history, execution_id)
    await log.execute(
        f"UPDATE noetl.payload SET used_at = now() - interval '40 days' WHERE key IN {owned_keys}", execution_id
    )


def _json(site: Site, *args: str) -> dict[str, Any]:
    done = site.noetl(*args, "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


async def test_a_run_that_temporal_has_no_longer(site: Site) -> None:
    account = site.run(HELLO)
    await _expire(site, account["workflow_id"])
    id_ = str(account["execution_id"])
    past = _json(site, "status", id_)
    assert past.pop("duration_seconds") == pytest.approx(account.pop("duration_seconds"), abs=0.1)
    assert account.pop("ui_url")
    assert past.pop("ui_url") is None
    assert past == account
    assert len(site.noetl("events", id_, "--json").stdout.splitlines()) == account["events"]


async def test_the_values_of_an_old_run_are_removed_and_its_log_is_kept(site: Site, log: asyncpg.Connection) -> None:
    playbook = site.write(PLAYBOOK)
    old, new = (site.run(playbook, "--set", f"letter={letter}") for letter in "ab")
    events = site.noetl("events", str(old["execution_id"])).stdout
    await _age(log, int(old["execution_id"]))
    await _expire(site, old["workflow_id"])

    refusal = site.noetl("prune", "--older-than", "7d")
    assert refusal.returncode == 2
    assert "use --older-than 30d or more" in refusal.stderr
    counts = _json(site, "prune", "--dry-run")
    assert (counts["dry_run"], counts["executions"]) == (True, 1)
    assert counts["payloads"] >= 2
    assert counts["bytes"] > 400_000
    assert f"removed {counts['payloads']} payloads, " in site.noetl("prune").stdout
    assert _json(site, "prune")["payloads"] == 0

    status = _json(site, "status", str(old["execution_id"]))
    assert (status["status"], status["result"]) == ("completed", None)
    assert (status["steps"]["start"]["status"], status["events"]) == ("completed", old["events"])
    assert any("pruned" in warning for warning in status["warnings"])
    assert "skipped 1 pruned run: its rows are unchanged\n" in site.noetl("mirror", "rebuild").stdout
    assert site.noetl("events", str(old["execution_id"])).stdout == events
    assert _json(site, "status", str(new["execution_id"]))["result"] == {"text": "b" * 200_000}
