"""A replay emits no spans: the workflow that is replayed has emitted its own."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import workflow
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from dev.histories.files import FOLDER
from noetl_temporal.inspection.replay import parse_history
from noetl_temporal.observability.spans import RunInterceptor, Spans
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.workflows.definitions import WORKFLOWS, interceptors

FILE = min(FOLDER.glob("*.loop.json"))


@pytest.mark.parametrize("is_replaying", [True, False])
async def test_a_replay_emits_no_spans(monkeypatch: pytest.MonkeyPatch, is_replaying: bool) -> None:
    """The control, which believes that it does not replay, emits one."""
    if not is_replaying:
        monkeypatch.setattr(workflow.unsafe, "is_replaying", lambda: False)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[RunInterceptor(Spans(provider)), *interceptors()],
        data_converter=data_converter(),
        debug_mode=True,
    )
    await replayer.replay_workflow(parse_history(FILE.read_text()))
    names = [span.name.split()[0] for span in exporter.get_finished_spans()]
    assert names == ([] if is_replaying else ["loop"])
