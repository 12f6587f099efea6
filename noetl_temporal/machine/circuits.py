"""Circuit breakers: calls of a task fail immediately after too many failures (semantics.md 22b).

How it works. A circuit is *closed* until a number of calls have failed; then it is *open*. While it is open, calls are
refused, until the probe is due: the next call is the probe. If it succeeds, the circuit closes; if it fails, the
circuit opens again. Other calls are refused meanwhile. A call counts once, with all its attempts, when it ends.

These are pure functions of a state and a fact. Times are those of facts, in milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Circuit, Value
from noetl_temporal.machine import quantities
from noetl_temporal.machine.circuit_state import CircuitLimits, CircuitState

__all__ = [
    "MAX_FAILURES",
    "CircuitChange",
    "call_begins",
    "call_cancelled",
    "call_ended",
    "latest_states",
    "limits_of",
]

MAX_FAILURES = 1000
"""The highest number of failures that a circuit may allow: it remembers their times."""

CircuitChange = Literal["", "circuit.opened", "circuit.probed", "circuit.closed"]
"""A change of a circuit, as the type of its event."""


class CallStart(NamedTuple):
    """The circuit after a call was requested. ``refusal`` says why the call is not made, "" if it is made."""

    state: CircuitState
    change: CircuitChange = ""
    refusal: str = ""


def limits_of(circuit: Circuit, scope: Mapping[str, Any]) -> CircuitLimits:
    """Return the numbers of a circuit breaker, rendered. Raises TemplateFailure."""
    failures = quantities.count(templates.render(circuit.failures, scope), "failures", circuit.span, minimum=1)
    if failures > MAX_FAILURES:
        message = f"failures is {failures:,}, expected a whole number of at most {MAX_FAILURES:,}"
        raise templates.TemplateFailure(message, circuit.span)
    window, probe = (_milliseconds(circuit, name, scope) for name in ("window", "probe"))
    return CircuitLimits(failures, window, probe)


def _milliseconds(circuit: Circuit, name: str, scope: Mapping[str, Any]) -> int | None:
    value: Value | None = getattr(circuit, name)
    duration = None if value is None else templates.render(value, scope)
    return None if duration is None else round(quantities.seconds(duration, name, circuit.span) * 1000)


def call_begins(state: CircuitState, limits: CircuitLimits, call: str, at: int) -> CallStart:
    """Decide whether the call with this id may be made."""
    state = replace(state, limits=limits)
    if not state.opened_at:
        return CallStart(state)
    if state.probe_call:
        return CallStart(state, refusal="a call is being made as a probe")
    if limits.probe is None:
        return CallStart(state, refusal="it has no probe")
    due = state.opened_at + limits.probe
    if at < due:
        return CallStart(state, refusal=f"the next probe is in {(due - at) / 1000:g} s")
    return CallStart(replace(state, probe_call=call), "circuit.probed")


def call_ended(state: CircuitState, call: str, at: int, *, failed: bool) -> tuple[CircuitState, CircuitChange]:
    """Record the end of a call. It does not count if it began before the circuit opened."""
    limits = state.limits
    if state.opened_at and state.probe_call != call:
        return state, ""
    if state.opened_at and failed:
        return replace(state, opened_at=at, probe_call="", ended_at=at), "circuit.opened"
    if state.opened_at:
        return CircuitState(ended_at=at, limits=limits), "circuit.closed"
    failures = state.failure_times
    if limits.window is not None:
        failures = tuple(failed_at for failed_at in failures if failed_at > at - limits.window)
    elif not failed:
        failures = ()
    if not failed:
        return CircuitState(failures, ended_at=at, limits=limits), ""
    failures = (*failures, at)[-limits.failures :]
    if len(failures) < limits.failures:
        return CircuitState(failures, ended_at=at, limits=limits), ""
    return CircuitState(failures, opened_at=at, ended_at=at, limits=limits), "circuit.opened"


def call_cancelled(state: CircuitState, call: str) -> CircuitState:
    """Record that a call was cancelled: it does not count, and the next call may be the probe instead."""
    return replace(state, probe_call="") if state.probe_call == call else state


def latest_states(states: Mapping[str, CircuitState], reports: Mapping[str, CircuitState]) -> dict[str, CircuitState]:
    """Merge two mappings of circuits by name: of two states of a circuit, the one in which a call ended last counts."""
    newer = {
        name: state for name, state in reports.items() if name not in states or state.ended_at > states[name].ended_at
    }
    return {**states, **newer}
