"""Where the libraries beneath log to: their warnings are for an operator, not for someone who runs a playbook. What the
python tasks of a playbook print is logged there as well.

Temporal's core, which is not written in Python, would print its own on standard output, in the middle of results.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TextIO

from noetl_compiler.printable import printable
from noetl_temporal.stack.files import open_log

__all__ = ["log_nowhere", "log_to_file", "log_to_terminal"]

TASK_OUTPUT = "noetl_temporal.task_output"
"""The logger of that module, which brings Temporal along."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_file(file: Path) -> None:
    """For a command that a person watches: nothing but its own words on the terminal. Nowhere, without a folder.

    Raises OSError when somebody else may have made the file."""
    has_folder = file.parent.exists()
    _log_to(_File(open_log(file, append=True)) if has_folder else logging.NullHandler())


def log_nowhere() -> None:
    """For a command that only asks: what goes wrong it tells in words of its own."""
    _log_to(logging.NullHandler())


def log_to_terminal() -> None:
    """For a service: warnings on stderr."""
    _log_to(logging.StreamHandler())


class _File(logging.StreamHandler[TextIO]):
    """Leaves out what it cannot write. A disk that is full is no reason for a traceback on the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        del record


class _Printable(logging.Formatter):
    """Whoever reads a log does so on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _log_to(handler: logging.Handler) -> None:
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    handler.setFormatter(_Printable(FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger(TASK_OUTPUT).setLevel(logging.INFO)
    forwarding = LogForwardingConfig(logging.getLogger("temporalio.core"))
    core = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=core)))
