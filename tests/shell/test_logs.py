"""Nothing of the libraries beneath is on the terminal of a command, nor of what becomes of the file they log to."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner
from temporalio.runtime import Runtime

from noetl_temporal.cli.commands import cli

RUN = "766377181459998035"
FULL = """
import logging
from pathlib import Path
from noetl_temporal.cli import logging_setup
logging_setup.open_log = lambda *_, **__: open("/dev/full", "w")
logging_setup.log_to_file(Path.cwd() / "run.log")
logging.getLogger("beneath").warning("retried")
import os
os._exit(0)
"""


def test_a_full_disk_gives_no_traceback_on_the_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("command", [["status", "--json"], ["cancel", RUN], ["terminate", RUN], ["setup"], ["prune"]])
def test_temporals_core_does_not_print_beside_what_a_command_prints(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """It prints on standard output by itself, unless its runtime forwards what it logs."""
    runtimes: list[Runtime] = []
    monkeypatch.setattr(Runtime, "set_default", runtimes.append)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("NOETL_POSTGRES", "postgresql://noetl@127.0.0.1:1/noetl")
    done = CliRunner().invoke(cli, command)
    assert done.exit_code != 0
    assert len(runtimes) == 1
