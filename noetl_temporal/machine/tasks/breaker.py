"""The circuit breaker of a task: checked before each of its calls, updated after each (semantics.md 22b)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_compiler.graph import Circuit
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.circuits import CircuitChange, call_begins, call_cancelled, call_ended, limits_of
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import TaskPlan

__all__ = ["record_cancellation", "record_end", "refusal"]


def refusal(
    host: Host, state: PipelineState, plan: TaskPlan, circuit: Circuit, call_id: str, names: Mapping[str, Any]
) -> PlainOutcome | None:
    """Record the start of a call. Returns the outcome of a call that is refused because the circuit is open; None if it
    may be made. Raises TemplateFailure.
    """
    name = _name(host, plan)
    before = host.circuits.get(name, CircuitState())
    call = call_begins(before, limits_of(circuit, names), call_id, host.journal.feed.at)
    host.circuits[name] = call.state
    _emit_change(host, state, plan, call.change, call.state)
    if not call.refusal:
        return None
    message = f"not called, the circuit breaker of {plan.task.label} is open: {call.refusal}"
    return error_outcome("circuit_open", message)


def record_end(host: Host, state: PipelineState, plan: TaskPlan, outcome: PlainOutcome) -> None:
    """Record the end of a call, with all its attempts."""
    circuit = host.circuits.get(_name(host, plan))
    if circuit is None:
        return
    new, change = call_ended(circuit, state.pending_id, host.journal.feed.at, failed=outcome["status"] == "error")
    host.circuits[_name(host, plan)] = new
    _emit_change(host, state, plan, change, new)


def record_cancellation(host: Host, state: PipelineState, plan: TaskPlan) -> None:
    """Record that a call was cancelled by a stop."""
    circuit = host.circuits.get(_name(host, plan))
    if circuit is not None:
        host.circuits[_name(host, plan)] = call_cancelled(circuit, state.pending_id)


def _name(host: Host, plan: TaskPlan) -> str:
    """Return the name of the circuit, the same for all runs of the step in this machine."""
    return f"{host.step.name}/{plan.name}"


def _emit_change(
    host: Host, state: PipelineState, plan: TaskPlan, change: CircuitChange, circuit: CircuitState
) -> None:
    if not change:
        return
    host.journal.emit(
        change,
        plan.task.label,
        plan.task.kind,
        "COMPLETED",
        parent=state.progress.event_id,
        span=plan.circuit.span if plan.circuit is not None else None,
        meta={**host.meta},
        failures=len(circuit.failure_times) or None,
        probe_seconds=None if circuit.limits.probe is None else circuit.limits.probe / 1000,
    )
