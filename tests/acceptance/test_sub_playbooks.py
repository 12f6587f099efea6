"""``noetl run`` of playbooks that call playbooks beside them (semantics.md 27)."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import asyncpg
import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.site import Api, Site
from tests.acceptance.test_crash import pid_of, status

pytestmark = pytest.mark.stack

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: tests/{name}}}\n"
CHILD = """\
workload: {city: null, days: 3}
workflow:
  - step: start
    tool:
      kind: python
      input: {city: "{{ workload.city }}", days: "{{ workload.days }}"}
      code: "result = f'{days} days in {city}'"
"""
EACH = """\
workflow:
  - step: weather
    loop: {in: "{{ ['Oslo', 'Rome'] }}", iterator: city, spec: {mode: parallel}}
    tool: {kind: playbook, path: tests/child, input: {city: "{{ city }}"}}
"""
PAGES = """\
workload: {api_url: null}
workflow:
  - step: start
    loop: {in: "{{ range(1, 5) | list }}", iterator: page}
    tool:
      - fetch:
          kind: http
          url: "{{ workload.api_url }}/api/v1/assessments"
          params: {page: "{{ page }}"}
      - rest: {kind: python, code: "import time; time.sleep(0.7)"}
"""
CALL_PAGES = """\
workload: {api_url: null}
workflow:
  - step: pages
    tool: {kind: playbook, path: tests/pages, input: {api_url: "{{ workload.api_url }}"}}
"""
SLOW = """\
workflow:
  - step: start
    tool: {kind: python, code: "import time; time.sleep(60)"}
  - step: end
    tool: {kind: python, code: "result = 'child clean'"}
"""
CALL_SLOW = """\
workflow:
  - step: slow
    tool: {kind: playbook, path: tests/slow}
  - step: end
    tool: {kind: python, code: "result = 'clean'"}
"""


ASKS = """\
workflow:
  - step: start
    tool: {kind: approval}
    next: {arcs: [{step: fails}]}
  - step: fails
    on_failure: hold
    tool: {kind: python, code: "1 / 0"}
"""
CALL_ASKS = """\
workflow:
  - step: asks
    tool: {kind: playbook, path: tests/asks}
"""


def book(site: Site, name: str, body: str) -> str:
    return str(site.write(HEAD.format(name=name) + body, f"{name}.yaml"))


def test_status_shows_what_a_called_playbook_asks_of_people(site: Site) -> None:
    book(site, "asks", ASKS)
    run: str = json.loads(site.noetl("submit", book(site, "asker", CALL_ASKS), "--json").stdout)["execution_id"]

    def describe_kind(kind: str) -> dict[str, Any]:
        report: list[dict[str, Any]] = json.loads(site.noetl("status", run, "--json").stdout)[kind]
        return report[0] if report else {}

    wait_until(lambda: bool(describe_kind("waits")))
    child = json.loads(site.noetl("status", run, "--json").stdout)["called"][0]["execution_id"]
    answer = f"noetl approve {child} start"
    assert f"tests/asks: start waits for an approval: {answer}, or noetl reject" in site.noetl("status", run).stdout
    for command in (["approve", run, "start"], ["reject", run], ["approve", run, "asks"]):
        refused = site.noetl(*command)
        assert (refused.returncode, answer in refused.stderr) == (1, True), refused.stderr
    assert site.noetl(*answer.split()[1:], "--as", "ann", "--reason", "fine").returncode == 0
    wait_until(lambda: bool(describe_kind("suspensions")))
    assert (describe_kind("suspensions")["name"], describe_kind("waits")) == ("tests/asks: fails", {})
    assert f"noetl skip {child} fails" in describe_kind("suspensions")["answer"]
    for command in (["retry", run], ["retry", run, "--all"], ["skip", run, "asks"], ["approve", run]):
        refused = site.noetl(*command)
        assert (refused.returncode, f"noetl skip {child} fails" in refused.stderr) == (1, True), refused.stderr
    assert site.noetl("skip", child, "fails", "--as", "bob").returncode == 0
    assert site.noetl("wait", run).returncode == 0
    events = site.noetl("events", child).stdout
    assert "reason fine, approved by ann" in events
    assert "skip by bob" in events


def test_the_playbook_beside_it_is_run(site: Site) -> None:
    book(site, "child", CHILD)
    done = site.noetl("run", book(site, "each", EACH))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("called tests/child: completed, execution ") == 2
    report: dict[str, Any] = json.loads(site.noetl("status", "--json").stdout)
    assert (report["path"], report["calls"]) == ("tests/each", 2), "the latest run is the one that was submitted"
    assert report["result"]["results"] == ["3 days in Oslo", "3 days in Rome"]
    [first, _] = report["called"]
    child: dict[str, Any] = json.loads(site.noetl("status", str(first["execution_id"]), "--json").stdout)
    assert (child["status"], child["path"]) == ("completed", "tests/child")
    events = site.noetl("events", str(first["execution_id"])).stdout
    assert "playbook.completed" in events


async def test_the_log_has_the_parent_in_every_table(site: Site, log: asyncpg.Connection) -> None:
    book(site, "child", CHILD)
    report = site.run(site.write(HEAD.format(name="each") + EACH, "each.yaml"))
    parent = int(report["execution_id"])
    executions = await log.fetch("SELECT * FROM noetl.execution WHERE parent_execution_id = $1", parent)
    assert {
        (row["status"], str(row["execution_id"]) in [run["execution_id"] for run in report["called"]])
        for row in executions
    } == {("COMPLETED", True)}
    events = await log.fetch("SELECT DISTINCT execution_id FROM noetl.event WHERE parent_execution_id = $1", parent)
    assert {row["execution_id"] for row in events} == {row["execution_id"] for row in executions}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("path: tests/chil, input: {city: Oslo}", 'error[NT601]: unknown playbook "tests/chil"'),
        ("path: tests/child", 'error[NT604]: the call of "tests/child" lacks the input "city"'),
    ],
    ids=["unknown", "missing input"],
)
def test_a_wrong_call_is_refused_before_anything_starts(bare: Site, call: str, message: str) -> None:
    book(bare, "child", CHILD)
    done = bare.noetl("run", book(bare, "wrong", f"workflow:\n  - step: start\n    tool: {{kind: playbook, {call}}}\n"))
    assert done.returncode == 2
    assert f"wrong.yaml:6:34: {message}" in done.stderr
    assert "nothing was started" in done.stderr
    assert ('did you mean "tests/child"?' in done.stderr) == ("chil," in call)


def test_called_playbooks_may_be_in_another_folder(site: Site) -> None:
    (site.folder / "shared").mkdir(exist_ok=True)
    book(site, "shared/else", CHILD.replace("null", "Oslo"))
    (site.folder / "mine").mkdir(exist_ok=True)
    file = book(site, "mine/call", "workflow:\n  - step: start\n    tool: {kind: playbook, path: shared/else}\n")
    assert site.noetl("run", file).returncode == 2
    assert site.run(site.folder / "mine" / "call.yaml", "--playbooks", str(site.folder))["result"] == "3 days in Oslo"


def test_a_worker_that_is_killed_while_a_child_runs(bare: Site, api: Api) -> None:
    book(bare, "pages", PAGES)
    file = book(bare, "call", CALL_PAGES)
    assert bare.noetl("dev", "up").returncode == 0
    try:
        run = bare.start("run", file, "--json", "--set", f"api_url={api.url}")
        assert wait_until(lambda: api.calls("/api/v1/assessments") >= 2)
        os.kill(pid_of(bare, "cli worker"), signal.SIGKILL)
        out, errors = run.communicate(timeout=100)
        assert run.returncode == 0, errors
        report = json.loads(out)
        assert (report["status"], report["calls"], report["called"][0]["status"]) == ("completed", 1, "completed")
        assert api.calls("/api/v1/assessments") == 4, "what the child had done was not done again"
    finally:
        bare.noetl("dev", "down")


def test_ctrl_c_cancels_the_child_too(site: Site) -> None:
    book(site, "slow", SLOW)
    run = site.start("run", book(site, "call", CALL_SLOW))
    assert wait_until(lambda: status(site)["path"] == "tests/call" and status(site)["called"])
    [child] = status(site)["called"]
    assert wait_until(
        lambda: "start" in json.loads(site.noetl("status", str(child["execution_id"]), "--json").stdout)["steps"]
    )
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=100)
    assert run.returncode == 130
    assert "called tests/slow: cancelled, execution" in out
    assert json.loads(site.noetl("status", "--json").stdout)["result"] == "clean"
    child_status = json.loads(site.noetl("status", str(child["execution_id"]), "--json").stdout)
    assert (child_status["status"], child_status["result"]) == ("cancelled", "child clean")
