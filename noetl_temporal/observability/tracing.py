"""Exports OpenTelemetry traces of runs if the standard environment variables name a collector.

Without OTEL_EXPORTER_OTLP_ENDPOINT nothing of OpenTelemetry is imported. The spans themselves are in spans.py.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing the SDK is slow
    from temporalio.worker import Interceptor

    from noetl_temporal.calls.call_log import CallLog
    from noetl_temporal.machine.call import ToolCall
    from noetl_temporal.messages.run_input import RunInput
    from noetl_temporal.observability.spans import Spans

__all__ = ["attempt_span", "export_all", "submission_span", "tracing_interceptors", "tracing_warning"]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"

EXPORTER = "opentelemetry.exporter.otlp.proto.http"
"""A package of the extra ``otel`` that depends on all its other packages."""

EXPORT_SECONDS = 5.0
"""How long a command waits at its end until the collector has received the last spans."""

_log = logging.getLogger(__name__)


def tracing_warning() -> str | None:
    """Return the warning if no traces are exported although the environment names a collector; None otherwise."""
    if not _is_configured():
        return None
    if not _is_installed():
        return (
            f"no traces: {_endpoint_variable()} is set, but OpenTelemetry is not installed: "
            'pip install "noetl-temporal[otel]", or unset the variable'
        )
    name = next((name for name in PROTOCOLS if os.environ.get(name)), None)
    if name is not None and os.environ[name] != PROTOCOL:
        return f"no traces: {name} is {os.environ[name]!r}, and only {PROTOCOL} is supported"
    return None


def submission_span(run_input: RunInput) -> AbstractContextManager[None]:
    """Return the span of a submission, the root of the run's trace."""
    spans = _spans()
    return nullcontext() if spans is None else spans.submission(run_input)


def attempt_span(call: ToolCall, log: CallLog) -> AbstractContextManager[None]:
    """Return the span of one attempt of a call."""
    spans = _spans()
    return nullcontext() if spans is None else spans.attempt(call, log)


def tracing_interceptors() -> Sequence[Interceptor]:
    """Return the interceptors of a worker that serves workflows."""
    spans = _spans()
    if spans is None:
        return ()
    from noetl_temporal.observability.spans import RunInterceptor

    return (RunInterceptor(spans),)


def export_all() -> None:
    """Export the remaining spans when the process ends; wait at most EXPORT_SECONDS for the collector."""
    spans = _spans() if _spans.cache_info().currsize else None
    if spans is not None:
        closing = threading.Thread(target=spans.close, daemon=True)
        closing.start()
        closing.join(EXPORT_SECONDS)


@functools.cache
def _spans() -> Spans | None:
    if not _is_configured():
        return None
    warning = tracing_warning()
    if warning is not None:
        _log.warning(warning)
        return None
    from noetl_temporal.observability.spans import exporting_spans

    return exporting_spans()


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(EXPORTER) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _is_configured() -> bool:
    """Whether the environment names a collector and does not disable traces."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or "otlp" not in _exporters()
    return _endpoint_variable() is not None and not is_off


def _exporters() -> list[str]:
    return [name.strip() for name in (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")]


def _endpoint_variable() -> str | None:
    return next((name for name in ENDPOINTS if os.environ.get(name)), None)
