"""Traces, exported to a collector that takes them over HTTP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

SECRET = "hunter2-in-the-payload"

PLAYBOOK = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: traced, path: tests/traced}
workload: {word: none}
workflow:
  - step: each
    loop: {in: [1, 2, 3], iterator: item, spec: {mode: parallel}}
    tool: {kind: noop}
    next: {arcs: [{step: other}]}
  - step: other
    tool: {kind: playbook, path: tests/called}
    next: {arcs: [{step: last}]}
  - step: last
    tool:
      kind: python
      input: {word: "{{ workload.word }}"}
      code: |
        raise ValueError(word)
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' }}"
              then: {do: retry, attempts: 2, delay: 0.01}
"""

CALLED_PLAYBOOK = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: called, path: tests/called}
workflow:
  - step: inner
    tool: {kind: noop}
"""


class Span(NamedTuple):
    """As exported; ids are hexadecimal, ``parent`` "" at the root."""

    id: str
    parent: str
    trace: str
    links: Sequence[str]
    name: str
    service: str
    values: dict[str, str | int]
    is_error: bool


class Collector:
    """Keeps all spans that it is sent, and the bytes of the requests."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.received = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
                """Quietly."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        self.received += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            for scope in resource.scope_spans:
                self.spans += [_span(span, service) for span in scope.spans]

    def of_run(self, execution_id: str) -> list[Span]:
        return [span for span in self.spans if span.values["noetl.execution_id"] == execution_id]


def _span(expected: Any, service: str) -> Span:
    values = {
        attribute.key: attribute.value.string_value or attribute.value.int_value for attribute in expected.attributes
    }
    return Span(
        expected.span_id.hex(),
        expected.parent_span_id.hex(),
        expected.trace_id.hex(),
        [link.span_id.hex() for link in expected.links],
        expected.name,
        service,
        values,
        expected.status.code == expected.status.STATUS_CODE_ERROR,
    )


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


def traced_run(site: Site) -> str:
    """The execution id of a run by a worker that exports, which has stopped."""
    worker = site.start("worker")
    try:
        site.write(CALLED_PLAYBOOK, "called.yaml")
        return str(site.run(site.write(PLAYBOOK), "--set", f"word={SECRET}")["execution_id"])
    finally:
        worker.terminate()
        _, log = worker.communicate(timeout=60)
        of_the_task = log.count('File "<python task>"')
        assert log.count("Traceback") == of_the_task, log


def test_the_spans_of_a_run_are_one_tree(cluster: None, collector: Collector, bare: Site) -> None:
    del cluster
    execution_id = traced_run(bare)
    spans = collector.of_run(execution_id)
    [submission] = [span for span in spans if not span.parent]
    assert submission.name == "submit tests/traced"
    assert len({span.id for span in spans}) == len(spans)
    assert {span.trace for span in spans} == {submission.trace}

    def below(parent: Span) -> list[Span]:
        return [span for span in spans if span.parent == parent.id]

    [run] = below(submission)
    assert (run.name, run.values["noetl.status"], run.service) == ("run tests/traced", "failed", "noetl")
    *attempts, loop = sorted(below(run), key=lambda span: (span.name, span.values.get("noetl.attempt", 0)))
    assert [
        (attempt.name, attempt.values["noetl.attempt"], attempt.values["noetl.status"]) for attempt in attempts
    ] == [
        ("call last", 1, "error"),
        ("call last", 2, "error"),
    ]
    assert (loop.name, loop.values["noetl.status"]) == ("loop each", "completed")
    assert [(attempt.values["error.type"], attempt.values["noetl.tool"], attempt.is_error) for attempt in attempts] == [
        ("exception", "python", True)
    ] * 2
    assert {(entry.name, entry.values["noetl.iteration"]) for entry in below(loop)} == {
        ("call each", n) for n in range(3)
    }
    assert len(spans) == 8  # the submission, the run, the loop, its three calls, two attempts


def test_a_called_playbook_has_a_trace_that_is_linked(cluster: None, collector: Collector, bare: Site) -> None:
    del cluster
    traced_run(bare)
    [run] = [span for span in collector.spans if span.name == "run tests/traced"]
    [called_span] = [span for span in collector.spans if span.name == "run tests/called"]
    [inner] = [span for span in collector.spans if span.name == "call inner"]
    assert (called_span.links, called_span.parent, inner.parent) == ([run.id], "", called_span.id)
    assert called_span.trace == inner.trace != run.trace


def test_spans_hold_no_values(cluster: None, collector: Collector, bare: Site) -> None:
    del cluster
    traced_run(bare)
    assert b"tests/traced" in collector.received
    assert SECRET.encode() not in collector.received


def test_standard_variables(cluster: None, collector: Collector, bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    del cluster
    monkeypatch.setenv("OTEL_SERVICE_NAME", "etl")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
    traced_run(bare)
    assert {span.service for span in collector.spans} == {"etl"}
    count = len(collector.spans)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    traced_run(bare)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    traced_run(bare)
    assert len(collector.spans) == count


def test_a_collector_that_does_not_answer(
    cluster: None, bare: Site, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cluster
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert traced_run(bare)
    assert collector.spans == []


def test_a_protocol_that_is_not_supported(
    cluster: None, bare: Site, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cluster
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    worker = bare.start("worker")
    try:
        done = bare.noetl("run", str(bare.write(CALLED_PLAYBOOK)))
    finally:
        worker.terminate()
        _, log = worker.communicate(timeout=60)
    why = "no traces: OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', and only http/protobuf is supported"
    assert done.returncode == 0
    assert f"warning: {why}" in done.stderr
    assert why in log
    assert collector.spans == []
