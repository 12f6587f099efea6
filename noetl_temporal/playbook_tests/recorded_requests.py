"""Reads the requests of people and programs from the history of a run, as requests of a test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from noetl_compiler.graph import Graph, Json
from noetl_temporal.messages.control_requests import (
    DecidedRuns,
    DecisionRequest,
    HeldRequest,
    PauseRequest,
    SignalRequest,
)
from noetl_temporal.naming import (
    CANCEL_SIGNAL,
    DECIDE_UPDATE,
    PAUSE_UPDATE,
    RESUME_UPDATE,
    RETRY_UPDATE,
    SIGNAL_UPDATE,
    SKIP_UPDATE,
)

__all__ = ["RecordedRequest", "held_step_keys", "recorded_requests"]

_KINDS: Mapping[str, type[Any]] = {
    SIGNAL_UPDATE: SignalRequest,
    DECIDE_UPDATE: DecisionRequest,
    PAUSE_UPDATE: PauseRequest,
    RESUME_UPDATE: PauseRequest,
    RETRY_UPDATE: HeldRequest,
    SKIP_UPDATE: HeldRequest,
}

_ITEM = re.compile(r" (\d+):")
"""Matches the index of the item in the id of a wait in a loop."""


@dataclass(frozen=True)
class RecordedRequest:
    """A request that the run accepted at the time ``at``, in milliseconds since the epoch. ``keys`` are those of the
    request in a test. A decision about all held step runs is replaced by ``count`` requests, each about one of them.
    """

    id: int
    at: int
    keys: dict[str, Json]
    count: int = 1


async def recorded_requests(
    history: WorkflowHistory, converter: DataConverter, graph: Graph
) -> AsyncIterator[RecordedRequest]:
    """Yield the requests that this run of the workflow accepted, in order."""
    for event in history.events:
        if (reason := await _cancel_reason(event, converter)) is not None:
            keys = _without_empty({"do": "cancel", "reason": reason})
            yield RecordedRequest(event.event_id, event.event_time.ToMilliseconds(), keys)
        payloads = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        kind = _KINDS.get(payloads.name)
        if kind is None or not payloads.args.payloads:
            continue
        [request] = await converter.decode(payloads.args.payloads[:1], [kind])
        count = (
            await _decided_count(history, request, converter) if isinstance(request, HeldRequest) and request.all else 1
        )
        keys = _keys(payloads.name, request, graph)
        yield RecordedRequest(request.id, event.event_time.ToMilliseconds(), keys, count)


async def _decided_count(history: WorkflowHistory, request: HeldRequest, converter: DataConverter) -> int:
    """Return the number of held step runs that a decision about all of them has decided, from its result."""
    for event in history.events:
        attributes = event.workflow_execution_update_completed_event_attributes
        if attributes.meta.update_id == str(request.id):
            decided: DecidedRuns
            [decided] = await converter.decode(attributes.outcome.success.payloads[:1], [DecidedRuns])
            return decided.count
    return 0


async def _cancel_reason(event: HistoryEvent, converter: DataConverter) -> str | None:
    """Return the reason of a cancel request; None for other events. The first request is Temporal's cancel, further
    ones are signals.
    """
    if event.HasField("workflow_execution_cancel_requested_event_attributes"):
        return event.workflow_execution_cancel_requested_event_attributes.cause
    signal = event.workflow_execution_signaled_event_attributes
    if signal.signal_name != CANCEL_SIGNAL:
        return None
    reasons = await converter.decode(signal.input.payloads[:1], [str])
    return reasons[0] if reasons else ""


def _keys(update: str, request: Any, graph: Graph) -> dict[str, Json]:
    keys: dict[str, Json]
    match request:
        case SignalRequest():
            signal = request.signal
            return _without_empty({"do": "signal", "name": signal.name, "key": signal.key, "data": signal.data})
        case DecisionRequest():
            keys = {"do": "approve" if request.approved else "reject", **_waiting_step(request.wait_id, graph)}
            return _without_empty({**keys, "by": request.by, "reason": request.reason, "form": request.form})
        case HeldRequest():
            data = request.data if update == SKIP_UPDATE else None
            keys = {"do": update, **held_step_keys(request.step, graph), "data": data}
        case _:
            keys = {"do": update}
    return _without_empty({**keys, "by": request.by, "reason": request.reason})


def _waiting_step(wait_id: str, graph: Graph) -> dict[str, Json]:
    """Return the step that waits, and the item of its loop, from an id: ``review#1:ask:1``, ``review/1 3:ask:1``."""
    steps = [name for name in graph.steps if wait_id.startswith((f"{name}#", f"{name}/"))]
    item = _ITEM.search(wait_id)
    return {"step": max(steps, key=len, default=None), "iteration": int(item[1]) if item else None}


def held_step_keys(step: str, graph: Graph) -> dict[str, Json]:
    """Return the held step, and the item of its loop, from the name in a request: ``load``, ``load#2``, ``load[3]``, or
    ``each/1/3/load#1``.
    """
    if step in graph.steps:
        return {"step": step}
    path, _, name_and_item = step.partition("#")[0].rpartition("/")
    name, _, item = name_and_item.rstrip("]").partition("[")
    index = item or path.rpartition("/")[2]
    return {"step": unquote(name), "iteration": int(index) if index.isdigit() else None}


def _without_empty(keys: dict[str, Json]) -> dict[str, Json]:
    """Return the keys with values that are not empty; ``data`` may be."""
    return {key: value for key, value in keys.items() if value is not None and (key == "data" or value not in ("", {}))}
