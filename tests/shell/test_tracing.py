"""When there are traces, by the environment."""

from __future__ import annotations

import sys

import pytest

from noetl_temporal.observability.tracing import tracing_warning

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where OpenTelemetry is not installed."""
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)


@pytest.mark.parametrize("name", [ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_an_endpoint_without_the_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:4318")
    assert tracing_warning() == (
        f"no traces: {name} is set, but OpenTelemetry is not installed: "
        'pip install "noetl-temporal[otel]", or unset the variable'
    )


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_environments_that_enable_no_tracing(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert tracing_warning() is None
