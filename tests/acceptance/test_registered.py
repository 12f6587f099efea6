"""The catalog and schedules as a person uses them: register, look, run a version, run it by the clock."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from noetl_temporal.ids import new_execution_id
from tests.acceptance.processes import wait_until
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: registered, path: PATH}
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: noop, result: "MESSAGE {{ workload.n }}"}
"""


@pytest.fixture
def path() -> str:
    """Of the playbook of this test alone."""
    return f"tests/registered/{new_execution_id()}"


RHAI = "{kind: rhai, code: '1'}"


def write(folder: Path, path: str, message: str, name: str = "a.yaml") -> str:
    file = folder / name
    file.write_text(TEXT.replace("PATH", path).replace("MESSAGE", message))
    return str(file)


def output_of(site: Site, *args: str, status: int = 0) -> str:
    done = site.noetl(*args)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def lines_of(site: Site, *args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output_of(site, *args, "--json").splitlines()]


def test_versions_are_registered_shown_and_run(site: Site, path: str, tmp_path: Path) -> None:
    file = write(tmp_path, path, "one")
    assert output_of(site, "register", file) == f"registered: {path}@1\n"
    assert output_of(site, "register", file) == f"unchanged: {path}@1\n"
    write(tmp_path, path, "two")
    [registration] = json.loads(output_of(site, "register", str(tmp_path), "--json"))["playbooks"]
    assert (registration["version"], registration["is_new"], registration["file"]) == (2, True, file)
    assert [entry["version"] for entry in lines_of(site, "catalog", "list", path)] == [2, 1]
    assert f"{path}@2" in output_of(site, "catalog", "list", f"{path}*")
    assert output_of(site, "catalog", "show", f"{path}@1") == Path(file).read_text().replace("two", "one")
    for newer in (f"{path}@2", file):
        difference = output_of(site, "catalog", "diff", f"{path}@1", newer)
        assert '-    tool: {kind: noop, result: "one {{ workload.n }}"}\n' in difference
        assert '+    tool: {kind: noop, result: "two {{ workload.n }}"}\n' in difference
    assert json.loads(output_of(site, "run", f"{path}@1", "--set", "n=3", "--json"))["result"] == "one 3"
    submission = json.loads(output_of(site, "submit", f"{path}@latest", "--json"))
    assert json.loads(output_of(site, "wait", submission["execution_id"], "--json"))["result"] == "two 0"


def test_invalid_playbooks_are_not_registered(site: Site, path: str, tmp_path: Path) -> None:
    write(tmp_path, path, "one")
    wrong = tmp_path / "b.yaml"
    wrong.write_text(TEXT.replace("noop", "nop").replace("PATH", f"{path}/b"))
    worse = tmp_path / "c.yaml"
    worse.write_text(wrong.read_text().replace(f"{path}/b", f"{path}/c"))
    refusal = output_of(site, "register", str(tmp_path), status=2)
    assert f"{wrong}:7:" in refusal
    last = "2 errors in 2 files: nothing was registered"
    assert [line for line in refusal.splitlines() if "nothing was registered" in line] == [last]
    worse.unlink()
    assert "\n1 error: nothing was registered\n" in output_of(site, "register", str(tmp_path), status=2)
    assert output_of(site, "catalog", "list", path) == ""
    unknown = output_of(site, "submit", f"{path}@1", status=2)
    assert f"the catalog has no playbook '{path}'" in unknown
    wrong.unlink()
    output_of(site, "register", str(tmp_path))
    assert "the catalog has no version 7 of" in output_of(site, "run", f"{path}@7", status=2)
    assert "does not use 'm'" in output_of(site, "run", f"{path}@1", "--set", "m=3", status=2)


def test_a_schedule_follows_its_path(site: Site, path: str, tmp_path: Path) -> None:
    file = write(tmp_path, path, "one")
    output_of(site, "register", file)
    added = output_of(
        site, "schedule", "add", path, "--cron", "0 0 29 2 *", "--set", "n=5", "--time-zone", "Europe/Oslo"
    )
    assert re.search(rf"^playbook +{path}@1, follows the newest$", added, re.MULTILINE)
    assert re.search(r"^times +cron 0 0 29 2 \* \(Europe/Oslo\)$", added, re.MULTILINE)
    assert wait_until(lambda: path in output_of(site, "schedule", "list"))
    write(tmp_path, path, "two")
    assert f"schedule {path}: moved from {path}@1 to {path}@2\n" in output_of(site, "register", file)
    output_of(site, "schedule", "trigger", path)

    def execution() -> Any:
        [schedule] = lines_of(site, "schedule", "show", path)
        return schedule["runs"] and schedule["runs"][0]["execution_id"]

    assert wait_until(execution)
    assert json.loads(output_of(site, "wait", execution(), "--json"))["result"] == "two 5"
    assert wait_until(lambda: [run["schedule"] for run in lines_of(site, "list", "--path", path)] == [path])
    assert path in output_of(site, "list", "--path", path)
    for command, word in (("pause", "paused"), ("resume", "resumed"), ("delete", "deleted")):
        assert output_of(site, "schedule", command, path) == f"schedule {path}: {word}\n"
    assert "there is no schedule" in output_of(site, "schedule", "show", path, status=2)


def test_an_invalid_schedule_is_refused(site: Site, path: str, tmp_path: Path) -> None:
    assert "--cron or --every is required" in output_of(site, "schedule", "add", path, status=2)
    assert "the catalog has no playbook" in output_of(site, "schedule", "add", path, "--every", "1h", status=2)
    output_of(site, "register", write(tmp_path, path, "one"))
    wrong = output_of(site, "schedule", "add", path, "--cron", "99 * * * *", status=2)
    assert "the cron expression '99 * * * *' is invalid: the minute must be from 0 to 59" in wrong
    for option, value in (("--every", "soon"), ("--every", "5"), ("--jitter", "1.5"), ("--catch-up", "60")):
        assert "is not a duration with a unit" in output_of(site, "schedule", "add", path, option, value, status=2)
    assert "is not a time" in output_of(site, "schedule", "backfill", path, "--from", "x", "--to", "y", status=2)


@pytest.mark.parametrize(
    "command",
    [
        ["show", "NAME"],
        ["pause", "NAME"],
        ["resume", "NAME"],
        ["trigger", "NAME"],
        ["delete", "NAME"],
        ["backfill", "NAME", "--from", "2026-11-01", "--to", "2026-11-02"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_about_a_missing_schedule_ends_with_2(site: Site, path: str, command: list[str]) -> None:
    words = [path if word == "NAME" else word for word in command]
    assert f"there is no schedule {path!r}" in output_of(site, "schedule", *words, status=2)


def test_an_existing_schedule_is_refused_with_2(site: Site, path: str, tmp_path: Path) -> None:
    output_of(site, "register", write(tmp_path, path, "one"))
    output_of(site, "schedule", "add", path, "--every", "1d", "--paused")
    try:
        assert "already" in output_of(site, "schedule", "add", path, "--every", "1d", status=2)
    finally:
        output_of(site, "schedule", "delete", path)


def test_a_schedule_of_a_playbook_that_cannot_run_is_refused_with_2(site: Site, path: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(TEXT.replace("PATH", path).replace('{kind: noop, result: "MESSAGE {{ workload.n }}"}', RHAI))
    output_of(site, "register", str(file))
    assert "rhai" in output_of(site, "schedule", "add", path, "--every", "1h", status=2)


def test_a_schedule_needs_the_credentials_of_its_playbook(site: Site, path: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    tool = "{kind: postgres, auth: warehouse, command: SELECT 1}"
    file.write_text(TEXT.replace("PATH", path).replace('{kind: noop, result: "MESSAGE {{ workload.n }}"}', tool))
    output_of(site, "register", str(file))
    refusal = output_of(site, "schedule", "add", path, "--every", "1h", status=2)
    assert refusal.startswith(f"{path}@1:7:")
    assert "warehouse" in refusal
    assert "there is no schedule" in output_of(site, "schedule", "show", path, status=2)


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_registered_path_without_a_version_is_refused_with_the_command(
    site: Site, path: str, tmp_path: Path, command: str
) -> None:
    output_of(site, "register", write(tmp_path, path, "one"))
    refusal = output_of(site, command, path, status=2)
    assert f"a registered playbook has this path; to run its newest version: noetl {command} {path}@1" in refusal
    assert "no such file" in output_of(site, command, f"{path}/nowhere", status=2)
