"""A typo in a condition: the run completes without doing what was meant, and every command warns."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

TYPO = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: typo, path: tests/typo}
workflow:
  - step: start
    tool: {kind: python, code: "result = {'count': 5}"}
    next: {arcs: [{step: store, when: "{{ start.cuont == 5 }}"}]}
  - step: store
    tool: {kind: python, code: "result = 1"}
"""


def test_a_typo_in_a_route_is_reported_by_run_status_and_events(site: Site) -> None:
    file = site.write(TYPO)
    done = site.noetl("run", str(file))
    warning = 'warning: start: "start.cuont" is undefined, so this condition did not match: did you mean "count"?'
    message = f"{file}:7:40: {warning}"
    assert done.returncode == 0
    assert message in done.stderr.splitlines()
    assert message in done.stdout.splitlines()
    assert message in site.noetl("status").stdout.splitlines()
    assert json.loads(site.noetl("status", "--json").stdout)["warnings"] == [message]
    events = site.noetl("events").stdout
    assert message in events
    assert "no match: store when {{ start.cuont == 5 }}" in events


def test_an_end_that_the_playbook_does_not_have_is_not_shown(site: Site) -> None:
    done = site.noetl("run", str(site.write(TYPO)))
    report = json.loads(site.noetl("status", "--json").stdout)
    assert list(report["steps"]) == ["start"]
    assert [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("end ")] == []
