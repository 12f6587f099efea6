"""A run that people pause, resume, retry and skip from the command line."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

LOAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, path: examples/load}
workflow:
  - step: load
    on_failure: {do: hold, for: 2h}
    tool: {kind: python, code: "raise ValueError('no such table')"}
    next: {arcs: [{step: gate}]}
  - step: gate
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: tell}]}
  - step: tell
    tool: {kind: python, code: "result = rows + 1", input: {rows: "{{ load.rows }}"}}
"""


def status(site: Site, *run: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(site.noetl("status", *run, "--json").stdout)
    return report


def test_a_run_is_held_skipped_paused_and_resumed(site: Site) -> None:
    running = site.start("run", str(site.write(LOAD, "load.yaml")))
    assert wait_until(lambda: site.noetl("status").returncode == 0 and status(site)["status"] == "paused")
    run = str(status(site)["execution_id"])
    output = site.noetl("status", run).stdout
    assert "load is held until" in output
    assert "no such table" in output
    assert f"noetl retry {run} --step load, or noetl skip {run} load --data JSON" in output
    assert run in site.noetl("list", "--status", "paused").stdout
    assert site.noetl("skip", run, "gate").stderr == f"Error: run {run}: step 'gate' is not held: held are 'load'\n"
    assert site.noetl("resume", run).stderr == f"Error: run {run}: the run is not paused\n"

    assert site.noetl("retry", run).stdout == f"run {run}: retrying load\n"
    assert wait_until(lambda: any(entry["run"] == "load#2" for entry in status(site, run)["suspensions"]))
    skip_result = site.noetl("skip", run, "load", "--data", '{"rows": 4}', "--reason", "loaded by hand")
    assert skip_result.stdout == f"run {run}: skipped load\n"
    assert wait_until(lambda: status(site, run)["waits"] != [])

    pause_result = site.noetl("pause", run, "--reason", "the database moves")
    assert pause_result.stdout == f"run {run}: paused; to resume it: noetl resume {run}\n"
    assert site.noetl("pause", run).stderr == f"Error: run {run}: the run is paused already\n"
    site.noetl("signal", run, "go")
    output = site.noetl("status", run).stdout
    assert f"paused by {getpass.getuser()} (the database moves): noetl resume {run}" in output
    assert site.noetl("resume", run, "--as", "bob").stdout == f"run {run}: resumed\n"

    out, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert "result: 5" in out
    assert "load is held until" in errors
    assert f"noetl resume {run}" in errors
    events = site.noetl("events", run).stdout
    assert "playbook.paused" in events
    assert "step.released" in events
