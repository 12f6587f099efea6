"""Creates the spans of a run: its submission, the workflows of the run and of its loops, and each attempt of a call.

No trace context is sent with a run: the ids of its trace, of its submission and of its workflows are hashes of ids that
Temporal passes on anyway. So each process can compute the parent of its spans, and histories are the same with and
without traces. The span of a workflow is emitted when it ends, by the worker that ends it, and not in a replay.

Spans have names, ids and statuses, but no values of a playbook and no messages of errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.messages.run_input import RunInput, RunReport
from noetl_temporal.naming import PLAYBOOK_CANCELLED
from noetl_temporal.workflows.current_workflow import with_execution_id
from noetl_temporal.workflows.loop_run import LoopRun

__all__ = ["RunInterceptor", "Spans", "exporting_spans"]

SERVICE = "noetl"
"""The name of the service if the environment has none."""

_SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
_RESOURCE_VARIABLE = "OTEL_RESOURCE_ATTRIBUTES"


class _SpanIds(NamedTuple):
    """The ids of a span of this or another process."""

    trace_id: int
    span_id: int


_next_span: ContextVar[_SpanIds | None] = ContextVar("next_span", default=None)
"""The ids for the span that is being started; None for random ids."""


class _IdGenerator(RandomIdGenerator):
    """Returns the ids in ``_next_span``, or random ones."""

    def generate_trace_id(self) -> int:
        ids = _next_span.get()
        return super().generate_trace_id() if ids is None else ids.trace_id

    def generate_span_id(self) -> int:
        ids = _next_span.get()
        return super().generate_span_id() if ids is None else ids.span_id


class Spans:
    """Starts the spans of a process, with ``provider``."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("noetl_temporal")

    @contextmanager
    def submission(self, run_input: RunInput) -> Generator[None]:
        """Trace the submission of a run in the block. Its span has a link to the current span of the caller."""
        caller = trace.get_current_span().get_span_context()
        links = [Link(caller)] if caller.is_valid else []
        ids = _submission_ids(run_input.execution_id)
        span = self._start(ids, None, f"submit {run_input.path}", _run_attributes(run_input), SpanKind.PRODUCER, links)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise

    @contextmanager
    def attempt(self, call: ToolCall, log: CallLog) -> Generator[None]:
        """Trace an attempt of a call, which ``log`` records, in the block. Outside of an activity there is no span."""
        if not activity.in_activity():
            yield
            return
        run_id = activity.info().workflow_run_id
        parent = _workflow_ids(call.execution_id, run_id or "")
        span = self._start(
            None, parent, f"call {call.step}", _call_attributes(call, log.attempt_number), SpanKind.CONSUMER
        )
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            finally:
                _set_end(span, log)

    def emit_workflow(
        self, ids: _SpanIds, parent: _SpanIds | None, name: str, attributes: Mapping[str, Any], links: list[Link]
    ) -> None:
        """Emit the span of the running workflow, which ends now."""
        start = int(workflow.info().workflow_start_time.timestamp() * 1_000_000_000)
        span = self._start(ids, parent, name, attributes, SpanKind.INTERNAL, links, start)
        if attributes["noetl.status"] == "failed":
            span.set_status(StatusCode.ERROR)
        span.end(workflow.time_ns())

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()

    def context(self, ids: _SpanIds) -> SpanContext:
        """Return the context of a span of this or another process. Sampling depends on the trace id alone, so it is the
        same in all processes.
        """
        decision = self._provider.sampler.should_sample(Context(), ids.trace_id, "").decision
        is_sampled = decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
        return SpanContext(ids.trace_id, ids.span_id, is_remote=True, trace_flags=flags)

    def _start(
        self,
        ids: _SpanIds | None,
        parent: _SpanIds | None,
        name: str,
        attributes: Mapping[str, Any],
        kind: SpanKind,
        links: list[Link] | None = None,
        start: int | None = None,
    ) -> trace.Span:
        context = Context()
        if parent is not None:
            context = trace.set_span_in_context(NonRecordingSpan(self.context(parent)), context)
        token = _next_span.set(ids)
        try:
            return self._tracer.start_span(name, context, kind, attributes, links, start)
        finally:
            _next_span.reset(token)


def exporting_spans() -> Spans:
    """Return the spans of this process, exported as the environment configures."""
    has_service_name = _SERVICE_VARIABLE in os.environ or f"{SERVICE_NAME}=" in os.environ.get(_RESOURCE_VARIABLE, "")
    resource = Resource.create({} if has_service_name else {SERVICE_NAME: SERVICE})
    provider = TracerProvider(resource=resource, id_generator=_IdGenerator(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider)


class RunInterceptor(Interceptor):
    """Emits a span for each workflow when it ends."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        spans = self._spans

        class Traced(_TracedWorkflow):
            def __init__(self, next_: WorkflowInboundInterceptor) -> None:
                super().__init__(next_, spans)

        return Traced


class _TracedWorkflow(WorkflowInboundInterceptor):
    def __init__(self, next_: WorkflowInboundInterceptor, spans: Spans) -> None:
        super().__init__(next_)
        self._spans = spans

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
        status = "completed"
        try:
            report = await super().execute_workflow(input)
            status = report.status if isinstance(report, RunReport) else status
        except workflow.ContinueAsNewError:
            status = "continued_as_new"
            raise
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        except ApplicationError as error:
            status = "cancelled" if error.type == PLAYBOOK_CANCELLED else "failed"
            raise
        else:
            return report
        finally:
            if not workflow.unsafe.is_replaying():
                self._emit(input.args[0], status)

    def _emit(self, workflow_input: Any, status: str) -> None:
        match workflow_input:
            case RunInput():
                self._emit_run(with_execution_id(workflow_input), status)
            case LoopRun():
                self._emit_loop(workflow_input, status)
            case _:  # the signature of the input was refused
                pass

    def _emit_run(self, run_input: RunInput, status: str) -> None:
        """Emit the span of a run. A called run has its own trace, with a link to its caller."""
        info, links = workflow.info(), list[Link]()
        if run_input.parent_execution_id is not None and info.parent is not None:
            links.append(Link(self._spans.context(_workflow_ids(run_input.parent_execution_id, info.parent.run_id))))
        is_submitted = run_input.parent_execution_id is None and not run_input.schedule
        parent = _submission_ids(run_input.execution_id) if is_submitted else None
        attributes = {**_run_attributes(run_input), "noetl.status": status}
        ids = _workflow_ids(run_input.execution_id, info.run_id)
        self._spans.emit_workflow(ids, parent, f"run {run_input.path}", attributes, links)

    def _emit_loop(self, loop_run: LoopRun, status: str) -> None:
        info, chunk = workflow.info(), loop_run.input
        step = chunk.loop_id.rpartition("/")[0]
        attributes = {
            "noetl.execution_id": str(chunk.execution_id),
            "noetl.step": step,
            "noetl.loop": chunk.loop_id,
            "noetl.first_iteration": chunk.first,
            "noetl.status": status,
        }
        parent = None if info.parent is None else _workflow_ids(chunk.execution_id, info.parent.run_id)
        ids = _workflow_ids(chunk.execution_id, info.run_id)
        self._spans.emit_workflow(ids, parent, f"loop {step}", attributes, [])


def _run_attributes(run_input: RunInput) -> dict[str, Any]:
    attributes = {
        "noetl.execution_id": str(run_input.execution_id),
        "noetl.path": run_input.path,
        "noetl.version": run_input.version,
    }
    return attributes | ({"noetl.schedule": run_input.schedule} if run_input.schedule else {})


def _call_attributes(call: ToolCall, attempt: int) -> dict[str, Any]:
    indices = {"noetl.iteration": call.iteration, "noetl.page": call.page}
    return {
        "noetl.execution_id": str(call.execution_id),
        "noetl.step": call.step,
        "noetl.task": call.task,
        "noetl.tool": call.kind,
        "noetl.attempt": attempt,
        **{name: value for name, value in indices.items() if value is not None},
    }


def _set_end(span: trace.Span, log: CallLog) -> None:
    last = log.records[-1]
    status = last.status if last.ended is not None else log.interruption_reason or last.status
    span.set_attribute("noetl.status", status)
    if last.do is not None:
        span.set_attribute("noetl.action", last.do)
    if status in ("error", "lost"):
        span.set_attribute("error.type", str((last.error or {}).get("kind") or status))
        span.set_status(StatusCode.ERROR)


def _submission_ids(execution_id: int) -> _SpanIds:
    return _SpanIds(_trace_id(execution_id), _hash(f"submission/{execution_id}", 8))


def _workflow_ids(execution_id: int, run_id: str) -> _SpanIds:
    """Return the ids of the span of a workflow run. If a workflow continues as new, each of its runs has a span."""
    return _SpanIds(_trace_id(execution_id), _hash(f"workflow/{run_id}", 8))


def _trace_id(execution_id: int) -> int:
    return _hash(f"trace/{execution_id}", 16)


def _hash(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big")
