"""SIGTERM while a command that serves until it is stopped is still starting: nothing has begun, so it is no failure."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.processes import wait_until
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("module", ["msgspec", "temporal_sdk_bridge"])
@pytest.mark.parametrize("command", ["worker", "mirror", "codec-server"])
def test_a_service_that_is_stopped_while_it_starts_ends_well(site: Site, command: str, module: str) -> None:
    process = site.start(command)
    assert wait_until(lambda: process.poll() is not None or has_loaded(process, module))
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in errors) == (0, False), (output, errors)


def test_another_command_that_is_stopped_while_it_starts_has_not_ended_well(site: Site) -> None:
    process = site.start("mirror", "rebuild")
    assert wait_until(lambda: has_loaded(process, "msgspec"))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def has_loaded(process: subprocess.Popen[str], library: str) -> bool:
    """Whether the process has imported this library, long before it serves."""
    return library in Path(f"/proc/{process.pid}/maps").read_text()
