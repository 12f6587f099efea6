"""A run that waits, and people who answer it from the command line."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

REFUND = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: refund, path: examples/refund}
workflow:
  - step: paid
    tool: {kind: wait, signal: paid}
    next: {arcs: [{step: review}]}
  - step: review
    tool: {kind: approval, message: Refund it?, form: {amount: number, note: string}}
"""


def status(site: Site, *run: str) -> dict[str, Any]:
    done = site.noetl("status", *run, "--json")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def waits(site: Site, *run: str) -> list[str]:
    return [wait["name"] for wait in status(site, *run)["waits"]]


def test_waits_are_shown_with_the_command_that_answers_them(site: Site) -> None:
    running = site.start("run", str(site.write(REFUND, "refund.yaml")))
    assert wait_until(lambda: site.noetl("status").returncode == 0 and status(site)["path"] == "examples/refund")
    run = str(status(site)["execution_id"])
    assert wait_until(lambda: waits(site, run) == ["paid"])
    assert f"paid waits for the signal paid: noetl signal {run} paid" in site.noetl("status", run).stdout
    assert status(site, run)["steps"]["paid"]["status"] == "waiting"

    refusal = site.noetl("signal", run, "pade")
    assert (refusal.returncode, refusal.stderr) == (
        1,
        f"Error: run {run}: no step waits for the signal 'pade': its signals are paid\n",
    )
    assert "is not JSON" in site.noetl("signal", run, "paid", "--data", "much").stderr
    assert site.noetl("approve", run).stderr == (
        f"Error: run {run}: nothing to approve: the run waits for no approval now\n"
    )
    assert site.noetl("signal", run, "paid", "--data", '{"amount": 3}').stdout == f"run {run}: signal paid accepted\n"

    assert wait_until(lambda: waits(site, run) == ["review"])
    assert wait_until(lambda: status(site, run)["steps"]["paid"].get("attempts") == 1), "also while it runs"
    output = site.noetl("status", run).stdout
    assert f"review waits for an approval (Refund it?): noetl approve {run} review, or noetl reject" in output
    assert "amount must be a number" in site.noetl("approve", run, "--form", 'amount="x"').stderr
    unknown = site.noetl("approve", run, "--form", "amuont=3")
    assert unknown.returncode == 2
    assert "the form has no field 'amuont': its fields are amount (number), note (string)" in unknown.stderr
    wrong = site.noetl("approve", run, "--form", "amount=[3")
    assert (wrong.returncode, "--form amount: '[3' is not a YAML value" in wrong.stderr) == (2, True)
    assert "form.amount must be a number" in site.noetl("approve", run, "--form", "amount=much").stderr
    done = site.noetl("approve", run, "review", "--form", "amount=3", "--form", "note=7", "--reason", "checked")
    assert done.stdout == f"run {run}: review approved by {getpass.getuser()}\n"

    out, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert '"note": "7"' in out
    assert f"paid waits for the signal paid: noetl signal {run} paid" in errors
    assert f"noetl approve {run} review" in errors
    assert site.noetl("reject", run).stderr == f"Error: run {run}: the run has ended\n"
    rerun = f"to run its steps again, use `noetl rerun {run} --from STEP`"
    for command in (["retry"], ["retry", "--all"], ["skip", "--all"]):
        assert site.noetl(*command, run).stderr == f"Error: run {run}: the run has ended; {rerun}\n"
    assert site.noetl("skip", run, "paid").stderr == f"Error: run {run}: the run has ended; {rerun}\n"
    events = site.noetl("events", run).stdout
    assert "approval.decided" in events


CALLS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shop, path: examples/shop}
workflow:
  - step: call
    tool: {kind: playbook, path: examples/CALLED}
"""


def test_waits_of_a_playbook_that_a_called_playbook_calls_are_shown_by_the_run_and_its_status(site: Site) -> None:
    site.write(REFUND, "refund.yaml")
    site.write(CALLS.replace("shop", "order").replace("CALLED", "refund"), "order.yaml")
    running = site.start("run", str(site.write(CALLS.replace("CALLED", "order"), "shop.yaml")))
    assert wait_until(lambda: site.noetl("status").returncode == 0 and status(site)["path"] == "examples/shop")
    run = str(status(site)["execution_id"])
    assert wait_until(lambda: waits(site, run) == ["examples/refund: paid"])
    waiting = status(site, run)
    assert waiting["steps"]["call"]["status"] == "running"
    answer = waiting["waits"][0]["answer"]
    assert site.noetl(*answer.split()[1:]).returncode == 0
    assert wait_until(lambda: waits(site, run) == ["examples/refund: review"])
    decide = status(site, run)["waits"][0]["answer"].partition(",")[0]
    assert running.stderr is not None
    line = f"examples/refund: review waits for an approval (Refund it?): {decide}, or noetl reject"
    assert any(line in shown for shown in running.stderr)
    assert site.noetl(*decide.split()[1:], "--form", "amount=3").returncode == 0
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors


def test_the_command_that_rejects_is_shown(site: Site) -> None:
    file = site.write(REFUND.replace("step: paid\n    tool: {kind: wait, signal: paid}", "step: paid"), "reject.yaml")
    running = site.start("run", str(file), "--json")
    assert wait_until(lambda: status(site)["waits"] != [])
    run = str(status(site)["execution_id"])
    assert site.noetl("reject", run, "--as", "ann", "--reason", "no").stdout == f"run {run}: review rejected by ann\n"
    out, _ = running.communicate(timeout=60)
    result = json.loads(out)["result"]
    assert (result["approved"], result["by"], result["reason"]) == (False, "ann", "no")
