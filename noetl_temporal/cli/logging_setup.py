"""Sets up logging: where libraries and the output of tasks are logged.

Warnings of libraries are for operators, not for users who run a playbook. Temporal's core, which is written in Rust,
would otherwise print its log to standard output, between results.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from noetl_compiler.printable import printable
from noetl_temporal.stack.files import open_log

if TYPE_CHECKING:
    from temporalio.runtime import PrometheusConfig

__all__ = ["LOG_FORMATS", "discard_log", "log_to_file", "log_to_stderr"]

TASK_OUTPUT = "noetl_temporal.calls.task_output"
"""The logger for the output of tasks. Its module is not imported here, because it imports Temporal."""

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LOG_FORMATS = ("text", "json")

_CALL_ATTRIBUTES = ("execution_id", "step", "iteration", "attempt")
"""The attributes of a log record that identify a call."""


def log_to_file(file: Path) -> None:
    """Log to a file, so that the terminal has only the output of the command; discard the log if its folder is missing.

    Raises OSError if another account may have created the file.
    """
    has_folder = file.parent.exists()
    _log_to(_FileHandler(open_log(file, append=True)) if has_folder else logging.NullHandler())


def discard_log() -> None:
    """Discard the log, for commands that report problems themselves."""
    _log_to(logging.NullHandler())


def log_to_stderr(log_format: str = "text", metrics: PrometheusConfig | None = None) -> None:
    """Log warnings to stderr in one of LOG_FORMATS, for services. ``metrics``: where the SDK exports its metrics."""
    _log_to(logging.StreamHandler(), _JsonFormatter() if log_format == "json" else None, metrics)


class _FileHandler(logging.StreamHandler[TextIO]):
    """Drops lines that it cannot write, such as on a full disk, instead of printing tracebacks."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        del record


class _PrintableFormatter(logging.Formatter):
    """Escapes control characters, because logs are read on terminals."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the ids of the call, if known."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name in _CALL_ATTRIBUTES if (value := getattr(record, name, None)) is not None},
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if "execution_id" in fields:
            fields["execution_id"] = str(fields["execution_id"])
        return json.dumps(fields, ensure_ascii=True, default=str)


def _log_to(
    handler: logging.Handler, formatter: logging.Formatter | None = None, metrics: PrometheusConfig | None = None
) -> None:
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    handler.setFormatter(formatter or _PrintableFormatter(FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger(TASK_OUTPUT).setLevel(logging.INFO)
    forwarding = LogForwardingConfig(logging.getLogger("temporalio.core"))
    core = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding)
    telemetry = TelemetryConfig(logging=core, metrics=metrics, attach_service_name=False)
    Runtime.set_default(Runtime(telemetry=telemetry))
