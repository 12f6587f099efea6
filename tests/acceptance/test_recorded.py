"""``noetl test --record``: a run on the real stack becomes a test that passes, and fails for a changed playbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.processes import wait_until
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
            - when: "{{ output.status == 'error' }}"
              then: {do: retry, attempts: 5, delay: 0.01}
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


def recorded(site: Site, api: Api, playbook: str, folder: str) -> Path:
    """The folder with the playbook and its recorded test."""
    place = site.folder / folder
    place.mkdir()
    file = place / "p.yaml"
    file.write_text(playbook)
    told = site.run(file, "--set", f"api_url={api.url}")
    done = site.noetl("test", "--record", str(told["execution_id"]))
    assert done.returncode == 0, done.stderr
    (place / "p.test.yaml").write_text(done.stdout)
    return place


@pytest.mark.parametrize(
    ("folder", "size", "frame"),
    [("inline", "3", ""), ("stored", "200_000", ""), ("framed", "3", ", frame: {max_rows: 2}")],
)
def test_a_recorded_run_is_a_test_that_passes(site: Site, api: Api, folder: str, size: str, frame: str) -> None:
    playbook = PLAYBOOK.replace("SIZE", size).replace("iterator: name", f"iterator: name{frame}")
    place = recorded(site, api, playbook, folder)
    text = (place / "p.test.yaml").read_text()
    assert "attempt: 1\n" in text, text
    assert "code: HTTP_500\n" in text
    assert "message: 'ValueError: no b (line 2 of the code)'\n" in text
    done = site.noetl("test", str(place))
    assert (done.returncode, done.stdout[:6]) == (0, "passed"), done.stdout

    (place / "p.yaml").write_text(playbook.replace("attempts: 5", "attempts: 1"))
    done = site.noetl("test", str(place))
    assert done.returncode == 1
    assert "nothing used the stub for fetch" in done.stdout


def test_a_run_that_is_not_there(site: Site) -> None:
    done = site.noetl("test", "--record", "1")
    assert (done.returncode, done.stderr) == (1, "Error: Temporal has no run 1\n")


def test_recording_runs_no_tests(site: Site) -> None:
    assert "takes no files" in site.noetl("test", "--record", "1", ".").stderr


def test_a_run_of_the_catalog_is_a_test_of_its_text(site: Site) -> None:
    place = site.folder / "registered"
    place.mkdir()
    file = place / "p.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: one, path: tests/one}\n"
        "workflow: [{step: start, tool: {kind: noop, result: done}}]\n"
    )
    assert site.noetl("register", str(file)).returncode == 0
    told = json.loads(site.noetl("run", "tests/one@latest", "--json").stdout)
    done = site.noetl("test", "--record", str(told["execution_id"]))
    (place / "one.test.yaml").write_text(done.stdout)
    (place / "one.yaml").write_text(site.noetl("catalog", "show", "tests/one").stdout)
    done = site.noetl("test", str(place))
    assert (done.returncode, done.stdout[:6]) == (0, "passed"), done.stdout


ANSWERED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: answered, path: tests/answered}
workflow:
  - step: paid
    tool: {kind: wait, signal: paid, key: "7"}
    next: {arcs: [{step: review}]}
  - step: review
    loop: {in: [a, b], iterator: name}
    tool: {kind: approval, form: {amount: number}}
    next: {arcs: [{step: load}]}
  - step: load
    on_failure: hold
    tool: {kind: python, code: "raise ValueError('no load')"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, result: "{{ review.results }}"}
"""


def test_what_people_asked_is_recorded(site: Site) -> None:
    place = site.folder / "answered"
    place.mkdir()
    (place / "p.yaml").write_text(ANSWERED)
    running = site.start("run", str(place / "p.yaml"), "--json")
    assert wait_until(lambda: standing(site, "waits") == ["paid"])
    run = str(status(site)["execution_id"])
    assert site.noetl("signal", run, "paid", "--key", "7", "--data", "{}").returncode == 0
    assert wait_until(lambda: standing(site, "waits") == ["review[0]"])
    assert site.noetl("approve", run, "--as", "ann", "--form", "amount=3").returncode == 0
    assert wait_until(lambda: standing(site, "waits") == ["review[1]"])
    assert site.noetl("reject", run, "--as", "bob", "--reason", "no").returncode == 0
    assert wait_until(lambda: standing(site, "held", "run") == ["load#1"])
    assert site.noetl("retry", run, "--as", "ann").returncode == 0
    assert wait_until(lambda: standing(site, "held", "run") == ["load#2"])
    assert site.noetl("skip", run, "load", "--data", "[1]", "--as", "ann").returncode == 0
    running.communicate(timeout=60)

    done = site.noetl("test", "--record", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["tests"][0]["requests"] == [
        {"do": "signal", "name": "paid", "key": "7", "data": {}},
        {"do": "approve", "step": "review", "iteration": 0, "by": "ann", "form": {"amount": 3}},
        {"do": "reject", "step": "review", "iteration": 1, "by": "bob", "reason": "no"},
        {"do": "retry", "by": "ann"},
        {"do": "skip", "step": "load", "data": [1], "by": "ann"},
    ]
    (place / "p.test.yaml").write_text(done.stdout)
    for flags in ([], ["--temporal"]):
        done = site.noetl("test", *flags, str(place))
        assert (done.returncode, done.stdout[:6]) == (0, "passed"), done.stdout


PAUSED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: paused, path: tests/paused}
workflow:
  - step: slow
    tool: {kind: python, code: "import time; time.sleep(6)"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: python, code: "result = 1"}
"""


def test_a_pause_is_recorded_with_its_time(site: Site) -> None:
    place = site.folder / "paused"
    place.mkdir()
    (place / "p.yaml").write_text(PAUSED)
    running = site.start("run", str(place / "p.yaml"), "--json")
    assert wait_until(lambda: "slow" in status(site)["steps"] and status(site)["path"] == "tests/paused")
    run = str(status(site)["execution_id"])
    assert site.noetl("pause", run, "--as", "ann").returncode == 0
    assert wait_until(lambda: status(site)["steps"]["slow"]["status"] == "completed")
    assert site.noetl("resume", run, "--as", "bob").returncode == 0
    running.communicate(timeout=60)
    done = site.noetl("test", "--record", run)
    assert (done.returncode, done.stderr) == (0, "")
    [test] = yaml.safe_load(done.stdout)["tests"]
    assert [(one["do"], one["by"]) for one in test["requests"]] == [("pause", "ann"), ("resume", "bob")]
    assert 0 < test["requests"][0]["at"] < test["requests"][1]["at"]
    assert test["stubs"][0]["takes"] > 5
    (place / "p.test.yaml").write_text(done.stdout)
    done = site.noetl("test", str(place))
    assert (done.returncode, done.stdout[:6]) == (0, "passed"), done.stdout


def status(site: Site) -> dict[str, Any]:
    """Of the latest run; empty while there is none."""
    done = site.noetl("status", "--json")
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"steps": {}, "path": ""}
    return found


def standing(site: Site, what: str, key: str = "name") -> list[str]:
    return [one[key] for one in status(site).get(what, [])]
