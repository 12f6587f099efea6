"""``noetl dev``: a stack that stays."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.processes import alive, wait_until
from tests.acceptance.site import ROOT, Site

pytestmark = pytest.mark.stack

HELLO = ROOT / "dev/examples/hello.yaml"


def test_up_status_run_down(bare: Site) -> None:
    up = bare.noetl("dev", "up")
    try:
        assert up.returncode == 0, up.stderr
        addresses = bare.addresses()
        assert addresses.ui in up.stdout
        assert bare.noetl("dev", "status").stdout.startswith("up\n")
        assert bare.noetl("dev", "up").stdout.startswith("already up\n")
        assert bare.run(HELLO, "--set", "name=Ada")["result"] == {"said": "Hello, Ada!"}
        assert bare.addresses() == addresses, "a run replaced the stack"
    finally:
        assert bare.noetl("dev", "down").stdout == "down\n"
    assert bare.noetl("dev", "status").returncode == 1
    assert wait_until(lambda: not alive(addresses.pid))


def test_up_again_after_its_processes_were_killed(bare: Site) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    first = bare.addresses()
    os.kill(first.pid, signal.SIGKILL)
    try:
        up = bare.noetl("dev", "up")
        assert up.returncode == 0, up.stderr
        assert bare.addresses().pid != first.pid
    finally:
        bare.noetl("dev", "down")


def test_a_run_without_a_stack_leaves_none_and_keeps_its_data(bare: Site) -> None:
    first = bare.run(HELLO)
    second = bare.run(HELLO)
    assert (first["status"], second["status"]) == ("completed", "completed")
    assert first["execution_id"] < second["execution_id"]
    assert bare.noetl("dev", "status").returncode == 1


def test_two_runs_at_once_share_a_stack(bare: Site) -> None:
    runs = [bare.start("run", str(HELLO), "--json") for _ in range(2)]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
    assert bare.noetl("dev", "status").returncode == 1
