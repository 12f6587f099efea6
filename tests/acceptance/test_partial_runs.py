"""A run that its final step calls partial, as commands show it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

HALF = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: half, path: tests/half}
workflow:
  - step: start
    tool: {kind: python, code: "raise ValueError('half of it')"}
  - step: end
    tool: {kind: noop, result: "{{ failures | map(attribute='step') | list }}"}
    status: "{{ workload.word | default('partial') }}"
"""
CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: tests/caller}
workflow:
  - step: call
    tool: {kind: playbook, path: tests/half}
"""


def report_of(site: Site, *command: str) -> tuple[int, dict[str, Any]]:
    done = site.noetl(*command, "--json")
    return done.returncode, json.loads(done.stdout)


def test_every_command_shows_partial(site: Site) -> None:
    code, run = report_of(site, "run", str(site.write(HALF, "half.yaml")))
    assert (code, run["status"], run["result"]) == (0, "partial", ["start"])
    assert [failure["message"] for failure in run["failures"]] == ["ValueError: half of it (line 1 of the code)"]
    id_ = run["execution_id"]
    assert report_of(site, "status", id_)[1]["status"] == "partial"
    code, wait_report = report_of(site, "wait", id_)
    assert (code, wait_report["status"]) == (0, "partial")
    listed_runs = [json.loads(line) for line in site.noetl("list", "--status", "partial", "--json").stdout.splitlines()]
    assert [(run["execution_id"], run["status"], run["error"]) for run in listed_runs] == [
        (id_, "partial", "ValueError: half of it (line 1 of the code)")
    ]
    events = [json.loads(line) for line in site.noetl("events", id_, "--json").stdout.splitlines()]
    assert [(event["event_type"], event["status"]) for event in events[-2:]] == [
        ("workflow.finished", "PARTIAL"),
        ("playbook.completed", "PARTIAL"),
    ]
    assert "partial in " in site.noetl("status", id_).stdout


def test_a_word_that_is_not_a_status_fails_the_run_at_its_place(site: Site) -> None:
    done = site.noetl("run", str(site.write(HALF, "half.yaml")), "--set", "word=nearly")
    assert done.returncode == 1
    assert "half.yaml:9:13: end: status is 'nearly', expected completed, partial or failed" in done.stdout + done.stderr


def test_a_playbook_that_calls_a_partial_one_completes(site: Site) -> None:
    site.write(HALF, "half.yaml")
    code, run = report_of(site, "run", str(site.write(CALLER, "caller.yaml")))
    assert (code, run["status"], run["result"]) == (0, "completed", ["start"])


@pytest.mark.parametrize(("word", "code"), [("completed", 0), ("failed", 1)])
def test_the_final_step_gives_the_other_words_too(site: Site, word: str, code: int) -> None:
    report, run = report_of(site, "run", str(site.write(HALF, "half.yaml")), "--set", f"word={word}")
    assert (report, run["status"]) == (code, word)
