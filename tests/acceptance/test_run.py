"""``noetl run``: how a run ends is what it says and what it exits with."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from noetl_activities.isolation.probe import describe_isolation
from tests.acceptance.processes import wait_until
from tests.acceptance.site import ROOT, Api, Site

pytestmark = pytest.mark.stack

HELLO = ROOT / "dev/examples/hello.yaml"
PLAYBOOKS = ROOT / "tests/acceptance/playbooks"
PROBE = "/api/v1/concurrency/probe"
HELD = asyncio.run(describe_isolation())


def test_a_run_completes(site: Site) -> None:
    report = site.run(HELLO, "--set", "name=Ada")
    assert report["status"] == "completed"
    assert report["result"] == {"said": "Hello, Ada!"}
    assert report["workflow_id"] == f"examples/hello/{report['execution_id']}"
    assert report["failures"] == []
    assert report["ui_url"].startswith(site.addresses().ui)
    assert {name: (step["status"], step["attempts"]) for name, step in report["steps"].items()} == {
        "start": ("completed", 1),
        "end": ("completed", 1),
    }


def test_the_output_of_a_run(site: Site) -> None:
    done = site.noetl("run", str(HELLO))
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == "start ..."
    assert 'result: {"said": "Hello, world!"}' in done.stdout
    assert "completed in" in done.stdout


@pytest.mark.parametrize("stack", ["joined", "own"])
def test_a_failure_is_shown_with_its_place(site: Site, bare: Site, stack: str) -> None:
    report = (site if stack == "joined" else bare).run(PLAYBOOKS / "fails.yaml")
    assert (report["ui_url"] is None) == (stack == "own"), "a link to a server that has stopped"
    (failure,) = report["failures"]
    assert report["status"] == "failed"
    assert (failure["step"], failure["line"], failure["col"]) == ("start", 9, 9)
    assert failure["file"].endswith("fails.yaml")
    assert "no such luck" in failure["message"]


PRINTS = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: prints, path: tests/prints}
workflow:
  - step: start
    tool: {kind: python, code: "print('look', 6 * 7)"}
"""


@pytest.mark.parametrize("stack", ["joined", "own"])
def test_output_of_a_task_is_in_the_log_of_its_worker(site: Site, bare: Site, stack: str) -> None:
    stack_site = site if stack == "joined" else bare
    report = stack_site.run(stack_site.write(PRINTS))
    log = stack_site.home.log("worker" if stack == "joined" else "run").read_text()
    assert f"execution {report['execution_id']}, step start, attempt 1 printed:\n  | look 42\n" in log


def test_status_and_events_show_a_run_later(site: Site) -> None:
    report = site.run(HELLO)
    id_ = str(report["execution_id"])
    assert json.loads(site.noetl("status", id_, "--json").stdout) == report
    events = [json.loads(line) for line in site.noetl("events", id_, "--json").stdout.splitlines()]
    assert (len(events), report["events_complete"]) == (report["events"], True)
    assert events[0]["event_type"] == "playbook.execution.requested"
    assert events[-1]["event_type"] == "playbook.completed"
    assert site.noetl("status", "123456789012345678").returncode == 2


def test_a_run_that_takes_too_long_is_cancelled_in_report_status_and_log(site: Site, api: Api) -> None:
    report = site.run(PLAYBOOKS / "slow.yaml", "--set", f"api_url={api.url}", "--timeout", "1")
    assert (report["status"], report["reason"]) == ("cancelled", "timed out after 1 s (--timeout)")
    run_status = json.loads(site.noetl("status", str(report["execution_id"]), "--json").stdout)
    assert (run_status["status"], run_status["reason"]) == (report["status"], report["reason"])
    last = json.loads(site.noetl("events", str(report["execution_id"]), "--json").stdout.splitlines()[-1])
    assert (last["event_type"], last["status"]) == ("playbook.cancelled", "CANCELLED")


def test_nothing_but_its_own_words_is_on_the_terminal(bare: Site) -> None:
    done = bare.noetl("run", str(PLAYBOOKS / "fails.yaml"))
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["start", "start"]


@pytest.mark.parametrize("stack", ["joined", "own"])
def test_ctrl_c_cancels_the_run(site: Site, bare: Site, api: Api, stack: str) -> None:
    stack_site = site if stack == "joined" else bare
    run = stack_site.start("run", str(PLAYBOOKS / "slow.yaml"), "--json", "--set", f"api_url={api.url}")
    assert wait_until(lambda: api.calls(PROBE) == 1)
    run.send_signal(signal.SIGINT)
    out, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert json.loads(out)["status"] == "cancelled"
    assert "Traceback" not in errors
    assert (stack_site.noetl("dev", "status").returncode == 0) == (stack == "joined")


def test_every_attempt_is_in_the_event_log(site: Site, api: Api) -> None:
    report = site.run(PLAYBOOKS / "flaky.yaml", "--set", f"api_url={api.url}")
    events = [
        json.loads(line) for line in site.noetl("events", str(report["execution_id"]), "--json").stdout.splitlines()
    ]
    attempts = [event for event in events if event["event_type"].startswith("task.attempt.")]
    assert report["status"] == "completed"
    assert report["steps"]["fetch"]["attempts"] == 2
    assert [(attempt["event_type"], attempt["meta"]["retry"]["attempt_number"]) for attempt in attempts] == [
        ("task.attempt.started", 1),
        ("task.attempt.failed", 1),
        ("task.attempt.started", 2),
        ("task.attempt.done", 2),
    ]
    assert attempts[1]["meta"]["retry"]["will_retry"] is True
    assert "500" in attempts[1]["error"]


@pytest.mark.skipif("landlock" not in HELD, reason=HELD)
def test_the_file_of_credentials_is_closed_to_tasks(
    site: Site, monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    """In a folder that the deployment opens to them."""
    credentials, data = open_folder / "credentials.yaml", open_folder / "data.yaml"
    for file in (credentials, data):
        file.write_text("mine: {type: bearer, token: t}\n")
        file.chmod(0o644)
    monkeypatch.setenv("NOETL_TASK_DIRECTORIES", str(open_folder))
    playbook = site.write(
        """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: reads, path: tests/reads}
workload: {file: ""}
workflow:
  - step: read
    tool: {kind: python, input: {file: "{{ workload.file }}"}, code: "result = open(file).read()"}
""",
    )
    options = ("--credentials", str(credentials), "--set")
    assert site.run(playbook, *options, f"file={data}")["status"] == "completed"
    assert "PermissionError" in str(site.run(playbook, *options, f"file={credentials}"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that the account of a task reaches; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_missing_credential_is_reported_before_anything_starts(site: Site) -> None:
    """Where the run brings its own credentials, so that its tools are served here."""
    credentials = site.write("mine: {type: bearer, token: t}\n", "credentials.yaml")
    playbook = site.write(
        """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: names, path: tests/names}
workflow:
  - step: first
    tool: {kind: python, code: "result = 1"}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: http, url: "http://localhost/", auth: mime}
""",
    )
    done = site.noetl("run", str(playbook), "--credentials", str(credentials))
    assert done.returncode == 2
    assert f"{playbook}:9:11: error: no credential 'mime' (did you mean 'mine'?)" in done.stderr
    assert done.stderr.splitlines()[-1] == "nothing was started"


def test_credentials_of_a_run_reach_no_other_worker(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = site.addresses()
    login = f"db_port: {addresses.postgres_port}, db_password: {addresses.playbooks_password}"
    login = f"{{type: postgres, db_host: 127.0.0.1, db_user: playbooks, db_name: playbooks, {login}}}"
    credentials = site.write(f"mine: {login}\n", "credentials.yaml")
    playbook = site.write(
        """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: mine, path: tests/mine}
workflow:
  - step: start
    tool: {kind: postgres, auth: mine, query: "SELECT 7 AS seven"}
""",
    )
    assert site.run(playbook, "--credentials", str(credentials))["status"] == "completed"
    assert "no credential 'mine'" in site.noetl("run", str(playbook)).stderr
    monkeypatch.setenv("NOETL_CREDENTIALS", str(credentials))
    result = site.noetl("run", str(playbook))
    assert "NOETL_CREDENTIALS is ignored here: it is read where the worker starts" in result.stderr
    assert "add it to the file named by --credentials or NOETL_CREDENTIALS" in result.stderr
    result = site.noetl("run", str(playbook), "--credentials", str(credentials))
    assert "NOETL_CREDENTIALS" not in result.stderr


def test_events_are_in_the_order_they_happened(site: Site, api: Api) -> None:
    playbook = site.write(
        """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: two, path: tests/two}
workload: {api_url: ""}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool: {kind: http, url: "{{ workload.api_url }}/api/v1/concurrency/probe", params: {delay_seconds: 0.5}}
""",
        "two.yaml",
    )
    id_ = str(site.run(playbook, "--set", f"api_url={api.url}")["execution_id"])
    events = [json.loads(line) for line in site.noetl("events", id_, "--json").stdout.splitlines()]
    moments = [(datetime.fromisoformat(event["event_time"]), int(event["event_id"])) for event in events]
    assert moments == sorted(moments)
    ids = [int(event["event_id"]) for event in events]
    assert ids != sorted(ids), "nothing was stored later than it happened"
    times = [line.split()[0] for line in site.noetl("events", id_).stdout.splitlines()[1:]]
    assert times == sorted(times)
