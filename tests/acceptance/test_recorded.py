"""``noetl test --record``: a run on the real stack becomes a test that passes, and fails for a changed playbook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.site import Api, Site

pytestmark = pytest.mark.stack

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: recorded, path: tests/recorded}
workload: {api_url: "", names: [a, b]}
workflow:
  - step: fetch
    tool:
      name: get
      kind: http
      url: "{{ workload.api_url }}/api/v1/flaky"
      params: {page: 1, pageSize: 2, fail_on: "1"}
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' and output.http.status == 500 }}"
              then: {do: retry, attempts: 5, delay: 0.01}
            - when: "{{ output.status == 'error' }}"
              then: {do: fail}
            - else: {then: {do: continue}}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ workload.names }}", iterator: name, spec: {mode: parallel}}
    tool:
      name: measure
      kind: python
      input: {name: "{{ iter.name }}"}
      code: |
        if name == "b":
            raise ValueError("no b")
        result = {"name": name, "text": "x" * SIZE}
"""


def record_test(site: Site, api: Api, playbook: str, folder: str) -> Path:
    """The folder with the playbook and its recorded test."""
    place = site.folder / folder
    place.mkdir()
    file = place / "p.yaml"
    file.write_text(playbook)
    report = site.run(file, "--set", f"api_url={api.url}")
    done = site.noetl("test", "--record", str(report["execution_id"]))
    assert done.returncode == 0, done.stderr
    (place / "p.test.yaml").write_text(done.stdout)
    return place


@pytest.mark.parametrize(
    ("folder", "size", "frame"),
    [("inline", "3", ""), ("stored", "200_000", ""), ("framed", "3", ", frame: {max_rows: 2}")],
)
def test_a_recorded_run_is_a_test_that_passes(site: Site, api: Api, folder: str, size: str, frame: str) -> None:
    playbook = PLAYBOOK.replace("SIZE", size).replace("iterator: name", f"iterator: name{frame}")
    place = record_test(site, api, playbook, folder)
    text = (place / "p.test.yaml").read_text()
    assert "attempt: 1\n" in text, text
    assert "status: 500\n" in text
    assert "message: 'ValueError: no b (line 2 of the code)'\n" in text
    done = site.noetl("test", str(place))
    assert (done.returncode, done.stdout[:6]) == (0, "passed"), done.stdout

    (place / "p.yaml").write_text(playbook.replace("attempts: 5", "attempts: 1"))
    done = site.noetl("test", str(place))
    assert done.returncode == 1
    assert "nothing used the stub for fetch" in done.stdout


def test_a_rerun_is_recorded_with_the_state_that_it_reuses(site: Site) -> None:
    place = site.folder / "rerun"
    place.mkdir()
    file = place / "p.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: again, path: tests/again}\nworkload: {city: Rome}\n"
        "workflow:\n"
        "  - {step: start, tool: {kind: python, code: result = 1}, next: {arcs: [{step: wait}]}}\n"
        "  - {step: wait, tool: {kind: wait, signal: go}, next: {arcs: [{step: last}]}}\n"
        "  - {step: last, tool: {kind: python, code: result = 2}}\n"
    )
    first = json.loads(site.noetl("submit", str(file), "--set", "city=Oslo", "--json").stdout)["execution_id"]
    assert site.noetl("signal", first, "go", "--data", "[1]").returncode == 0
    assert site.noetl("wait", first).returncode == 0
    rerun_id = json.loads(site.noetl("rerun", first, "--from", "last", "--json").stdout)["execution_id"]
    assert site.noetl("wait", rerun_id).returncode == 0
    done = site.noetl("test", "--record", rerun_id)
    assert done.returncode == 0, done.stderr
    (place / "p.test.yaml").write_text(done.stdout)
    assert [text for text in ("step: start", "do: signal", "step: last", "city: Oslo") if text not in done.stdout] == []
    assert site.noetl("test", str(place)).returncode == 0


def test_a_run_that_is_not_there(site: Site) -> None:
    done = site.noetl("test", "--record", f"{1:018}")
    assert (done.returncode, done.stderr) == (2, "Error: Temporal has no run 1\n")


def test_a_cancelled_run_becomes_a_test_that_cancels_it_and_a_terminated_run_none(site: Site) -> None:
    place = site.folder / "cancelled"
    place.mkdir()
    file = place / "waits.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: waits, path: tests/waits}\n"
        "workflow: [{step: start, tool: {kind: wait, signal: go}}]\n"
    )
    run = json.loads(site.noetl("submit", str(file), "--json").stdout)["execution_id"]
    site.noetl("cancel", run, "--reason", "wrong table")
    site.noetl("wait", run)
    done = site.noetl("test", "--record", run)
    assert (done.returncode, done.stderr, "do: cancel" in done.stdout) == (0, "", True)
    (place / "waits.test.yaml").write_text(done.stdout)
    assert site.noetl("test", str(place)).returncode == 0

    run = json.loads(site.noetl("submit", str(file), "--json").stdout)["execution_id"]
    site.noetl("terminate", run)
    done = site.noetl("test", "--record", run)
    message = f"Error: run {run} is terminated: only a run that completed, failed or was cancelled can be recorded\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_recording_runs_no_tests(site: Site) -> None:
    assert "takes no files" in site.noetl("test", "--record", f"{1:018}", ".").stderr


def test_a_run_of_the_catalog_is_a_test_of_its_text(site: Site) -> None:
    place = site.folder / "registered"
    place.mkdir()
    file = place / "p.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one, path: tests/one}\n"
        "workflow: [{step: start, tool: {kind: noop, result: done}}]\n"
    )
    assert site.noetl("register", str(file)).returncode == 0
    report = json.loads(site.noetl("run", "tests/one@latest", "--json").stdout)
    done = site.noetl("test", "--record", str(report["execution_id"]))
    (place / "one.test.yaml").write_text(done.stdout)
    (place / "one.yaml").write_text(site.noetl("catalog", "show", "tests/one").stdout)
    done = site.noetl("test", str(place))
    assert (done.returncode, done.stdout[:6]) == (0, "passed"), done.stdout


PARTIAL = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: half, path: tests/half}
workload: {api_url: ""}
workflow:
  - step: start
    tool: {kind: python, code: "raise ValueError('half of it')"}
  - step: end
    tool: {kind: noop, result: "{{ failures | map(attribute='step') | list }}"}
    status: partial
"""


def test_a_partial_run_becomes_a_test_that_expects_partial(site: Site, api: Api) -> None:
    place = record_test(site, api, PARTIAL, "half")
    assert "status: partial" in (place / "p.test.yaml").read_text()
    test_result = site.noetl("test", str(place))
    assert test_result.returncode == 0, test_result.stdout + test_result.stderr
    (place / "p.yaml").write_text(PARTIAL.replace("status: partial", "status: completed"))
    failed = site.noetl("test", str(place))
    assert (failed.returncode, "partial" in failed.stdout + failed.stderr) == (1, True)
