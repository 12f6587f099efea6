"""A folder that somebody else has made: nothing in it runs, is believed or is written through."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from noetl_temporal.cli.commands import COMMANDS
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.stack.files import write_atomically
from noetl_temporal.stack.leftovers import recorded_processes
from noetl_temporal.stack.program import import_path_variable, noetl_command
from noetl_temporal.submission.credential_source import credential_source
from tests.acceptance.processes import wait_until
from tests.acceptance.site import ROOT, Site
from tests.acceptance.test_dev import SLOW

HELLO = (ROOT / "dev/examples/hello.yaml").read_text()
LEGACY = (ROOT / "dev/older_examples/pagination_legacy.yaml").read_text()
NAMES = sys.stdlib_module_names | set(importlib.metadata.packages_distributions()) | {"sitecustomize", "usercustomize"}
"""What a Python program may import."""

SAFE = [sys.executable, "-P", "-m", "noetl_temporal.cli"]
"""As the installed ``noetl`` is started: without the current folder on its import path."""

WITHOUT_A_STACK = {
    "compile": [["compile", "playbook.yaml"]],
    "schema": [["schema"]],
    "migrate": [["migrate", "legacy.yaml", "--write"]],
    "status": [["status"]],
    "events": [["events"]],
    "cancel": [["cancel", "7"]],
    "explain": [["explain"], ["explain", "http"], ["explain", "NT303"]],
    "terminate": [["terminate", "7"]],
    "dev": [["dev", "status"], ["dev", "list"], ["dev", "rm"], ["dev", "down"]],
    "worker": [["worker"]],
    "mirror": [["mirror"], ["mirror", "problems"]],
    "prune": [["prune"]],
    "codec-server": [["codec-server"]],
    "ledger": [["ledger", "sql"]],
    "setup": [["setup", "--help"]],
    "replay": [["replay", "7"]],
    "run": [["run", "missing.yaml"]],
    "submit": [["submit", "playbook.yaml"]],
    "wait": [["wait", "7"]],
    "list": [["list"]],
    "logs": [["logs"]],
    "signal": [["signal", "7", "paid"]],
    "approve": [["approve", "7"]],
    "reject": [["reject", "7"]],
    "pause": [["pause", "7"]],
    "resume": [["resume", "7"]],
    "retry": [["retry", "7"]],
    "rerun": [["rerun", "7", "--from", "start"]],
    "skip": [["skip", "7", "start"]],
    "test": [["test"], ["test", "--record", "7"]],
    "register": [["register", "playbook.yaml"], ["register", "."]],
    "catalog": [["catalog", "list"], ["catalog", "show", "a@1"], ["catalog", "diff", "a@1", "playbook.yaml"]],
    "schedule": [["schedule", "list"], ["schedule", "add", "a", "--every", "1h"], ["schedule", "pause", "a"]],
}


class Hostile(Site):
    """A folder with a module of every name, which says that it was imported."""

    def imported_modules(self) -> list[str]:
        """The modules that were."""
        return sorted(path.name for path in (self.folder / "imported").iterdir())

    def run_with_safe_path(self, *args: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*SAFE, *args], cwd=self.folder, capture_output=True, text=True, timeout=timeout)


@pytest.fixture
def hostile(bare: Site) -> Hostile:
    (bare.folder / "imported").mkdir()
    for name in NAMES:
        if name.isidentifier():
            bare.write(f"open({str(bare.folder / 'imported' / name)!r}, 'w').close()\n", f"{name}.py")
    bare.write(HELLO)
    bare.write(LEGACY, "legacy.yaml")
    return Hostile(bare.folder)


def test_a_program_that_is_started_as_any_module_imports_them(hostile: Hostile) -> None:
    """The control."""
    subprocess.run([sys.executable, "-m", "noetl_temporal.cli", "--version"], cwd=hostile.folder, capture_output=True)
    assert hostile.imported_modules()


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_imports_from_the_folder(name: str, hostile: Hostile) -> None:
    for command in WITHOUT_A_STACK[name]:
        done = hostile.run_with_safe_path(*command)
        assert "Traceback" not in done.stderr
    assert hostile.imported_modules() == []


@pytest.mark.parametrize("path", ["", ".", "lib", ":", "lib:."])
def test_relative_entries_of_the_python_path_are_removed(
    path: str, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", path + os.pathsep + os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, **import_path_variable()}
    done = subprocess.run(
        noetl_command("--version"), cwd=hostile.folder, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, hostile.imported_modules()) == (0, [])
    entries = import_path_variable()["PYTHONPATH"].split(os.pathsep)
    assert entries == [
        text for text in os.environ["PYTHONPATH"].split(os.pathsep) if text.startswith("/")
    ] or entries == [""]


@pytest.mark.stack
def test_no_process_of_the_stack_imports_from_the_folder(hostile: Hostile) -> None:
    ran = hostile.run_with_safe_path("run", "playbook.yaml")
    assert ran.returncode == 0, ran.stderr
    up = hostile.run_with_safe_path("dev", "up")
    try:
        assert up.returncode == 0, up.stderr
        for service in ("worker", "mirror"):
            pid = _running(hostile, service)
            os.kill(pid, signal.SIGKILL)
            assert wait_until(partial(_runs_again, hostile, service, pid), 60)
        ran = hostile.run_with_safe_path("run", "playbook.yaml")
        assert ran.returncode == 0, ran.stderr
    finally:
        hostile.run_with_safe_path("dev", "down")
    assert hostile.imported_modules() == []


def _runs_again(site: Site, service: str, old: int) -> bool:
    return _running(site, service) not in (0, old)


def _running(site: Site, service: str) -> int:
    """The process id of a service that runs, 0 when none does."""
    matching = [
        process
        for process in recorded_processes(site.home.processes_file)
        if f"cli {service}" in process.marker and process.is_running()
    ]
    return matching[-1].pid if matching else 0


@pytest.mark.parametrize("command", [["dev", "status"], ["dev", "down"], ["dev", "list"], ["status"], ["events"]])
def test_a_noetl_folder_in_the_project_is_not_a_stack(command: list[str], bare: Site) -> None:
    shipped_folder = bare.folder / ".noetl"
    shipped_folder.mkdir()
    write_atomically(shipped_folder / "crash.txt", "SHIPPED")
    write_atomically(shipped_folder / "servers.json", '[[-1, "", true]]')
    os.mkfifo(shipped_folder / "stack.json")
    done = bare.noetl(*command)
    assert "SHIPPED" not in done.stdout + done.stderr
    assert sorted(path.name for path in shipped_folder.iterdir()) == ["crash.txt", "servers.json", "stack.json"]


@pytest.mark.stack
def test_history_that_came_with_the_folder_does_not_run(
    task_folder: Path, bare: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, shipped_folder = task_folder / "canary", bare.folder / ".noetl"
    slow = str(bare.write(SLOW))
    monkeypatch.setenv("NOETL_HOME", str(shipped_folder))
    assert bare.noetl("dev", "up").returncode == 0
    run = bare.start("run", slow, "--set", f"file={canary}")
    assert wait_until(canary.exists, 90)
    assert bare.noetl("dev", "down").returncode == 0
    run.communicate(timeout=60)
    canary.unlink()

    monkeypatch.delenv("NOETL_HOME")
    done = bare.noetl("run", str(bare.write(HELLO, "hello.yaml")))
    assert done.returncode == 0, done.stderr
    assert not canary.exists(), "code of a stack that came with the folder ran"

    monkeypatch.setenv("NOETL_HOME", str(shipped_folder))  # the control: a person who names it runs it
    assert bare.noetl("dev", "up").returncode == 0
    try:
        assert wait_until(canary.exists, 90)
    finally:
        bare.noetl("dev", "down")


def test_credentials_that_came_with_the_folder_are_not_read(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("credentials.yaml", ".noetl/credentials.yaml"):
        (bare.folder / name).parent.mkdir(exist_ok=True)
        bare.write("pg_local: {type: postgres, db_host: evil.example}\n", name)
    monkeypatch.chdir(bare.folder)
    monkeypatch.setenv("NOETL_CREDENTIAL_PG_LOCAL", '{"type": "postgres", "db_host": "mine"}')
    assert credential_source().find("pg_local") == {"type": "postgres", "db_host": "mine"}
    monkeypatch.setenv("NOETL_CREDENTIALS", "credentials.yaml")
    with pytest.raises(DeploymentError, match="a relative path: set it to an absolute path"):
        credential_source()
    monkeypatch.setenv("NOETL_CREDENTIALS", str(bare.folder / "credentials.yaml"))  # the control: it is named
    assert credential_source().find("pg_local")["db_host"] == "evil.example"
