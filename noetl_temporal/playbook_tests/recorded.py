"""Reads what a run was given and what its calls returned, out of its histories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter

from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.frames.segments import read
from noetl_temporal.frames.wire import FRAME_ACTIVITY, FrameEnd
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.stored import with_stored
from noetl_temporal.naming import PLAYBOOK_WORKFLOW, activity_type
from noetl_temporal.playbook_tests.recorded_requests import RecordedRequest, recorded_requests
from noetl_temporal.replay import histories_of
from noetl_temporal.run_input import Playbook, RunInput
from noetl_temporal.stored_values import load_json, with_result_loaded
from noetl_temporal.value_store import ValueStore

__all__ = ["RecordedCall", "RecordedRun", "recorded_run"]


@dataclass(frozen=True)
class RecordedCall:
    """A call, when it was ``scheduled``, in milliseconds since the epoch, and what its activity reported; None where
    no worker reported.
    """

    call: ToolCall
    report: ToolReport | None
    scheduled: int

    def runs_at(self, at: int) -> bool:
        """Whether it was in progress then."""
        ended = self.report.attempts[-1].ended if self.report and self.report.attempts else None
        return self.scheduled <= at and ended is not None and at <= ended


@dataclass
class RecordedRun:
    """A run, read from its histories.

    ``calls`` by key, in the order in which they were scheduled; ``started`` in milliseconds since the epoch. A
    rerun continues what the run ``rerun_of`` had done before the step ``rerun_from``.
    """

    graph: Graph
    payload: dict[str, Json]
    started: int
    calls: dict[str, RecordedCall] = field(default_factory=dict[str, RecordedCall])
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])
    rerun_of: int = 0
    rerun_from: str = ""

    def after(self, earlier: RecordedRun) -> RecordedRun:
        """Return this rerun and what it took over from the earlier run as one run."""
        taken_over = [call.scheduled for call in earlier.calls.values() if call.call.step == self.rerun_from]
        end = min(taken_over, default=self.started)
        calls = {key: call for key, call in earlier.calls.items() if call.scheduled < end}
        requests = [
            request for request in earlier.requests if request.at <= end
        ]  # one that led to the step has its time
        return replace(
            earlier,
            graph=self.graph,
            payload=self.payload,
            calls=calls | self.calls,
            requests=requests + self.requests,
        )


class _Entry(msgspec.Struct):
    """An entry of a segment: an event, or a call that ended."""

    event: DomainEvent | None = None
    call: ToolCall | None = None
    report: ToolReport | None = None
    scheduled: int = 0


async def recorded_run(client: Client, converter: DataConverter, workflow_id: str) -> RecordedRun:
    """Raises RPCError, and LookupError for values that are gone or a run of which nothing is left."""
    values = ValueStore(converter)
    run: RecordedRun | None = None
    requests: dict[int, RecordedRequest] = {}
    calls: list[tuple[int, RecordedCall]] = []
    async for history in histories_of(client, workflow_id):
        started = history.events[0].workflow_execution_started_event_attributes
        if started.workflow_type.name == PLAYBOOK_WORKFLOW and history.workflow_id == workflow_id:
            given, playbook = await converter.decode(started.input.payloads[:2], [RunInput, Playbook])
            run = run or RecordedRun(playbook.graph, {}, history.events[0].event_time.ToMilliseconds())
            payload = await _loaded_payload(given, values)
            run.graph, run.payload = playbook.graph, payload or run.payload
            if given.rerun is not None:
                run.rerun_of, run.rerun_from = given.rerun.execution_id, given.rerun.step
            async for request in recorded_requests(history, converter, playbook.graph):
                requests.setdefault(request.id, request)
        calls += [call async for call in _calls(history, converter, values)]
    if run is None:
        raise LookupError(f"Temporal has no history of {workflow_id}")
    for _, call in sorted(calls, key=lambda timed: timed[0]):
        run.calls[call.call.key] = call
    run.requests = sorted(requests.values(), key=lambda request: request.at)
    return run


async def _loaded_payload(given: RunInput, values: ValueStore) -> dict[str, Json]:
    """Return the request with the values in it that are stored."""
    loaded = {place: msgspec.json.decode(await load_json(values, one)) for place, one in given.kept.items()}
    payload: dict[str, Json] = with_values_at(given.payload, loaded)
    return payload


async def _calls(
    history: WorkflowHistory, converter: DataConverter, values: ValueStore
) -> AsyncIterator[tuple[int, RecordedCall]]:
    """The calls of one workflow, each with the time at which it was scheduled, in milliseconds."""
    ends = dict(map(_end, filter(_is_end, history.events)))
    for event in history.events:
        attributes = event.activity_task_scheduled_event_attributes
        name, result = attributes.activity_type.name, ends.get(event.event_id)
        if not name:
            continue
        if name == FRAME_ACTIVITY:
            end = await _decoded(converter, result, FrameEnd)
            async for timed in _calls_of_frame(end.segments if end else None, values):
                yield timed
            continue
        call = await _decoded(converter, attributes.input.payloads, ToolCall)
        if call is not None and name == activity_type(call.kind):
            report = await _decoded(converter, result, ToolReport)
            at = event.event_time.ToMilliseconds()
            yield at, RecordedCall(call, await _whole(report, values), at)


def _is_end(event: HistoryEvent) -> bool:
    return bool(event.activity_task_completed_event_attributes.scheduled_event_id)


def _end(event: HistoryEvent) -> tuple[int, Sequence[Payload]]:
    attributes = event.activity_task_completed_event_attributes
    return attributes.scheduled_event_id, attributes.result.payloads


async def _decoded(converter: DataConverter, payloads: Sequence[Payload] | None, kind: type[Any]) -> Any:
    return (await converter.decode(payloads[:1], [kind]))[0] if payloads else None


async def _calls_of_frame(key: str | None, values: ValueStore) -> AsyncIterator[tuple[int, RecordedCall]]:
    while key is not None:
        segment = await read(values, key)
        for raw in segment.entries:
            entry = msgspec.json.decode(raw, type=_Entry)
            if entry.call is not None:
                yield entry.scheduled, RecordedCall(entry.call, await _whole(entry.report, values), entry.scheduled)
        key = segment.older


async def _whole(report: ToolReport | None, values: ValueStore) -> ToolReport | None:
    """Return the report with its result."""
    if report is None or report.stored is None:
        return report
    outcome = await with_result_loaded(with_stored(report.outcome, report.stored), values)
    return msgspec.structs.replace(report, outcome=outcome, stored=None)
