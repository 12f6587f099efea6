"""Stopping a run: by Ctrl-C, by --timeout, from another terminal; and its status afterwards."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from typing import Any

import pytest

from noetl_temporal.stack.addresses import Addresses
from tests.acceptance.processes import wait_until
from tests.acceptance.site import NOETL, ROOT, Api, Site

pytestmark = pytest.mark.stack

CLEANUP = ROOT / "tests/acceptance/playbooks/cleanup.yaml"
HELLO = ROOT / "dev/examples/hello.yaml"
PROBE = "/api/v1/concurrency/probe"


class Running:
    """``noetl run`` of the playbook whose step waits for a minute."""

    def __init__(self, site: Site, api: Api, *settings: str) -> None:
        sets = [word for setting in (f"api_url={api.url}", *settings) for word in ("--set", setting)]
        self.site, self.process = site, site.start("run", str(CLEANUP), "--json", *sets)
        assert wait_until(lambda: api.calls(PROBE) == 1)
        self.id = str(status_of(site, "status")["execution_id"])

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def finish(self, *exits: int) -> tuple[dict[str, Any], str]:
        """What it printed, once it has ended with one of these exits."""
        out, errors = self.process.communicate(timeout=90)
        assert self.process.returncode in exits, errors
        assert "Traceback" not in errors
        return json.loads(out), errors


def status_of(site: Site, *args: str) -> dict[str, Any]:
    done = site.noetl(*args, "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def steps(report: dict[str, Any]) -> dict[str, str]:
    return {name: step["status"] for name, step in report["steps"].items()}


def test_ctrl_c_waits_for_the_cleanup(site: Site, api: Api) -> None:
    run = Running(site, api)
    run.interrupt()
    account, errors = run.finish(130)
    assert "cancelling; waiting for the cleanup of step end (Ctrl-C again to skip it)" in errors
    assert (account["status"], steps(account)) == ("cancelled", {"wait": "cancelled", "end": "completed"})
    assert api.calls(PROBE) == 2
    assert status_of(site, "status", run.id) == account


def test_a_second_ctrl_c_skips_the_cleanup(site: Site, api: Api) -> None:
    run = Running(site, api, "cleanup=60")
    run.interrupt()
    assert wait_until(lambda: api.calls(PROBE) == 2)
    run.interrupt()
    account, errors = run.finish(130)
    assert "skipping the cleanup" in errors
    assert account["status"] == "cancelled"
    assert steps(account)["end"] == "cancelled"


def test_ctrl_c_before_a_run_was_submitted_is_reported(bare: Site) -> None:
    run = bare.start("run", str(HELLO), "--json")
    assert wait_until(bare.home.root.exists)
    run.send_signal(signal.SIGINT)
    out, errors = run.communicate(timeout=60)
    assert (run.returncode, out) == (130, "")
    assert errors.strip() == "stopped before a run was submitted: nothing was started"
    assert bare.noetl("dev", "status").returncode == 1


def test_ctrl_c_while_the_playbook_is_read_is_reported() -> None:
    pipe = subprocess.PIPE
    run = subprocess.Popen([*NOETL, "run", "-"], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert run.stdin is not None
    run.stdin.write("# a comment\n" * 20_000)  # more than a pipe holds, so the command reads once this is written
    run.stdin.flush()
    run.send_signal(signal.SIGINT)
    out, errors = run.communicate(timeout=60)
    assert (run.returncode, out, errors.strip()) == (130, "", "interrupted")


def test_ctrl_c_after_the_end_changes_nothing_in_the_report(bare: Site) -> None:
    """The report is there before the worker and the servers of the run stop. Several signals, as one of them has to
    arrive while the worker stops: that left tasks which never ended."""
    run = bare.start("run", str(HELLO), "--json")
    assert run.stdout is not None
    account = json.loads(run.stdout.readline())
    for _ in range(20):
        run.send_signal(signal.SIGINT)
        time.sleep(0.01)
    out, errors = run.communicate(timeout=60)
    assert (run.returncode, out, account["status"]) == (0, "", "completed"), errors
    assert "Traceback" not in errors
    assert bare.noetl("dev", "status").returncode == 1


def test_a_timeout_waits_for_the_cleanup(site: Site, api: Api) -> None:
    account = site.run(CLEANUP, "--set", f"api_url={api.url}", "--timeout", "1")
    assert (account["status"], steps(account)) == ("cancelled", {"wait": "cancelled", "end": "completed"})
    assert api.calls(PROBE) == 2


def test_cancel_from_another_terminal(site: Site, api: Api) -> None:
    run = Running(site, api, "cleanup=60")
    assert steps(status_of(site, "status", run.id)) == {"wait": "running"}
    assert site.noetl("cancel", run.id, "--reason", "wrong table").stdout == f"run {run.id}: cancel requested\n"
    assert wait_until(lambda: api.calls(PROBE) == 2)
    assert status_of(site, "status", run.id)["reason"] == "wrong table"
    assert "the cleanup is skipped" in site.noetl("cancel", run.id).stdout
    account, _ = run.finish(1)
    assert (account["status"], account["reason"]) == ("cancelled", "wrong table")
    assert "stopped by cancel, reason wrong table" in site.noetl("events", run.id).stdout
    second_cancel = site.noetl("cancel", run.id)
    assert (second_cancel.returncode, "the run has ended" in second_cancel.stderr) == (1, True)
    assert "has no run 123456789012345678" in site.noetl("cancel", "123456789012345678").stderr


def test_terminate_from_another_terminal(site: Site, api: Api) -> None:
    run = Running(site, api)
    assert site.noetl("terminate", run.id, "--reason", "stuck").stdout == f"run {run.id}: terminated\n"
    account, _ = run.finish(1)
    assert (account["status"], steps(account)) == ("terminated", {"wait": "cancelled"})
    assert (account["steps"]["wait"]["attempts"], account["reason"]) == (1, "stuck")
    assert status_of(site, "status", run.id) == account


@pytest.fixture
def without_worker(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> Addresses:
    """A cluster without workers and mirror, named by the environment."""
    for name, value in servers.environment().items():
        monkeypatch.setenv(name, value)
    return servers


def test_a_run_without_an_event_log_is_reported(
    without_worker: Addresses, bare: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOETL_POSTGRES")
    run = bare.start("run", str(HELLO), "--timeout", "1e-9", "--json")
    assert run.stderr is not None
    assert "NOETL_POSTGRES is not set" in run.stderr.readline()
    assert "timed out" in run.stderr.readline()
    status = bare.noetl("status")
    assert re.match(r"running for [0-9.]+ s \(now cancelling\)", status.stdout)
    report = status_of(bare, "status")
    assert (report["status"], report["cancelling"]) == ("running", True)
    run.kill()
    run.communicate()
    assert bare.noetl("terminate", str(report["execution_id"])).returncode == 0


def test_an_unused_event_log_is_reported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", "postgresql://noetl:hush@127.0.0.1:1/noetl")
    for command in (["run", str(HELLO)], ["status"]):
        assert site.noetl(*command).stderr.splitlines()[0].startswith("NOETL_POSTGRES is ignored, because")


def test_a_run_without_workers_is_reported_and_left_at_the_third_ctrl_c(without_worker: Addresses, bare: Site) -> None:
    run = bare.start("run", str(HELLO), "--json")
    assert run.stderr is not None
    assert (
        "waiting for a worker for workflows (none is polling): start one with `noetl worker`" in run.stderr.readline()
    )
    report = status_of(bare, "status")
    assert [problem["kind"] for problem in report["problems"]] == ["no_worker"]
    for says in ("cancelling", "skipping", "leaving"):
        run.send_signal(signal.SIGINT)
        assert says in run.stderr.readline()
    out, errors = run.communicate(timeout=30)
    left = json.loads(out)
    assert (run.returncode, left["status"], left["reason"]) == (3, "unknown", "left while the run was running")
    assert left["execution_id"] == report["execution_id"]
    assert f"is unknown; to find out: noetl status {report['execution_id']}" in errors
    assert bare.noetl("terminate", str(report["execution_id"])).returncode == 0


@pytest.mark.parametrize(
    "command",
    [["status"], ["run", str(HELLO)], ["worker"], ["mirror"], ["setup"], ["prune"], ["cancel", "7" * 18]],
)
def test_an_unreachable_temporal_is_reported(bare: Site, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("NOETL_POSTGRES", "postgresql://noetl:hush@127.0.0.1:1/noetl")
    done = bare.noetl(*command)
    assert_deployment_problem(done, "connection refused")


def test_an_unreachable_postgres_is_reported(servers: Addresses, bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", servers.temporal)
    monkeypatch.setenv("NOETL_POSTGRES", "postgresql://noetl:hush@127.0.0.1:1/noetl")
    for command in (["run", str(HELLO)], ["events"], ["mirror"], ["setup"], ["prune"]):
        assert_deployment_problem(bare.noetl(*command), "Postgres at 127.0.0.1:1/noetl: connection refused")


def assert_deployment_problem(done: subprocess.CompletedProcess[str], says: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "bug" not in done.stderr
    assert "hush" not in done.stderr
