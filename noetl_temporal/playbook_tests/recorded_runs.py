"""Reads the payload, the calls and the requests of a run from its histories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter

from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.frames.segments import read_segment
from noetl_temporal.inspection.replay import histories_of
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.stored import with_stored
from noetl_temporal.messages.frame import FRAME_ACTIVITY, FrameEnd
from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW, activity_type
from noetl_temporal.payloads.stored_values import load_json, load_result
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.playbook_tests.recorded_playbook_calls import playbook_calls
from noetl_temporal.playbook_tests.recorded_requests import RecordedRequest, recorded_requests

__all__ = ["RecordedCall", "RecordedRun", "recorded_run"]

T = TypeVar("T")


@dataclass(frozen=True)
class RecordedCall:
    """A call. Its times are in milliseconds since the epoch.

    ``report`` is None if no worker reported. ``closed`` is the time at which Temporal closed the call, None if that is
    not known.
    """

    call: ToolCall
    report: ToolReport | None
    scheduled: int
    closed: int | None = None

    def is_running_at(self, time_ms: int) -> bool:
        """Whether the call was in progress at this time, in milliseconds since the epoch."""
        reported_end = self.report.attempts[-1].ended if self.report and self.report.attempts else None
        end = self.closed if reported_end is None else reported_end
        return self.scheduled <= time_ms and (end is None or time_ms <= end)


@dataclass
class RecordedRun:
    """A run, read from its histories.

    ``calls`` has its calls by key, in the order in which they were scheduled. ``started`` is in milliseconds since the
    epoch. A rerun reuses the outcomes that the run ``rerun_of`` had before the step ``rerun_from``.
    """

    graph: Graph
    payload: dict[str, Json]
    started: int
    calls: dict[str, RecordedCall] = field(default_factory=dict[str, RecordedCall])
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])
    rerun_of: int = 0
    rerun_from: str = ""

    def combined_with(self, earlier: RecordedRun) -> RecordedRun:
        """Return one run that combines the reused part of the ``earlier`` run with this rerun."""
        repeated_starts = [call.scheduled for call in earlier.calls.values() if call.call.step == self.rerun_from]
        end = min(repeated_starts, default=self.started)
        calls = {key: call for key, call in earlier.calls.items() if call.scheduled < end}
        requests = [
            request for request in earlier.requests if request.at <= end
        ]  # a request that led to the step has the same time
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
    """Read a run. Raises RPCError, and LookupError if a value is missing or Temporal has no history of the run."""
    values = ValueStore(converter)
    run: RecordedRun | None = None
    requests: dict[int, RecordedRequest] = {}
    calls: list[tuple[int, RecordedCall]] = []
    workflow_ids = {workflow_id}
    """The workflow of the run, and those of its loops."""
    async for history in histories_of(client, workflow_id):
        attributes = history.events[0].workflow_execution_started_event_attributes
        parent_id = attributes.parent_workflow_execution.workflow_id
        if attributes.workflow_type.name == LOOP_WORKFLOW and parent_id in workflow_ids:
            workflow_ids.add(history.workflow_id)
        if history.workflow_id not in workflow_ids:
            continue  # the history of a playbook that the run called
        if attributes.workflow_type.name == PLAYBOOK_WORKFLOW:
            run_input, playbook = await converter.decode(attributes.input.payloads[:2], [RunInput, Playbook])
            run = run or RecordedRun(playbook.graph, {}, history.events[0].event_time.ToMilliseconds())
            payload = await _load_payload(run_input, values)
            run.graph, run.payload = playbook.graph, payload or run.payload
            if run_input.rerun is not None:
                run.rerun_of, run.rerun_from = run_input.rerun.execution_id, run_input.rerun.step
            async for request in recorded_requests(history, converter, playbook.graph):
                requests.setdefault(request.id, request)
        calls += [call async for call in _calls(history, converter, values)]
        calls += [(call.scheduled, RecordedCall(*call)) async for call in playbook_calls(history, converter)]
    if run is None:
        raise LookupError(f"Temporal has no history of {workflow_id}")
    for _, call in sorted(calls, key=lambda scheduled_call: scheduled_call[0]):
        run.calls[call.call.key] = call
    run.requests = sorted(requests.values(), key=lambda request: request.at)
    return run


async def _load_payload(run_input: RunInput, values: ValueStore) -> dict[str, Json]:
    """Return the payload of the run, with its stored values loaded."""
    stored_values = {
        pointer: msgspec.json.decode(await load_json(values, reference))
        for pointer, reference in run_input.stored_payload.items()
    }
    payload: dict[str, Json] = with_values_at(run_input.payload, stored_values)
    return payload


async def _calls(
    history: WorkflowHistory, converter: DataConverter, values: ValueStore
) -> AsyncIterator[tuple[int, RecordedCall]]:
    """Yield the calls of one workflow, each with the time at which it was scheduled, in milliseconds."""
    closing_events = {id_: event for event in history.events if (id_ := _scheduled_id_of_closed(event))}
    for event in history.events:
        attributes = event.activity_task_scheduled_event_attributes
        name, closing_event = attributes.activity_type.name, closing_events.get(event.event_id)
        if not name:
            continue
        result = closing_event.activity_task_completed_event_attributes.result.payloads if closing_event else None
        if name == FRAME_ACTIVITY:
            end = await _decode(converter, result, FrameEnd)
            async for scheduled_call in _calls_of_frame(end.last_segment if end else None, values):
                yield scheduled_call
            continue
        call = await _decode(converter, attributes.input.payloads, ToolCall)
        if call is not None and name == activity_type(call.kind):
            report = await _decode(converter, result, ToolReport)
            scheduled = event.event_time.ToMilliseconds()
            closed = closing_event.event_time.ToMilliseconds() if closing_event else None
            yield scheduled, RecordedCall(call, await _with_result(report, values), scheduled, closed)


def _scheduled_id_of_closed(event: HistoryEvent) -> int:
    """Return the id of the event that scheduled the activity which this event closes; 0 for other events."""
    return (
        event.activity_task_completed_event_attributes.scheduled_event_id
        or event.activity_task_failed_event_attributes.scheduled_event_id
        or event.activity_task_timed_out_event_attributes.scheduled_event_id
        or event.activity_task_canceled_event_attributes.scheduled_event_id
    )


async def _decode(converter: DataConverter, payloads: Sequence[Payload] | None, kind: type[T]) -> T | None:
    value: T | None = (await converter.decode(payloads[:1], [kind]))[0] if payloads else None
    return value


async def _calls_of_frame(key: str | None, values: ValueStore) -> AsyncIterator[tuple[int, RecordedCall]]:
    while key is not None:
        segment = await read_segment(values, key)
        for raw in segment.entries:
            entry = msgspec.json.decode(raw, type=_Entry)
            if entry.call is not None:
                yield (
                    entry.scheduled,
                    RecordedCall(entry.call, await _with_result(entry.report, values), entry.scheduled),
                )
        key = segment.previous_key


async def _with_result(report: ToolReport | None, values: ValueStore) -> ToolReport | None:
    """Return the report with its result, which is loaded if it was stored."""
    if report is None or report.stored is None:
        return report
    outcome = await load_result(with_stored(report.outcome, report.stored), values)
    return msgspec.structs.replace(report, outcome=outcome, stored=None)
