"""``noetl dev``: a stack that stays."""

from __future__ import annotations

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from noetl_temporal.stack.leftovers import recorded_processes
from tests.acceptance.processes import alive, got_signal, wait_until
from tests.acceptance.site import ROOT, Site

pytestmark = pytest.mark.stack

HELLO = ROOT / "dev/examples/hello.yaml"


def test_up_status_run_down(bare: Site) -> None:
    up = bare.noetl("dev", "up")
    try:
        assert up.returncode == 0, up.stderr
        addresses = bare.addresses()
        assert addresses.ui in up.stdout
        assert bare.noetl("dev", "status").stdout.startswith("up\n")
        assert bare.noetl("dev", "up").stdout.startswith("already running\n")
        assert bare.run(HELLO, "--set", "name=Ada")["result"] == {"said": "Hello, Ada!"}
        assert bare.addresses() == addresses, "a run replaced the stack"
    finally:
        assert bare.noetl("dev", "down").stdout == "down\n"
    assert bare.noetl("dev", "status").returncode == 1
    assert wait_until(lambda: not alive(addresses.owner_pid))


def test_a_stack_starts_again_after_its_processes_were_killed(bare: Site) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    first = bare.addresses()
    os.kill(first.owner_pid, signal.SIGKILL)
    try:
        up = bare.noetl("dev", "up")
        assert up.returncode == 0, up.stderr
        assert bare.addresses().owner_pid != first.owner_pid
    finally:
        bare.noetl("dev", "down")


def test_a_run_without_a_stack_leaves_none_and_keeps_its_data(bare: Site) -> None:
    first = bare.run(HELLO)
    second = bare.run(HELLO)
    assert (first["status"], second["status"]) == ("completed", "completed")
    assert int(first["execution_id"]) < int(second["execution_id"])
    assert bare.noetl("dev", "status").returncode == 1


def test_two_runs_at_once_share_a_stack(bare: Site) -> None:
    runs = [bare.start("run", str(HELLO), "--json") for _ in range(2)]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
    assert bare.noetl("dev", "status").returncode == 1


def pid_of(site: Site, marker: str) -> int:
    return next(process.pid for process in recorded_processes(site.home.processes_file) if marker in process.marker)


@pytest.mark.parametrize(("server", "marker"), [("Temporal", "temporal.db"), ("Postgres", "unix_socket_directories=")])
def test_the_cause_of_a_crash_is_reported(bare: Site, server: str, marker: str) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    os.kill(pid_of(bare, marker), signal.SIGKILL)
    try:
        assert wait_until(lambda: bare.noetl("dev", "status").stdout.startswith("down"))
        output = bare.noetl("dev", "status").stdout
        assert f"{server} ended unexpectedly (killed by SIGKILL):" in output
        assert output.splitlines()[1].startswith("the stack crashed at 20")
        assert len(output.splitlines()) > 2, "the end of its log is missing"
        up = bare.noetl("dev", "up")
        assert up.returncode == 0
        assert f"{server} ended unexpectedly" in up.stderr
    finally:
        bare.noetl("dev", "down")
    output = bare.noetl("dev", "status").stdout.split("up elsewhere")[0]
    assert output.split() == ["down", "folder", str(bare.folder.resolve()), "data", str(bare.home.root)]


def test_a_stack_whose_process_was_killed_reports_the_crash(bare: Site) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    pid = bare.addresses().owner_pid
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not alive(pid))
    status_result = bare.noetl("dev", "status")
    assert status_result.returncode == 1
    assert f"its process ({pid}) was killed" in status_result.stdout
    assert bare.noetl("dev", "down").stdout == "no stack is running here\n"


def test_two_at_once_bring_one_stack_up(bare: Site) -> None:
    ups = [bare.start("dev", "up") for _ in range(2)]
    try:
        for up in ups:
            out, errors = up.communicate(timeout=120)
            assert (up.returncode, "Error" in errors) == (0, False), errors
            assert bare.addresses().ui in out
    finally:
        bare.noetl("dev", "down")


def test_dev_serve_of_an_owned_stack_ends_silently(bare: Site) -> None:
    """Two `noetl dev up` at once start one each: the log of the stack, which both show, has no error of the second."""
    bare.home.prepare()
    with bare.home.owner_lock("dev"):
        done = bare.noetl("dev", "serve")
    assert (done.returncode, done.stdout, done.stderr) == (75, "", "")


def test_down_stops_a_stack_that_is_starting(bare: Site) -> None:
    """Its process is held until it gets the signal to end: otherwise it may be up before ``down`` looks."""
    home = bare.home
    up = bare.start("dev", "up")
    assert wait_until(lambda: home.root.exists() and home.owner() is not None)
    owner = home.owner()
    assert owner is not None
    os.kill(owner.pid, signal.SIGSTOP)
    down = bare.start("dev", "down")
    assert wait_until(lambda: got_signal(owner.pid, signal.SIGTERM))
    os.kill(owner.pid, signal.SIGCONT)
    output, _ = down.communicate(timeout=60)
    assert output == "down\n"
    up.communicate(timeout=60)
    assert up.returncode == 1
    assert home.owner() is None


def test_a_service_that_is_killed_is_restarted_and_reported_without_a_line_of_its_log(bare: Site) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    try:
        for pause in (1, 2):
            mirror = pid_of(bare, "cli mirror")
            os.kill(mirror, signal.SIGKILL)
            line = f"mirror ended unexpectedly (killed by SIGKILL); restarting it in {pause} s"
            assert wait_until(partial(contains, bare.home.log("stack"), line))
            assert wait_until(partial(begun_again, bare, mirror))
    finally:
        bare.noetl("dev", "down")


def contains(log: Path, text: str) -> bool:
    return text in log.read_text()


def begun_again(site: Site, old: int) -> bool:
    mirrors = [
        process
        for process in recorded_processes(site.home.processes_file)
        if "cli mirror" in process.marker and process.pid != old
    ]
    return bool(mirrors) and contains(site.home.log("mirror"), "mirroring")


def test_a_worker_and_a_run_end_silently_on_ctrl_c(bare: Site) -> None:
    """Temporal's threads may not call into an interpreter that is being torn down: that aborts the process."""
    assert bare.noetl("dev", "up").returncode == 0
    try:
        for _ in range(3):
            workers = [bare.start("worker") for _ in range(3)]
            for worker in workers:
                assert worker.stdout is not None
                assert "serving" in worker.stdout.readline()
            run = bare.start("run", str(HELLO), "--json")
            for worker in workers:
                worker.terminate()
            for process in (*workers, run):
                _, errors = process.communicate(timeout=90)
                assert (process.returncode, errors) == (0, "")
    finally:
        bare.noetl("dev", "down")


SLOW = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: slow, path: tests/slow}
workload: {seconds: 120, file: ""}
workflow:
  - step: start
    tool:
      kind: python
      args: {seconds: "{{ workload.seconds }}", file: "{{ workload.file }}"}
      code: |
        import pathlib, time
        def main(seconds, file):
            with pathlib.Path(file).open("a") as begun:
                begun.write("x")
            if len(pathlib.Path(file).read_text()) == 1:
                time.sleep(seconds)
            return "done"
"""


def test_down_does_not_wait_for_a_long_call_and_the_run_continues(bare: Site, task_folder: Path) -> None:
    begin_file = task_folder / "begun"
    playbook = bare.write(SLOW)
    assert bare.noetl("dev", "up").returncode == 0
    run = bare.start("run", str(playbook), "--json", "--set", f"file={begin_file}")
    assert wait_until(begin_file.exists, 90)
    before = time.monotonic()
    assert bare.noetl("dev", "down").stdout == "down\n"
    assert time.monotonic() - before < 40
    run.communicate(timeout=60)
    assert bare.noetl("dev", "up").returncode == 0
    try:
        end_words = ("completed", "failed")
        assert wait_until(lambda: json.loads(bare.noetl("status", "--json").stdout)["status"] in end_words, 90)
        assert json.loads(bare.noetl("status", "--json").stdout)["status"] == "completed"
        assert begin_file.read_text() == "xx"
    finally:
        bare.noetl("dev", "down")
