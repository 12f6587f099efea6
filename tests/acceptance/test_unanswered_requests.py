"""Requests to a run while no worker is running."""

from __future__ import annotations

import json

import pytest

from noetl_temporal.cli.exits import UNKNOWN
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

WAITS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/unanswered}
workflow:
  - step: start
    tool: {kind: wait, signal: paid}
"""


def test_a_request_that_no_worker_answers_has_an_unknown_outcome(cluster: None, bare: Site) -> None:
    run = json.loads(bare.noetl("submit", str(bare.write(WAITS)), "--json").stdout)["execution_id"]
    done = bare.noetl("signal", run, "paid")
    assert (done.returncode, "The run may accept this request then" in done.stderr) == (UNKNOWN, True), done.stderr
