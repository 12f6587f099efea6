"""A run with many failures shows their number, the first and the last."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.site import ROOT, Api, Site

pytestmark = pytest.mark.stack

PLAYBOOK = ROOT / "tests/acceptance/playbooks/many_failures.yaml"


def test_a_thousand_failed_items_are_counted_and_the_first_and_last_are_kept(site: Site, api: Api) -> None:
    report = site.run(PLAYBOOK, "--set", f"api_url={api.url}")
    assert report["status"] == "failed"
    assert report["failure_counts"] == [
        {"step": "after", "kind": "not_found", "count": 1, "handled": 0},
        {"step": "load", "kind": "not_found", "count": 998, "handled": 998},
        {"step": "load", "kind": "template", "count": 2, "handled": 2},
    ]
    assert len(report["failures"]) == 100
    assert "nothing" in report["failures"][3]["message"]
    assert report["failures"][-1]["step"] == "after"

    output = site.noetl("status", str(report["execution_id"])).stdout
    assert "load: 1,000 iterations failed: 998 not_found, 2 template (handled); the first and the last:" in output
    assert f"{PLAYBOOK.name}:" in output
    assert "load/load_task[0]: " in output
    assert "load/load_task[999]: " in output
    assert "after/after_task: " in output

    events = [
        json.loads(line) for line in site.noetl("events", str(report["execution_id"]), "--json").stdout.splitlines()
    ]
    assert sum(event["event_type"] == "loop.iteration.failed" for event in events) == 1000
    [failure_event] = [event for event in events if event["event_type"] == "playbook.failed"]
    assert failure_event["meta"]["failed_steps"] == ["after"]
    assert [count_["count"] for count_ in failure_event["meta"]["failures"]] == [1, 998, 2]
    assert "404" in failure_event["error"]
