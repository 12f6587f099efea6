"""Runs that are started and left: submit, wait, list, logs, cancel, by any ID that is printed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl_temporal.ids import new_execution_id
from tests.acceptance.processes import wait_until
from tests.acceptance.site import NOETL, ROOT, Site
from tests.acceptance.test_terminal import on_terminal

pytestmark = pytest.mark.stack

PRINTS = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: prints, path: PATH}
workload: {seconds: 0, fail: false}
workflow:
  - step: start
    tool:
      kind: python
      input: {seconds: "{{ workload.seconds }}", fail: "{{ workload.fail }}"}
      code: |
        import logging, time
        print("begun")
        logging.getLogger("mine").warning("slow")
        time.sleep(seconds)
        assert not fail, "as asked"
        result = "ended"
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: [a, b], iterator: letter}
    tool: {kind: python, input: {letter: "{{ letter }}"}, code: "print(letter)"}
"""


@pytest.fixture
def path() -> str:
    """Of the playbook of this test alone."""
    return f"tests/control/{new_execution_id()}"


@pytest.fixture
def playbook(path: str, tmp_path: Path) -> str:
    file = tmp_path / "prints.yaml"
    file.write_text(PRINTS.replace("PATH", path))
    return str(file)


def submit(site: Site, *args: str) -> dict[str, Any]:
    done = site.noetl("submit", "--json", *args)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_that_is_left_is_waited_for(site: Site, playbook: str, path: str) -> None:
    submission = site.noetl("submit", playbook)
    match = re.fullmatch(r"submitted: execution (\d+), workflow (\S+)\n", submission.stdout)
    assert match is not None, submission.stderr
    execution, workflow = match.groups()
    wait_result = site.noetl("wait", execution)
    assert (wait_result.returncode, wait_result.stderr) == (0, "")
    assert "\ncompleted in " in wait_result.stdout
    for name in (workflow, workflow[:-3], execution[:16]):
        status = site.noetl("status", name, "--json")
        assert json.loads(status.stdout)["execution_id"] == execution, status.stderr
    assert site.noetl("events", workflow, "--last", "1").returncode == 0
    detached_run = site.noetl("run", playbook, "--detach")
    assert detached_run.stdout.startswith("submitted: execution ")
    several = site.noetl("status", path)
    assert several.returncode == 2
    assert several.stderr.startswith(f"Error: 2 runs have an ID that begins with '{path}': write more of it\n  ")
    assert execution in several.stderr


def test_a_wait_ends_as_the_run_did_or_leaves_it(site: Site, playbook: str) -> None:
    failed = submit(site, playbook, "--set", "fail=true")["execution_id"]
    assert site.noetl("wait", failed).returncode == 1
    unknown = site.noetl("wait", "nowhere/at/all")
    assert (unknown.returncode, "no run has an ID that begins with 'nowhere/at/all'" in unknown.stderr) == (2, True)
    slow = submit(site, playbook, "--set", "seconds=60")["execution_id"]
    left = site.noetl("wait", slow, "--timeout", "0.5", "--json")
    assert (left.returncode, json.loads(left.stdout)["status"]) == (3, "running")
    assert left.stderr == f"still running after 0.5 s: noetl wait {slow}\n"
    waiting = site.start("wait", slow)
    assert not wait_until(lambda: waiting.poll() is not None, 3)
    waiting.send_signal(signal.SIGINT)
    _, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, errors) == (130, "stopped waiting; the run continues\n")
    assert site.noetl("cancel", slow[:17], "--reason", "enough").returncode == 0
    wait_result = site.noetl("wait", slow)
    assert (wait_result.returncode, "cancelled in" in wait_result.stdout) == (1, True)


def test_a_key_makes_one_run(site: Site, playbook: str) -> None:
    first = submit(site, playbook, "--key", "today")
    assert (first["is_new"], type(first["execution_id"])) == (True, str)
    second_submission = submit(site, playbook, "--key", "today")
    assert second_submission == {**first, "is_new": False}
    assert site.noetl("wait", first["execution_id"]).returncode == 0
    output = site.noetl("submit", playbook, "--key", "today").stdout
    assert output.startswith(f"this key already has a run: execution {first['execution_id']}, ")
    refusal = site.noetl("submit", playbook, "--key", "today", "--set", "seconds=1")
    assert refusal.returncode == 2
    assert f"belongs to run {first['execution_id']}, which was submitted with another payload" in refusal.stderr
    assert "1 to 200 printable characters" in site.noetl("submit", playbook, "--key", "").stderr


def test_many_processes_with_one_key_make_one_run(site: Site, playbook: str, path: str) -> None:
    starting = [site.start("submit", playbook, "--key", "k", "--json") for _ in range(6)]
    submissions = [json.loads(entry.communicate(timeout=120)[0]) for entry in starting]
    assert len({run["execution_id"] for run in submissions}) == 1
    assert [entry["is_new"] for entry in submissions].count(True) == 1
    assert site.noetl("wait", submissions[0]["workflow_id"]).returncode == 0
    assert len(site.noetl("list", "--path", path, "--json").stdout.splitlines()) == 1


def test_runs_are_listed(site: Site, playbook: str, path: str) -> None:
    well = submit(site, playbook)["execution_id"]
    badly = submit(site, playbook, "--set", "fail=true")["execution_id"]
    for execution in (well, badly):
        site.noetl("wait", execution)
    listed_runs = lines_of(site.noetl("list", "--path", path, "--json").stdout)
    assert [(run["execution_id"], run["status"]) for run in listed_runs] == [(badly, "failed"), (well, "completed")]
    only = lines_of(site.noetl("list", "--path", f"{path[:-2]}*", "--status", "failed", "--json").stdout)
    assert [run["execution_id"] for run in only] == [badly]
    table = site.noetl("list", "--path", path, "--since", "1h").stdout.splitlines()
    assert table[0].split() == ["execution", "status", "path", "started", "(UTC)", "seconds"]
    assert [line.split()[:3] for line in table[1:]] == [[badly, "failed", path], [well, "completed", path]]
    nothing = site.noetl("list", "--path", path, "--since", "2100-01-01")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "no runs\n")
    for options, expected in (
        (("--status", "failed", "--ended-since", "1h"), [badly]),
        (("--status", "terminated", "--since", "1h"), []),
        (("--ended-since", "2100-01-01"), []),
    ):
        for fail_if, status in (("any", int(bool(expected))), ("none", int(not expected))):
            list_result = site.noetl("list", "--path", path, *options, "--fail-if", fail_if, "--json")
            ids = [run["execution_id"] for run in lines_of(list_result.stdout)]
            assert (list_result.returncode, ids) == (status, expected), list_result.stderr
    wrong = site.noetl("list", "--since", "yesterday")
    assert (wrong.returncode, "'yesterday' is neither an age, such as 2h or 3d" in wrong.stderr) == (2, True)


def test_without_an_id_the_latest_run_is_shown_also_while_an_earlier_one_is_open(site: Site, playbook: str) -> None:
    open_run = submit(site, playbook, "--set", "seconds=60")["execution_id"]
    latest = submit(site, playbook)["execution_id"]
    assert site.noetl("wait", latest).returncode == 0
    [listed] = lines_of(site.noetl("list", "--limit", "1", "--json").stdout)
    assert listed["execution_id"] == latest
    assert json.loads(site.noetl("status", "--json").stdout)["execution_id"] == latest
    for command in ("events", "logs"):
        rows = lines_of(site.noetl(command, "--json").stdout)
        assert {row["execution_id"] for row in rows} == {latest}, command
    assert site.noetl("cancel", open_run).returncode == 0


def test_logs_are_shown_while_the_run_continues(site: Site, playbook: str) -> None:
    execution = submit(site, playbook, "--set", "seconds=8")["execution_id"]
    assert wait_until(lambda: bool(site.noetl("logs", execution).stdout), 30)
    first = lines_of(site.noetl("logs", execution, "--json").stdout)
    assert {(entry["step"], entry["stream"], entry["text"]) for entry in first} == {
        ("start", "stdout", "begun"),
        ("start", "stderr", "WARNING mine: slow"),
    }
    assert json.loads(site.noetl("status", execution, "--json").stdout)["status"] == "running"
    log_output = site.noetl("logs", execution, "--follow")
    assert log_output.returncode == 0
    assert [line.partition(" ")[2] for line in log_output.stdout.splitlines()][-2:] == ["each[0]: a", "each[1]: b"]
    each = lines_of(site.noetl("logs", execution, "--step", "each", "--json").stdout)
    assert [(entry["iteration"], entry["attempt"], entry["text"]) for entry in each] == [(0, 1, "a"), (1, 1, "b")]
    assert {run["execution_id"] for run in each} == {execution}
    nothing = site.noetl("logs", execution, "--step", "end")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (
        0,
        "",
        f"step 'end' of run {execution} has printed nothing\n",
    )
    for options in ([], ["--follow"], ["--json"]):
        wrong = site.noetl("logs", execution, "--step", "eech", *options)
        assert (wrong.returncode, wrong.stdout, wrong.stderr) == (
            2,
            "",
            f"Error: the playbook of run {execution} has no step 'eech': did you mean \"each\"?\n",
        )
    unknown = site.noetl("logs", "123456789012345678")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "Error: neither Temporal nor the event log has a run 123456789012345678\n",
    )


@pytest.mark.parametrize("run", ["123456789012345678", "nowhere/at/all"])
@pytest.mark.parametrize(
    "command",
    [
        *(["status"], ["events"], ["logs"], ["wait"], ["pause"], ["resume"], ["cancel"], ["terminate"], ["retry"]),
        *(["approve"], ["reject"], ["test", "--record"]),
    ],
    ids=" ".join,
)
def test_all_commands_report_an_unknown_run_alike(site: Site, command: list[str], run: str) -> None:
    """By all commands with the status for a wrong command line: 1 would say something about a run."""
    done = site.noetl(*command, run)
    assert (done.returncode, done.stdout, done.stderr[:7]) == (2, "", "Error: "), done.stderr
    assert "has" in done.stderr
    assert run in done.stderr


def test_a_verbose_run_shows_what_its_tasks_print(site: Site, playbook: str) -> None:
    done = site.noetl("run", playbook, "-v")
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if ": " in line]
    assert {"start: begun", "start (stderr): WARNING mine: slow", "each[0]: a", "each[1]: b"} <= set(lines)
    assert "begun" not in site.noetl("run", playbook).stderr


def test_on_a_terminal_what_is_printed_stays_above_the_progress(site: Site, playbook: str) -> None:
    terminal_output = on_terminal("run", playbook, "-v", errors=True, environment=site.addresses().environment())
    lines = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", terminal_output).replace("\r", "\n").splitlines()
    for line in ("start: begun", "each[0]: a", "each[1]: b"):
        assert lines.count(line) == 1


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_playbook_comes_from_stdin(site: Site, playbook: str, command: str) -> None:
    text = Path(playbook).read_text()
    done = subprocess.run(
        [*NOETL, command, "-", "--json"], cwd=site.folder, input=text, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["execution_id"]
    wrong = subprocess.run([*NOETL, command, "-"], cwd=site.folder, input="a: [", capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr.startswith("<stdin>:1:")) == (2, True)


def test_a_run_that_is_left_needs_a_stack_that_stays(bare: Site) -> None:
    playbook = str(ROOT / "dev/examples/hello.yaml")
    for args in (["submit", playbook], ["run", playbook, "--detach"]):
        done = bare.noetl(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert "no stack is running for" in done.stderr
        assert done.stderr.endswith("Nothing was started\n")


@pytest.mark.parametrize("option", [["--timeout", "5"], ["-v"]])
def test_options_that_need_a_running_command_are_refused(bare: Site, option: list[str]) -> None:
    done = bare.noetl("run", str(ROOT / "dev/examples/hello.yaml"), "--detach", *option)
    assert (done.returncode, "needs a command that stays until the run ends" in done.stderr) == (2, True)


def test_without_an_event_log_temporal_lists_the_runs(site: Site, playbook: str, path: str) -> None:
    execution = submit(site, playbook)["execution_id"]
    site.noetl("wait", execution)
    environment = {**os.environ, **site.addresses().environment()}
    del environment["NOETL_POSTGRES"]
    program = [sys.executable, "-m", "noetl_temporal.cli"]

    def noetl(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*program, *args], cwd=site.folder, env=environment, capture_output=True, text=True)

    [report] = lines_of(noetl("list", "--path", path, "--json").stdout)
    assert (report["execution_id"], report["status"], report["path"]) == (execution, "completed", path)
    assert noetl("logs", execution).stderr.startswith("Error: no logs to read: set NOETL_POSTGRES")
    submission = noetl("submit", playbook, "--key", "k")
    assert (submission.returncode, "a key needs an event log: set NOETL_POSTGRES" in submission.stderr) == (2, True)
