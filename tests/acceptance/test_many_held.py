"""A thousand items that are held at once, decided from the command line."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.site import Api, Site
from tests.audit import audit_execution

pytestmark = pytest.mark.stack

ITEMS = 1_000

LOAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, path: examples/load}
workload: {api: "http://127.0.0.1:5555"}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: each_left}, {step: each_right}]}
  - step: each_left
    loop: {in: "{{ range(500) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 500}}
    next: {arcs: [{step: left}]}
  - step: left
    on_failure: {do: hold, for: 2h}
    tool: {kind: http, url: "{{ workload.api }}/missing/{{ n }}"}
    next: {arcs: [{step: left_done}]}
  - {step: left_done, spec: {end_loop: each_left}, next: {arcs: [{step: tell}]}}
  - step: each_right
    loop: {in: "{{ range(500) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 500}}
    next: {arcs: [{step: right}]}
  - step: right
    on_failure: {do: hold, for: 2h}
    tool: {kind: http, url: "{{ workload.api }}/missing/{{ n }}"}
    next: {arcs: [{step: right_done}]}
  - {step: right_done, spec: {end_loop: each_right}, next: {arcs: [{step: tell}]}}
  - step: tell
    tool:
      kind: noop
      result: >-
        {{ each_left.results | map(attribute='left') | sum + each_right.results | map(attribute='right') | sum }}
"""


def status(site: Site, run: str) -> dict[str, Any]:
    run_status: dict[str, Any] = json.loads(site.noetl("status", run, "--json").stdout)
    return run_status


def submit(site: Site, api: Api) -> str:
    file = site.write(LOAD, "load.yaml")
    answer = site.noetl("submit", str(file), "--set", f"api={api.url}", "--json")
    return str(json.loads(answer.stdout)["execution_id"])


def held(site: Site, run: str) -> int:
    return int(status(site, run).get("held", 0))


def calls(site: Site, run: str) -> int:
    steps = status(site, run)["steps"]
    loop_steps = [steps[name] for name in ("left", "right") if name in steps]
    return sum(loop_step["attempts"] - loop_step["retries"] for loop_step in loop_steps)


async def wait_for_release(log: asyncpg.Connection, run: str) -> dict[str, int]:
    records = await log.fetch(
        """SELECT meta->>'action' AS action, count(*) AS count FROM noetl.event
           WHERE execution_id = $1 AND event_type = 'step.released' GROUP BY 1""",
        int(run),
    )
    return {record["action"]: record["count"] for record in records}


async def test_a_thousand_held_items_are_skipped_at_once(site: Site, api: Api, log: asyncpg.Connection) -> None:
    run = submit(site, api)
    assert wait_until(lambda: held(site, run) == ITEMS, seconds=240)
    status_output = site.noetl("status", run).stdout
    assert status_output.count("is held until") == 10
    assert (
        f"more steps are held: noetl retry {run} --all, or noetl skip {run} --all --data JSON (990 more)"
        in status_output
    )
    refusal = site.noetl("retry", run)
    assert refusal.returncode == 1
    assert "1,000 steps and items are held: name one of '" in refusal.stderr
    assert "and 990 more, or decide about all" in refusal.stderr
    assert len(refusal.stderr) < 500
    assert site.noetl("retry", run, "--all", "--step", "tell").stderr.startswith(
        f"Error: run {run}: step 'tell' is not held: held are '"
    )

    assert site.noetl("retry", run, "--step", "left[3]").stdout == f"run {run}: retrying left[3]\n"
    assert wait_until(lambda: calls(site, run) == ITEMS + 1)
    assert wait_until(lambda: held(site, run) == ITEMS)

    large = site.noetl("skip", run, "--all", "--data", json.dumps("x" * 600))
    assert "at most 500 are allowed for 1,000 held steps: skip fewer at a time" in large.stderr
    assert site.noetl("skip", run).returncode == 2
    skip_result = site.noetl("skip", run, "--all", "--data", "2")
    assert skip_result.stdout == f"run {run}: skipped 1,000 held steps\n"
    assert site.noetl("wait", run, "--timeout", "240").returncode == 0
    assert status(site, run)["result"] == 2 * ITEMS
    assert await wait_for_release(log, run) == {"retry": 1, "skip": ITEMS}
    assert await audit_execution(site.addresses().postgres, int(run)) == []


def test_a_cancel_ends_a_thousand_held_items(site: Site, api: Api) -> None:
    run = submit(site, api)
    assert wait_until(lambda: held(site, run) == ITEMS, seconds=240)
    assert site.noetl("cancel", run).returncode == 0
    assert site.noetl("wait", run, "--timeout", "240").returncode == 1
    run_status = status(site, run)
    assert run_status["status"] == "cancelled"
    assert run_status["steps"]["left"]["duration_seconds"] <= run_status["duration_seconds"]
