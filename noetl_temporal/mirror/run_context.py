"""Adds the playbook's context to rows about a playbook, its workflow and its steps (loop-and-retry design, Context).

Rows about calls and iterations are many, so their context has only their own input; views add the playbook's context of
the last row that has it.
"""

from __future__ import annotations

from noetl_temporal.mirror.payloads import Json
from noetl_temporal.mirror.run_state import RunState
from noetl_temporal.mirror.sanitise import LARGE, sanitise
from noetl_temporal.shortening import abridge, abridge_values

__all__ = ["add_context"]

_KINDS = frozenset({"playbook", "workflow", "step"})

_STATUSES = {
    "step.done": "success",
    "step.failed": "failed",
    "step.skipped": "skipped",
    "step.cancelled": "cancelled",
}


def add_context(state: RunState, event: dict[str, Json]) -> None:
    """Update the context with an event of the playbook, and add the context to the event."""
    meta, context = event.get("meta", {}), event.get("context", {})
    is_in_iteration = "iteration" in meta
    if "workload" in context:
        state.workload = sanitise(context["workload"])
    if not is_in_iteration:
        state.vars |= {name: abridge(value, LARGE) for name, value in context.get("vars", {}).items()}
        if event["type"] in _STATUSES:
            state.step_results[event["node"]] = _result(event, meta)
    if event["kind"] in _KINDS and not is_in_iteration:
        event["context"] = {
            **context,
            "job_id": str(state.execution_id),
            "workload": abridge_values(state.workload, LARGE),
            "vars": abridge_values(state.vars, LARGE),
            "_step_results": dict(state.step_results),
        }


def _result(event: dict[str, Json], meta: dict[str, Json]) -> Json:
    """Return the entry of a step in ``_step_results``: its status, whether it has a result, and of which type."""
    result = event.get("result")
    has_data = result is not None or "left_out" in meta
    fields: dict[str, Json] = {"has_data": has_data, "status": _STATUSES[event["type"]]}
    type_ = meta.get("data_type") or (None if result is None else type(result).__name__)
    return fields if type_ is None else {**fields, "data_type": type_}
