"""What the README names can be looked at."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.site import ROOT, Api, Site

pytestmark = pytest.mark.stack

README = (ROOT / "README.md").read_text()


async def test_the_sql_shows_the_last_run(site: Site, api: Api, log: asyncpg.Connection) -> None:
    site.run(ROOT / "dev/examples/etl.yaml", "--set", f"api_url={api.url}")
    (query,) = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    rows = await log.fetch(query)
    assert rows[-1]["event_type"] == "playbook.completed"
    assert {row["attempt"] for row in rows} >= {None, "1", "2"}


def test_temporals_own_command_finds_runs(site: Site) -> None:
    report = site.run(ROOT / "dev/examples/hello.yaml")
    temporal = [str(Path(sys.executable).parent / "temporal"), "workflow"]
    server = ["--address", site.addresses().temporal]
    list_result = subprocess.run(
        [*temporal, "list", "--query", 'NoetlPath = "examples/hello"', *server], capture_output=True, text=True
    )
    assert report["workflow_id"] in list_result.stdout, list_result.stderr
    status_result = subprocess.run(
        [*temporal, "show", "--workflow-id", report["workflow_id"], *server], capture_output=True, text=True
    )
    assert "WorkflowExecutionCompleted" in status_result.stdout, status_result.stderr
